"""W3: the newest 20 messages over a chain of 16 upstream sessions.

First of 48 messages, three a session, tools included. Ours: `SqliteStore.messages(newest=20)`:
messages are keyed on the conversation, so the chain drops out. Raw scan: the same 20 from one
stream by one range scan. Raw walk: a stream for each session, walked from the newest until there
are 20. Decoding is measured on all sides.

Then prior context, 20 prompts and what was replied, of 100,000 messages: a first session of nearly
all of them, and fifteen of three messages after it. Ours: `SqliteStore.prior_messages`. Raw reads
as many messages of the same rows, told how many that are, and looks into each for who is speaking.
A last row, without a limit, is against a table made for this one question: the speaker in a column,
which the scan tests before it decodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import apsw
import raw
from measure import Row, Timing, compared, interleaved
from raw import RawStore
from scratch import scratch
from tests.support.default_turn import Place, link_of, open_place, prepare_turn, record_turn

from upthread.core.commands import EndLink, OpenLink, OpenTurn, RecordParts, Write
from upthread.core.turns.recorder import Recorder
from upthread.core.types import Speaker, TextPart
from upthread.store.sqlite import SqliteStore

SESSIONS = 16
MESSAGES = 3
NEWEST = 20
LOOKS = 20
HISTORY = 100_000
QUICK_HISTORY = 6_000
SCAN_LIMIT = 1.1
WALK_LIMIT = 1.0


def measure(*, is_quick: bool) -> list[Row]:
    """Return ours against the scan and against the walk, of a short history and of a long one."""
    return [*_short(is_quick=is_quick), *_long(is_quick=is_quick)]


def _long(*, is_quick: bool) -> list[Row]:
    history = QUICK_HISTORY if is_quick else HISTORY
    turns = history // 6
    tail = [raw.bodies(number)[:MESSAGES] for number in range(1, SESSIONS)]
    with scratch() as directory:
        ours = SqliteStore(directory / "ours.db")
        place = open_place(ours, "spec-42")
        for number in range(turns):
            record_turn(ours, place, prepare_turn(place, number))
        for session in range(2, SESSIONS + 1):
            ours.commit(tuple(_session(place, session, turns + session)))
        scanned, walked = RawStore(directory / "scan.db"), RawStore(directory / "walk.db")
        made = _Said(directory / "made.db")
        for first in range(0, turns, 1000):
            bodies = list(chain.from_iterable(map(raw.bodies, range(first, first + 1000))))
            scanned.append_history(1, bodies)
            walked.append_history(1, bodies)
            made.append_history(bodies)
        for stream, bodies in enumerate(tail, 2):
            scanned.append_history(1, bodies)
            walked.append_history(stream, bodies)
            made.append_history(bodies)
        streams = range(1, SESSIONS + 1)
        conversation_id = place.conversation.conversation_id
        readable = [link.upstream_session_id for link in ours.links(conversation_id)]
        assert len(readable) == SESSIONS
        found = ours.prior_messages(conversation_id, upstream_session_ids=readable, newest=NEWEST)
        said = len(found)
        assert sum(each.speaker is Speaker.USER for each in found) == NEWEST
        assert len(made.newest(said)) == said
        assert scanned.newest_said([1], said) == walked.newest_said(streams, said)
        assert made.newest(said) == scanned.newest_said([1], said)
        sides = {
            "scan": lambda: scanned.newest_said([1], said),
            "ours": lambda: ours.prior_messages(
                conversation_id, upstream_session_ids=readable, newest=NEWEST
            ),
            "walk": lambda: walked.newest_said(streams, said),
            "made": lambda: made.newest(said),
        }
        timings = interleaved(
            {name: lambda _, do=do: [do() for _ in range(LOOKS)] for name, do in sides.items()},
            repetitions=100 if is_quick else 400,
            budget_s=10,
            operations=LOOKS,
        )
    return _rows(f"prior context of {NEWEST} over {SESSIONS} sessions, {history:,}", timings)


def _rows(what: str, timings: dict[str, Timing]) -> list[Row]:
    ours = timings["ours"]
    return [
        compared("W3", f"{what}, against the scan", timings["scan"], ours, SCAN_LIMIT),
        compared("W3", f"{what}, against the walk", timings["walk"], ours, WALK_LIMIT),
        compared("W3", f"{what}, a column for the speaker", timings["made"], ours, None),
    ]


class _Said:
    """A table made for one question."""

    def __init__(self, path: Path) -> None:
        self.connection: Any = apsw.Connection(str(path))
        self.connection.execute(
            "PRAGMA journal_mode=WAL; PRAGMA cache_size=-8192;"
            "CREATE TABLE message (id INTEGER PRIMARY KEY, stream INTEGER, role TEXT, body BLOB);"
            "CREATE INDEX message_by_stream ON message (stream, id)"
        ).fetchall()

    def append_history(self, bodies: list[raw.Body]) -> None:
        with self.connection:
            self.connection.executemany(
                "INSERT INTO message (stream, role, body) VALUES (1, ?, ?)",
                [(each.role, raw.encode(each)) for each in bodies],
            )

    def newest(self, count: int) -> list[raw.Body]:
        rows = self.connection.execute(
            "SELECT body FROM message WHERE stream = 1 AND role <> 'tool' ORDER BY id DESC LIMIT ?",
            (count,),
        ).fetchall()
        return [raw.decode(body) for (body,) in reversed(rows)]


def _short(*, is_quick: bool) -> list[Row]:
    with scratch() as directory:
        ours = SqliteStore(directory / "ours.db")
        place = open_place(ours, "spec-42")
        for session in range(1, SESSIONS + 1):
            ours.commit(tuple(_session(place, session, session)))
        scanned, walked = RawStore(directory / "scan.db"), RawStore(directory / "walk.db")
        sessions = [raw.bodies(number)[:MESSAGES] for number in range(1, SESSIONS + 1)]
        scanned.append_history(1, chain.from_iterable(sessions))
        for stream, bodies in enumerate(sessions, 1):
            walked.append_history(stream, bodies)
        streams = range(1, SESSIONS + 1)
        conversation_id = place.conversation.conversation_id
        found = ours.messages(conversation_id, newest=NEWEST)
        assert len(found) == len(scanned.newest(1, NEWEST)) == NEWEST
        assert scanned.newest(1, NEWEST) == walked.newest_over_chain(streams, NEWEST)
        timings = interleaved(
            {
                "scan": lambda _: [scanned.newest(1, NEWEST) for _ in range(LOOKS)],
                "ours": lambda _: [
                    ours.messages(conversation_id, newest=NEWEST) for _ in range(LOOKS)
                ],
                "walk": lambda _: [walked.newest_over_chain(streams, NEWEST) for _ in range(LOOKS)],
            },
            repetitions=100 if is_quick else 400,
            budget_s=10,
            operations=LOOKS,
        )
    what = f"newest {NEWEST} over {SESSIONS} sessions"
    return [
        compared("W3", f"{what}, against the scan", timings["scan"], timings["ours"], SCAN_LIMIT),
        compared("W3", f"{what}, against the walk", timings["walk"], timings["ours"], WALK_LIMIT),
    ]


def _session(place: Place, session: int, number: int) -> Iterator[Write]:
    """Three messages in an upstream session of their own: user, call, result."""
    conversation = place.conversation
    place.link = link_of(conversation, session)
    if session > 1:
        yield EndLink(
            conversation_id=conversation.conversation_id,
            seq=session - 1,
            ended_because="expired",
            ended_at_ms=place.link.opened_at_ms,
        )
        yield OpenLink(link=place.link)
    turn = prepare_turn(place, number)
    yield OpenTurn(
        turn_id=turn.turn_id,
        conversation_id=conversation.conversation_id,
        opened_at_ms=turn.at_ms,
    )
    yield RecordParts(
        conversation_id=conversation.conversation_id,
        seq=place.next_seq,
        first_ordinal=0,
        speaker=Speaker.USER,
        turn_id=turn.turn_id,
        upstream_session_id=place.link.upstream_session_id,
        recorded_at_ms=turn.at_ms,
        parts=(TextPart(text=turn.prompt),),
    )
    recorder = Recorder(
        conversation=conversation,
        turn_id=turn.turn_id,
        link=place.link,
        next_seq=place.next_seq + 1,
    )
    for event in turn.events[:3]:  # text, call, result
        recorder.record(event, at_ms=turn.at_ms)
    yield from recorder.finish(at_ms=turn.at_ms)
    place.next_seq += MESSAGES
