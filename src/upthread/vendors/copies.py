"""Repair of an agent's store, in a copy: the original is only read, and both are kept.

Beside each other in a directory of ours (0700, files 0600): `before/` is the original byte for
byte, `after/` the copy that was changed. Putting it in the original's place is left to a person,
who knows whether the agent is running. The copy is read again, and what is still wrong is reported.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

from upthread.core.codec import encode_json
from upthread.core.history.rules import object_of, text_of
from upthread.core.history.soundness import faults
from upthread.core.stream import INTERRUPTED
from upthread.core.types import JsonValue
from upthread.errors import StoreError, UsageError
from upthread.vendors.base import VendorHistory
from upthread.vendors.lines import LINE_BYTES_MAX, read_object
from upthread.vendors.opencode import OPEN_STATES, Database, connected, opened, read_sessions

_TOOLS: Final = """
    SELECT part.session_id, part.id, part.data FROM part
    WHERE (?1 IS NULL OR part.session_id = ?1) AND length(part.data) <= ?2
    ORDER BY part.session_id, part.message_id, part.id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One place that differs between the copies, in words; None for what is not there."""

    place: str
    before: str | None
    after: str | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedCopy:
    """A repaired copy. `left` is what is still wrong with it, empty when it is valid."""

    source: Path
    before: Path
    after: Path
    edits: tuple[Edit, ...]
    left: tuple[str, ...]


def repair_database(
    path: Path, into: Path, *, session_id: str | None = None, sessions: Iterable[str] = ()
) -> RepairedCopy:
    """Copy OpenCode's database and close, in the copy, each call that has no result.

    Only `sessions` are touched: those whose form the reader knows. UsageError when `into` has a
    copy already.
    """
    before, after = prepare(into, path)
    for suffix in ("", "-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            keep(beside, before.with_name(before.name + suffix))
    after.touch(mode=0o600)
    edits: tuple[Edit, ...] = ()
    with (
        opened(path) as source,
        closing(connected(str(after), apsw.SQLITE_OPEN_READWRITE)) as copy,
    ):
        with copy.backup("main", source, "main") as backup:
            backup.step()
        list(copy.execute("PRAGMA journal_mode = DELETE"))
        copy.execute("BEGIN")
        edits = tuple(_edited(copy, session_id, frozenset(sessions)))
        copy.execute("COMMIT")
    repaired = read_sessions(after, session_id=session_id, characters_max=0)
    left = tuple(line for history in repaired for line in still_wrong(history))
    return RepairedCopy(source=path, before=before, after=after, edits=edits, left=left)


def _edited(copy: Database, session_id: str | None, known: frozenset[str]) -> Iterator[Edit]:
    used: set[tuple[str, str]] = set()
    rows = list(copy.execute(_TOOLS, (session_id, LINE_BYTES_MAX)))
    for session, part_id, data in rows:
        raw = data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogatepass")
        part, _ = read_object(raw)
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
        "metadata": {**object_of(state.get("metadata")), "interrupted": True},
        "time": {"start": start, "end": start},
    }
    yield "the call has no result"


def _own_id(part: dict[str, JsonValue], session: str, used: set[tuple[str, str]]) -> Iterator[str]:
    call_id = text_of(part.get("callID"))
    number = 2
    own = call_id
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


def still_wrong(history: VendorHistory) -> Iterator[str]:
    """Yield what is wrong with a history as it is read."""
    for fault in faults(history.history.messages):
        yield f"{history.session_id} {fault.place}: {fault.what}"
    for each in history.unreadable:
        yield f"{history.session_id} {each.place}: {each.why}"


# --- places ------------------------------------------------------------------------------------


def prepare(into: Path, path: Path) -> tuple[Path, Path]:
    """Make the two directories, and return where the copies go."""
    try:
        # Parents one by one: mkdir gives those it makes on the way the umask's mode.
        missing = [each for each in (into, *into.parents) if not each.exists()]
        for directory in (*reversed(missing), into / "before", into / "after"):
            directory.mkdir(mode=0o700)
    except FileExistsError as error:
        raise UsageError(
            f"{into} has a repaired copy already", hint="name another place with --into"
        ) from error
    except OSError as error:
        raise StoreError(
            f"{into} cannot be made: {error.strerror}", hint="name another place with --into"
        ) from error
    return into / "before" / path.name, into / "after" / path.name


def keep(source: Path, copy: Path) -> None:
    """Copy a file byte for byte, for nobody else to read."""
    copy.touch(mode=0o600)
    shutil.copyfile(source, copy)
