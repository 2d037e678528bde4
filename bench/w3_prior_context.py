"""W3: the newest 20 messages over a chain of 16 upstream sessions of three messages each.

Ours: `SqliteStore.messages(newest=20)`: messages are keyed on the conversation, so the chain drops
out. Raw scan: the same 20 from one stream by one range scan. Raw walk: a stream for each session,
walked from the newest until there are 20. Decoding is measured on all sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import raw
from measure import Row, compared, interleaved
from raw import RawStore
from scratch import scratch

from upthread.core.commands import EndLink, OpenLink, OpenTurn, RecordParts, Write
from upthread.core.recorder import Recorder
from upthread.core.types import Speaker, TextPart
from upthread.store.sqlite import SqliteStore
from upthread.testing.default_turn import Place, link_of, open_place, prepare_turn

SESSIONS = 16
MESSAGES = 3
NEWEST = 20
LOOKS = 20
SCAN_LIMIT = 1.3
WALK_LIMIT = 1.0


def measure(*, is_quick: bool) -> list[Row]:
    """Return ours against the scan and against the walk."""
    with scratch() as directory:
        ours = SqliteStore(directory / "ours.db")
        place = open_place(ours, "spec-42")
        for session in range(1, SESSIONS + 1):
            ours.commit(tuple(_session(place, session)))
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


def _session(place: Place, session: int) -> Iterator[Write]:
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
    turn = prepare_turn(place, session)
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
