"""Repair OpenCode's database in a copy: calls without a result are closed.

Each call gets an id of its own. Rows that cannot be read stay as they are, since OpenCode has its
own reading of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from upthread.agent_stores.copies import Edit, RepairedCopy, keep, prepare, still_wrong
from upthread.agent_stores.lines import LINE_BYTES_MAX
from upthread.agents.opencode.database import Connection, beside, connected, object_in, opened
from upthread.agents.opencode.reader import OPEN_STATES, read_histories
from upthread.core.codec import encode_json
from upthread.core.events import INTERRUPTED
from upthread.core.history.json_values import object_of, text_of
from upthread.core.types import JsonValue

_TOOLS: Final = """
    SELECT part.session_id, part.id, part.data FROM part
    WHERE (?1 IS NULL OR part.session_id = ?1) AND length(part.data) <= ?2
    ORDER BY part.session_id, part.message_id, part.id"""


def repair(
    path: Path, into: Path, *, session_id: str | None = None, sessions: Iterable[str] = ()
) -> RepairedCopy:
    """Copy OpenCode's database and close, in the copy, each call that has no result.

    Only `sessions` are touched: those whose form the reader knows. UsageError when `into` has a
    copy already.
    """
    before, after = prepare(into, path)
    # With its log, which may hold what the file itself lacks.
    for suffix in ("", "-wal", "-shm"):
        if beside(path, suffix).exists():
            keep(beside(path, suffix), beside(before, suffix))
    after.touch(mode=0o600)
    edits: tuple[Edit, ...] = ()
    with (
        opened(path, takes_version_2=False) as source,
        closing(connected(str(after), apsw.SQLITE_OPEN_READWRITE)) as copy,
    ):
        with copy.backup("main", source.connection, "main") as backup:
            backup.step()
        # A backup takes over that the source has a log; the copy is to be one file.
        list(copy.execute("PRAGMA journal_mode = DELETE"))
        copy.execute("BEGIN")
        edits = tuple(_edited(copy, session_id, frozenset(sessions)))
        copy.execute("COMMIT")
    repaired = read_histories(after, session_id=session_id, characters_max=0)
    left = tuple(line for history in repaired for line in still_wrong(history))
    return RepairedCopy(source=path, before=before, after=after, edits=edits, left=left)


def _edited(copy: Connection, session_id: str | None, known: frozenset[str]) -> Iterator[Edit]:
    used: set[tuple[str, str]] = set()
    rows = list(copy.execute(_TOOLS, (session_id, LINE_BYTES_MAX)))
    for session, part_id, data in rows:
        part = object_in(data)
        if part.get("type") != "tool" or session not in known:
            continue
        changed = dict(part)
        reasons = [*_closed(changed), *_own_id(changed, str(session), used)]
        if reasons:
            copy.execute(
                "UPDATE part SET data = ? WHERE id = ?", (encode_json(changed).decode(), part_id)
            )
            yield Edit(
                place=f"{session} {part_id}",
                before=_in_words(part),
                after=_in_words(changed),
                why="; ".join(reasons),
            )


def _closed(part: dict[str, JsonValue]) -> Iterator[str]:
    state = object_of(part.get("state"))
    if text_of(state.get("status")) not in OPEN_STATES:
        return
    start = object_of(state.get("time")).get("start", 0)
    part["state"] = {
        "status": "error",
        "input": state.get("input") or {},
        "error": INTERRUPTED,
        # By this the reader knows a call that was cut off, whose end is unknown, from a failed one.
        "metadata": {**object_of(state.get("metadata")), "interrupted": True},
        "time": {"start": start, "end": start},
    }
    yield "the call has no result"


def _own_id(part: dict[str, JsonValue], session: str, used: set[tuple[str, str]]) -> Iterator[str]:
    call_id = text_of(part.get("callID"))
    number = 2
    own = call_id
    # Ids are the model's, and only as different as it makes them (1.18.33).
    while (session, own) in used:
        own, number = f"{call_id}_{number}", number + 1
    used.add((session, own))
    if own != call_id:
        part["callID"] = own
        yield "another call has its id"


def _in_words(part: Mapping[str, JsonValue]) -> str:
    state = object_of(part.get("state"))
    error = f": {text_of(state.get('error'))}" if state.get("error") else ""
    return f"{text_of(part.get('tool'))} {text_of(part.get('callID'))} {state.get('status')}{error}"
