"""OpenCode's database: `$XDG_DATA_HOME/opencode/opencode.db`, SQLite.

A part of the type `tool` is a call and its result in one: `state.status` is pending or running
while it has none. Within a message `step-start` begins what the model was asked next. Written for
OpenCode 1.18 (1.18.33; the tables session, message and part as its binary makes them, 2026-11).

The database is opened so that nothing beside it changes either: its log is read through a
connection that may not touch the shared memory, or, where no process has it open, from a copy. It
is repaired in a copy: calls without a result are closed, each gets an id of its own. Rows that
cannot be read stay as they are, since OpenCode has its own reading of them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast
from urllib.parse import quote

import apsw
from msgspec import Struct, field

from upthread.agent_stores.base import Unreadable, VendorHistory, is_known_version, outlined
from upthread.agent_stores.copies import Edit, RepairedCopy, keep, prepare, still_wrong
from upthread.agent_stores.lines import LINE_BYTES_MAX, read_object
from upthread.boundary.files import through_links
from upthread.core import types
from upthread.core.codec import encode_json
from upthread.core.events import INTERRUPTED
from upthread.core.history.model import History, HistoryMessage
from upthread.core.history.rules import JsonObject, object_of, text_of
from upthread.core.types import JsonValue
from upthread.errors import StoreError

AGENT: Final = "opencode"
WRITTEN_FOR: Final = ("1.18",)
DATABASE_BYTES_MAX: Final = 64 * 1024 * 1024 * 1024
"""Only what is asked for is read of it, so that it may be large: one file has all projects."""

# A call that a kill cut off stays in one of these for ever: OpenCode mends it for the model alone.
OPEN_STATES: Final = frozenset({"pending", "running"})
_LAST_WRITTEN: Final = """
    SELECT max(part.time_updated) FROM part WHERE part.session_id = ?1"""
_STAMP: Final = """
    SELECT max(time_created) || '-' || max(id) FROM message WHERE session_id = ?1"""
# By a word first, for which nothing of a long session has to be decoded.
_CALLED: Final = """
    SELECT CASE WHEN length(data) <= ?2 THEN data END FROM part
    WHERE session_id = ?1 AND data LIKE '%"task"%' ORDER BY id DESC"""
_MARKED: Final = """
    SELECT part.session_id, session.directory, part.data FROM session
    JOIN part ON part.session_id = session.id
    WHERE session.time_updated >= ?1 AND part.time_updated >= ?1 AND length(part.data) <= ?2
    AND part.data LIKE '%"task"%' AND part.data LIKE '%' || ?3 || '%' ORDER BY part.id"""
_COLUMNS: Final = {
    "session": {"id", "parent_id", "directory", "title", "version", "time_created"},
    "message": {"id", "session_id", "time_created", "data"},
    "part": {"id", "message_id", "session_id", "time_updated", "data"},
}
_SESSIONS: Final = """
    SELECT id, parent_id, directory, title, version FROM session
    WHERE ?1 IS NULL OR id = ?1 ORDER BY time_created, id"""
# A value that is too long is not fetched: its row is reported, and memory is spared.
_PARTS: Final = """
    SELECT message.id, message.data, part.id,
           CASE WHEN length(part.data) <= ?2 THEN part.data END
    FROM message LEFT JOIN part ON part.message_id = message.id
    WHERE message.session_id = ?1 ORDER BY message.time_created, message.id, part.id"""


Row: TypeAlias = Sequence[Any]
_TOOLS: Final = """
    SELECT part.session_id, part.id, part.data FROM part
    WHERE (?1 IS NULL OR part.session_id = ?1) AND length(part.data) <= ?2
    ORDER BY part.session_id, part.message_id, part.id"""


class Database(Protocol):
    """What we use of an apsw.Connection, whose own types are not complete."""

    def execute(self, statements: str, bindings: Sequence[object] = (), /) -> Iterator[Row]: ...

    def backup(self, name: str, source: Database, source_name: str, /) -> Any: ...

    def close(self) -> None: ...


def connected(place: str, flags: int) -> Database:
    """Open a database by its path or URI."""
    return cast("Database", apsw.Connection(place, flags=flags))


def find_histories(data_home: Path) -> Iterator[Path]:
    """Yield OpenCode's databases under a data home (`~/.local/share`)."""
    yield from sorted((data_home / "opencode").glob("opencode*.db"))


def read_histories(
    path: Path, *, session_id: str | None = None, characters_max: int | None = None
) -> Iterator[VendorHistory]:
    """Yield the sessions, oldest first; with an id only that one.

    StoreError when the file is no database, or one of a form this version does not know.
    """
    with opened(path) as connection:
        for row in list(connection.execute(_SESSIONS, (session_id,))):
            yield _session(connection, path, row, characters_max)


class StoredMessages(Struct, frozen=True, kw_only=True):
    """A session's messages as OpenCode's server gives them, and when it last wrote to one."""

    messages: tuple[Mapping[str, JsonValue], ...]
    written_at_ms: int


def read_messages(path: Path, session_id: str) -> StoredMessages | None:
    """Return a session's messages, None for a session that is not there. StoreError as above."""
    with opened(path, has_messages=False) as connection:
        if not tables_of(connection).issuperset(_COLUMNS):
            return None  # version 2 has made it alone
        if not list(connection.execute(_SESSIONS, (session_id,))):
            return None
        reading = _Reading(None)
        parts: dict[str, list[JsonValue]] = {}
        infos: dict[str, JsonObject] = {}
        for message_id, message, part_id, part in connection.execute(
            _PARTS, (session_id, LINE_BYTES_MAX)
        ):
            if message_id not in infos:
                infos[message_id] = _object(reading, message_id, message)
                parts[message_id] = []
            if part_id is not None:
                named = {"id": part_id, "messageID": message_id, "sessionID": session_id}
                parts[message_id].append({**_object(reading, part_id, part), **named})
        ((written_at_ms,),) = connection.execute(_LAST_WRITTEN, (session_id,))
    return StoredMessages(
        messages=tuple({"info": info, "parts": parts[each]} for each, info in infos.items()),
        written_at_ms=written_at_ms or 0,
    )


def session_stamp(path: Path, session_id: str) -> str:
    """Return what a session's messages are known by, empty without any. StoreError as above.

    One more message gives another; what is written to one of them later does not.
    """
    with opened(path, has_messages=False) as connection:
        if not tables_of(connection).issuperset(_COLUMNS):
            return ""
        ((stamp,),) = connection.execute(_STAMP, (session_id,))
    return stamp or ""


def session_version(path: Path, session_id: str) -> str:
    """Return the version that began a session, empty without one. StoreError as above."""
    with opened(path, has_messages=False) as connection:
        if not tables_of(connection).issuperset(_COLUMNS):
            return ""
        found = connection.execute("SELECT version FROM session WHERE id = ?", (session_id,))
        return next((text_of(version) for (version,) in found), "")


def called_session(path: Path, session_id: str, call_id: str) -> str:
    """Return the session that a session's call of `task` gave its work to, empty for none."""
    state = _state_of_call(path, session_id, call_id)
    return text_of(object_of(state.get("metadata")).get("sessionId"))


def called_with(path: Path, session_id: str, call_id: str) -> JsonObject:
    """Return what a session's call of `task` was given, empty where it made none."""
    return object_of(_state_of_call(path, session_id, call_id).get("input"))


def _state_of_call(path: Path, session_id: str, call_id: str) -> JsonObject:
    with opened(path) as connection:
        for (data,) in connection.execute(_CALLED, (session_id, LINE_BYTES_MAX)):
            part = _object(_Reading(None), "", data)
            if text_of(part.get("callID")) == call_id:
                return object_of(part.get("state"))
    return {}


def marked_calls(path: Path, mark: str, since_ms: int) -> Iterator[tuple[str, str, JsonObject]]:
    """Yield the calls of `task` that hold a mark: session, its directory, part. StoreError."""
    with opened(path) as connection:
        for session, directory, data in connection.execute(
            _MARKED, (since_ms, LINE_BYTES_MAX, mark)
        ):
            part = _object(_Reading(None), "", data)
            if text_of(part.get("tool")) == "task":
                yield str(session), str(directory), part


@contextmanager
def opened(path: Path, *, has_messages: bool = True) -> Generator[Database]:
    """Open a database of OpenCode's for reading; no byte of it or beside it changes.

    Without `has_messages` one is taken that version 2 has made alone, of which only rows of
    sessions are read. StoreError for one of another form.
    """
    try:
        os.close(through_links(str(path)))  # SQLite would wait for a pipe
        with (
            tempfile.TemporaryDirectory(prefix="upthread-") as copies,
            closing(connected(*_source(path, Path(copies)))) as connection,
        ):
            if has_messages or not _has_sessions_of_version_2(connection):
                _check(connection, path)
            yield connection
    except (apsw.Error, OSError) as error:
        raise StoreError(
            f"{path} cannot be read as a database of OpenCode: {error}",
            hint="it is left as it is; if OpenCode opens it, please report this",
        ) from error


def _source(path: Path, copies: Path) -> tuple[str, int]:
    """Return what to open, and how, so that nothing changes."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    log, shared = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if not log.exists() or log.stat().st_size == 0:
        # Nothing waits in a log: the file is all there is, and is read without a lock.
        return _uri(path, "immutable=1"), flags
    if shared.exists():
        # The log is read by the index that its writers keep, which is not written to.
        return _uri(path, "mode=ro&readonly_shm=1"), flags
    # A log without its index: SQLite would make one, and may do so beside a copy only.
    copy = copies / path.name  # the directory is 0700
    shutil.copyfile(path, copy)
    shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
    return str(copy), apsw.SQLITE_OPEN_READWRITE


def _uri(path: Path, query: str) -> str:
    return f"file:{quote(str(path.absolute()))}?{query}"


def _has_sessions_of_version_2(connection: Database) -> bool:
    return "session_v2" in tables_of(connection)


def tables_of(connection: Database) -> frozenset[str]:
    """Return the names of a database's tables: version 2 leaves those of version 1 beside its."""
    names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return frozenset(str(name) for (name,) in names)


def _check(connection: Database, path: Path) -> None:
    for table, columns in _COLUMNS.items():
        names = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        missing = columns - {name for (name,) in names}
        if missing:
            raise StoreError(
                f"{path} is of a form this version does not know: {table} lacks "
                + ", ".join(sorted(missing)),
                hint="it is left as it is; a newer upthread may know it",
            )


class _Reading(Struct):
    characters_max: int | None
    messages: list[HistoryMessage] = field(default_factory=list[HistoryMessage])
    unreadable: list[Unreadable] = field(default_factory=list[Unreadable])
    said: list[types.Part] = field(default_factory=list[types.Part])
    results: list[types.Part] = field(default_factory=list[types.Part])

    def flush(self, speaker: types.Speaker, place: str) -> None:
        """End a step: what was said, then the results."""
        for who, parts in ((speaker, self.said), (types.Speaker.TOOL, self.results)):
            if parts:
                message = HistoryMessage(speaker=who, parts=tuple(parts), place=place)
                self.messages.append(message)
            parts.clear()


def _session(
    connection: Database, path: Path, row: Row, characters_max: int | None
) -> VendorHistory:
    session_id, parent, directory, title, version = (str(each or "") for each in row)
    reading = _Reading(characters_max)
    place, speaker = "", types.Speaker.USER
    rows = connection.execute(_PARTS, (session_id, LINE_BYTES_MAX))
    for message_id, message_data, part_id, part_data in rows:
        if message_id != place:
            reading.flush(speaker, place)
            place = str(message_id)
            role = _object(reading, place, message_data, needs="role").get("role")
            speaker = types.Speaker.USER if role == "user" else types.Speaker.ASSISTANT
        if part_id is not None:
            part = _object(reading, f"{place} {part_id}", part_data)
            _take(reading, part, speaker=speaker, place=place)
    reading.flush(speaker, place)
    return VendorHistory(
        agent=AGENT,
        session_id=session_id,
        path=path,
        version=version,
        is_version_known=is_known_version(version, WRITTEN_FOR),
        history=History(messages=tuple(reading.messages)),
        unreadable=tuple(reading.unreadable),
        parent_session_id=parent or None,
        directory=directory,
        title=title,
    )


def _object(reading: _Reading, place: str, data: object, *, needs: str = "") -> JsonObject:
    if data is None:
        why = f"the value is longer than {LINE_BYTES_MAX:,} bytes"
        reading.unreadable.append(Unreadable(place=place, why=why))
        return {}
    raw = data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogatepass")
    value, why = read_object(raw)
    why = why or (f"it has no {needs}" if needs and needs not in value else "")
    if why:
        beginning = raw[:80].decode("utf-8", "backslashreplace")
        reading.unreadable.append(Unreadable(place=place, why=why, beginning=beginning))
    return value


def _take(reading: _Reading, part: JsonObject, *, speaker: types.Speaker, place: str) -> None:
    match part.get("type"):
        case "step-start":
            reading.flush(speaker, place)
        case "text" if not part.get("ignored"):
            if reading.results or any(
                isinstance(said, types.ToolCallPart) for said in reading.said
            ):
                reading.flush(speaker, place)
            text = outlined(text_of(part.get("text")), reading.characters_max)
            reading.said.append(types.TextPart(text=text))
        case "reasoning":
            text = outlined(text_of(part.get("text")), reading.characters_max)
            reading.said.append(types.ReasoningPart(text=text))
        case "file":
            uri = text_of(part.get("filename")) or text_of(part.get("url"))[:200]
            reading.said.append(types.FilePart(uri=uri, mime_type=text_of(part.get("mime"))))
        case "tool":
            _take_tool(reading, part)
        case _:
            pass


def _take_tool(reading: _Reading, part: JsonObject) -> None:
    state = object_of(part.get("state"))
    call_id = text_of(part.get("callID"))
    title = text_of(part.get("tool"))
    arguments: JsonValue = state.get("input")
    reading.said.append(
        types.ToolCallPart(call_id=call_id, title=title, tool_kind="other", arguments=arguments)
    )
    status = text_of(state.get("status"))
    if status in OPEN_STATES:
        return
    metadata = object_of(state.get("metadata"))
    failed = "unknown" if metadata.get("interrupted") else "failed"
    text = text_of(state.get("output")) or text_of(state.get("error"))
    child = text_of(metadata.get("sessionId"))
    reading.results.append(
        types.ToolResultPart(
            call_id=call_id,
            status="completed" if status == "completed" else failed,
            text=outlined(text, reading.characters_max),
            child_conversation_id=types.ConversationId(child) if child else None,
        )
    )


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
        # A backup takes over that the source has a log; the copy is to be one file.
        list(copy.execute("PRAGMA journal_mode = DELETE"))
        copy.execute("BEGIN")
        edits = tuple(_edited(copy, session_id, frozenset(sessions)))
        copy.execute("COMMIT")
    repaired = read_histories(after, session_id=session_id, characters_max=0)
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
