"""OpenCode's database: `$XDG_DATA_HOME/opencode/opencode.db`, SQLite, opened to be read.

No byte of the database or beside it changes: its log is read through a connection that may not
touch the shared memory, or from a copy where no process has the database open.

OpenCode 2 keeps its own rows in the same file, `session_v2` and `session_message`. The rows of 2
are the newer ones of a session that both versions have. They are read in the form of its public
source of November 2026, and were not tried on the real OpenCode 2. Written for OpenCode 1.18
(1.18.33; the tables session, message and part as its binary makes them, 2026-11).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import groupby, takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import quote

import apsw
from msgspec import Struct

from upthread.agent_stores.base import BEGINNING_CHARACTERS_MAX, Unreadable
from upthread.agent_stores.lines import LINE_BYTES_MAX, read_object
from upthread.agent_stores.reader import FileWalk, texts_in
from upthread.boundary.files import read_all, through_links, within
from upthread.core.codec import AnyJson, encode_json, number_at, object_at, objects_at, text_at
from upthread.core.types import JsonObject, JsonValue
from upthread.errors import StoreError

Row: TypeAlias = AnyJson
"""A session's columns, as many as its table has."""

_OF_1 = {
    "session": {"id", "parent_id", "directory", "title", "version", "time_created"},
    "message": {"id", "session_id", "time_created", "data"},
    "part": {"id", "message_id", "session_id", "time_updated", "data"},
}
_HOME = "opencode"
_SESSIONS_OF_2 = "session_v2"
_MESSAGES_OF_2 = "session_message"
_ROW = (
    *("id", "parent_id", "directory", "title", "version", "agent", "model"),
    *("time_created", "time_updated", "time_archived"),
)
# A value that is too long is not fetched: its row is reported, and memory is spared.
_PARTS = """
    SELECT message.id, message.time_created, message.data, part.id, part.time_updated,
           CASE WHEN length(part.data) <= ?2 THEN part.data END
    FROM message LEFT JOIN part ON part.message_id = message.id
    WHERE message.session_id = ?1 ORDER BY message.time_created, message.id, part.id"""
_NEWEST = """
    SELECT id, time_created, data, NULL, 0, NULL FROM message
    WHERE session_id = ?1 AND length(data) <= ?2 ORDER BY time_created DESC, id DESC LIMIT 2"""
_ROWS_OF_2 = """
    SELECT id, type, time_created, time_updated, data FROM session_message
    WHERE session_id = ?1 AND length(data) <= ?2
    AND type IN ('user', 'assistant', 'shell', 'compaction') ORDER BY seq"""
_NEWEST_OF_2 = """
    SELECT id, type, time_created, time_updated, data FROM session_message
    WHERE session_id = ?1 AND length(data) <= ?2
    AND type IN ('user', 'assistant') ORDER BY seq DESC LIMIT 2"""
_STAMP = """
    SELECT max(time_created) || '-' || max(id) FROM message WHERE session_id = ?1"""
_STAMP_OF_2 = "SELECT max(seq) || ' ' || max(id) FROM session_message WHERE session_id = ?1"


class Message(Struct, frozen=True, kw_only=True):
    """A message in the form of version 1, whichever version wrote it, and what of it is unreadable.

    `info` and `parts` are as OpenCode's server gives them.
    """

    place: str
    info: JsonObject
    parts: tuple[JsonObject, ...]
    created_at_ms: int | None
    written_at_ms: int
    unreadable: tuple[Unreadable, ...] = ()


class Connection(Protocol):
    """What we use of an apsw.Connection, whose own types are not complete."""

    def execute(
        self, statements: str, bindings: Sequence[object] = (), /
    ) -> Iterator[Sequence[Any]]: ...

    def backup(self, name: str, source: Connection, source_name: str, /) -> Any: ...

    def set_progress_handler(self, callable: Callable[[], bool] | None, nsteps: int) -> None: ...  # noqa: A002  # apsw's own name

    def close(self) -> None: ...


def connected(place: str, flags: int) -> Connection:
    """Open a database by its path or URI."""
    return cast("Connection", apsw.Connection(place, flags=flags))


class Database:
    """A database that is open: its sessions, and the messages of each."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self._columns = {
            table: {str(name) for (name,) in connection.execute(_COLUMNS, (table,))}
            for table in (_SESSIONS_OF_2, _MESSAGES_OF_2, *_OF_1)
        }
        self.is_of_2 = bool(self._columns[_SESSIONS_OF_2])
        self.missing_of_1 = {
            table: missing
            for table, columns in _OF_1.items()
            if (missing := columns - self._columns[table])
        }

    def sessions(self, session_id: str | None = None, *, most: int = -1) -> list[Row]:
        """Return the rows of the sessions, the newest first; with an id only that session's."""
        rows: dict[object, Row] = {}
        for table in ("session", _SESSIONS_OF_2):  # what the newer version says replaces the older
            names = [each for each in _ROW if each in self._columns[table]]
            if "id" not in names:
                continue
            order = "time_updated" if "time_updated" in names else "id"
            # Names of columns are ours, from the list above.
            query = f"SELECT {', '.join(names)} FROM {table} WHERE ?1 IS NULL OR id = ?1"  # noqa: S608
            query += f" ORDER BY {order} DESC LIMIT ?2"
            for values in self.connection.execute(query, (session_id, most)):
                told = zip(names, values, strict=True)
                row: AnyJson = {name: each for name, each in told if each}
                rows[row.get("id")] = {**rows.get(row.get("id"), {}), **row}
        return sorted(rows.values(), key=lambda row: -number_of(row.get("time_updated")))

    def messages(
        self,
        session_id: str,
        *,
        newest_only: bool = False,
        is_wanted: Callable[[bytes], bool] | None = None,
    ) -> Iterator[Message]:
        """Yield a session's messages, oldest first.

        With `newest_only` the newest two from the end on, of version 1 without parts. With
        `is_wanted` only parts whose bytes it takes, in version 2 messages, are decoded.
        """
        is_of_2 = False
        bindings = (session_id, LINE_BYTES_MAX)
        if self._columns[_MESSAGES_OF_2]:
            query = _NEWEST_OF_2 if newest_only else _ROWS_OF_2
            for row in self.connection.execute(query, bindings):
                is_of_2 = True
                if is_wanted is None or is_wanted(_raw(row[-1])):
                    yield _message_of_2(row, session_id)
        # A session that version 2 has continued has all its messages there.
        if is_of_2 or "message" in self.missing_of_1 or "part" in self.missing_of_1:
            return
        rows = self.connection.execute(_NEWEST if newest_only else _PARTS, bindings)
        wanted = (row for row in rows if is_wanted(_raw(row[-1]))) if is_wanted else rows
        for place, of_one in groupby(wanted, key=itemgetter(0)):
            yield _message(str(place), [*of_one], session_id)

    def stamp(self, session_id: str) -> str:
        """Return what a session's messages are known by, empty without any.

        One more message gives another; what is written to one of them later does not.
        """
        stamps: list[str | None] = []
        for query, table in ((_STAMP_OF_2, _MESSAGES_OF_2), (_STAMP, "message")):
            if self._columns[table]:
                stamps += [stamp for (stamp,) in self.connection.execute(query, (session_id,))]
        return next(filter(None, stamps), "")


class Files(Database):
    """OpenCode's store of before 1.2, a file for each session, message and part, read as rows.

    `elsewhere` are the sessions that a newer store has, since OpenCode left the files of those that
    it migrated. At first the parts of a message were inside it, and all lay below `session`.
    """

    def __init__(self, path: Path, elsewhere: Collection[str]) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        super().__init__(connected(":memory:", flags), path)
        for table, columns in _OF_1.items():
            names = ", ".join(columns | {"time_updated"})
            self.connection.execute(f"CREATE TABLE {table} ({names})")
        self.missing_of_1 = {}
        self._elsewhere = elsewhere

    def sessions(self, session_id: str | None = None, *, most: int = -1) -> list[Row]:
        rows: dict[str, Row] = {}
        # A session that moved to another project may lie in both.
        for path in sorted(self.path.glob(_SESSION_FILES), key=lambda path: path.stat().st_mtime):
            if path.stem not in self._elsewhere and session_id in {None, path.stem}:
                info = object_in(self._read(path))
                times = object_at(info, "time")
                rows[path.stem] = {
                    **{f"time_{name}": at_ms for name, at_ms in times.items()},
                    **info,
                    "directory": text_at(info, "directory") or self._worked_in(path.stem),
                    "id": path.stem,
                    "parent_id": info.get("parentID"),
                }
        newest = sorted(rows.values(), key=lambda row: -number_of(row.get("time_updated")))
        return newest[: most if most >= 0 else None]

    def _worked_in(self, session_id: str) -> str:
        newest = self.messages(session_id, newest_only=True)
        return next(filter(None, (text_at(each.info, "path", "cwd") for each in newest)), "")

    def messages(
        self,
        session_id: str,
        *,
        newest_only: bool = False,
        is_wanted: Callable[[bytes], bool] | None = None,
    ) -> Iterator[Message]:
        paths = self._messages(session_id)
        for path in paths[:-3:-1] if newest_only else paths:
            raw = self._read(path)
            info = object_in(raw)
            held = [] if newest_only else [*self._parts(path, session_id, info)]
            wanted = [part for part in held if is_wanted is None or is_wanted(part[1])]
            created = number_at(info, "time", "created") or number_at(info, *_FIRST_TIMES)
            message = (path.stem, created, raw)
            rows = [(*message, name, created, part) for name, part in wanted]
            if rows or is_wanted is None:
                yield _message(path.stem, rows or [(*message, None, created, None)], session_id)

    def stamp(self, session_id: str) -> str:
        return "".join(path.stem for path in self._messages(session_id)[-1:])

    def _messages(self, session_id: str) -> list[Path]:
        # The id is not ours: neither a path nor a pattern in it may lead to other files.
        if session_id in self._elsewhere or Path(session_id).name != session_id:
            return []
        tops = (self.path, self.path / "session")
        return sorted(
            each for top in tops for each in (top / "message" / session_id).glob("*.json")
        )

    def _parts(
        self, message: Path, session_id: str, info: JsonObject
    ) -> Iterator[tuple[str, bytes]]:
        parts = message.parent.parent.parent / "part"
        for directory in (parts / message.stem, parts / session_id / message.stem):
            for path in sorted(directory.glob("*.json")):
                yield path.stem, self._read(path)
        for number, part in enumerate(objects_at(info, "parts")):
            yield f"{message.stem}-{number}", encode_json(_first_part(part))

    def _read(self, path: Path) -> bytes:
        with suppress(OSError):  # what has no bytes is reported as no JSON
            descriptor = within(str(self.path), str(path.relative_to(self.path)))
            return read_all(descriptor, str(path), bytes_max=LINE_BYTES_MAX)
        return b""


_SESSION_FILES = "session/*/ses_*.json"
_FIRST_TIMES = ("metadata", "time", "created")


def _first_part(part: JsonObject) -> JsonObject:
    """Return a part as it is since 0.4, in which a call has a state."""
    call = object_at(part, "toolInvocation")
    if not call:
        return part
    state: JsonObject = {
        "status": "completed" if call.get("state") == "result" else "pending",
        "input": call.get("args"),
        "output": call.get("result"),
    }
    named = {"tool": call.get("toolName"), "callID": call.get("toolCallId")}
    return {"type": "tool", **named, "state": state}


_COLUMNS = "SELECT name FROM pragma_table_info(?)"


# --- messages in the form of version 1 -----------------------------------------------------------


def _message(place: str, rows: Sequence[Sequence[Any]], session_id: str) -> Message:
    unreadable: list[Unreadable] = []
    _, created_at_ms, data, *_ = rows[0]
    info = _object(data, place, unreadable, needs="role")
    named = {"messageID": place, "sessionID": session_id}
    parts = [
        {**_object(data, f"{place} {part_id}", unreadable), "id": part_id, **named}
        for *_, part_id, _, data in rows
        if part_id is not None
    ]
    return Message(
        place=place,
        info=info,
        parts=tuple(parts),
        created_at_ms=created_at_ms if isinstance(created_at_ms, int) else None,
        written_at_ms=max(row[4] or 0 for row in rows),
        unreadable=tuple(unreadable),
    )


def _message_of_2(row: Sequence[Any], session_id: str) -> Message:
    message_id, kind, created_at_ms, written_at_ms, data = row
    place = str(message_id)
    unreadable: list[Unreadable] = []
    message = _object(data, place, unreadable)
    named = {"messageID": place, "sessionID": session_id}
    kept = ("time", "finish", "error", "tokens")
    info: dict[str, JsonValue] = {
        **{name: message[name] for name in kept if message.get(name) is not None},
        # What a person ran, a model was not asked for.
        "role": "user" if kind in {"user", "shell"} else "assistant",
        "modelID": text_at(message, "model", "id"),
        "summary": kind == "compaction",
    }
    return Message(
        place=place,
        info=info,
        parts=tuple(
            {"id": f"{place}-{number}", **named, **part}
            for number, part in enumerate(_parts_of_2(kind, message))
        ),
        created_at_ms=created_at_ms if isinstance(created_at_ms, int) else None,
        written_at_ms=written_at_ms or 0,
        unreadable=tuple(unreadable),
    )


def _parts_of_2(kind: str, message: JsonObject) -> Iterator[dict[str, JsonValue]]:
    if kind == "shell":
        asked = {"input": message.get("command"), "output": message.get("output")}
        yield {"type": "tool", "state": asked}
        return
    if kind != "assistant":
        yield {"type": "text", "text": message.get("text" if kind == "user" else "summary")}
        return
    for block in objects_at(message, "content"):
        if block.get("type") == "tool":
            state = object_at(block, "state")
            output = "\n".join(texts_in(state.get("content") or state.get("output")))
            call = {"callID": block.get("id"), "tool": block.get("name")}
            yield {"type": "tool", **call, "state": {**state, "output": output}}
        elif block.get("type") in {"text", "reasoning"}:
            yield {"type": block["type"], "text": block.get("text")}


def _object(
    data: object, place: str, unreadable: list[Unreadable], *, needs: str = ""
) -> JsonObject:
    """Return the object of a value, an empty one for what is noted as unreadable."""
    raw = _raw(data)
    value, why = read_object(raw)
    if data is None:
        why = f"the value is longer than {LINE_BYTES_MAX:,} bytes"
    elif needs and needs not in value:
        why = why or f"it has no {needs}"
    if why:
        beginning = raw[:BEGINNING_CHARACTERS_MAX].decode("utf-8", "backslashreplace")
        unreadable.append(Unreadable(place=place, why=why, beginning=beginning))
    return value


def object_in(data: object) -> dict[str, JsonValue]:
    """Return the object of a value, an empty one where it holds none."""
    return dict(read_object(_raw(data))[0])


def number_of(value: object) -> int:
    """Return an integer, 0 for anything else."""
    return value if isinstance(value, int) else 0


def _raw(data: object) -> bytes:
    return data if isinstance(data, bytes) else str(data or "").encode("utf-8", "surrogatepass")


# --- opening -------------------------------------------------------------------------------------


def find_histories(data_home: Path, walk: FileWalk | None = None) -> Iterator[Path]:
    """Yield OpenCode's databases under a data home (`~/.local/share`), then its older stores."""
    if os.access(data_home, os.R_OK) and data_home.is_file():
        yield data_home  # OPENCODE_DB names it
        return
    home = data_home / _HOME
    found = (walk or FileWalk()).files(home, "opencode*.db", is_ordinary=False)
    yield from map(Path, sorted(file.path for file in found))
    if not os.access(home, os.R_OK | os.X_OK):
        return
    older = (home / "storage", *sorted(home.glob("project/*/storage")))
    yield from (path for path in older if any(path.glob(_SESSION_FILES)))


def _of_files(path: Path) -> Files:
    home = next(each for each in path.parents if each.name == _HOME)
    known: set[str] = set()
    for newer in takewhile(path.__ne__, find_histories(home.parent)):
        if newer.is_dir():
            known |= {each.stem for each in newer.glob(_SESSION_FILES)}
        else:
            with suppress(StoreError), opened(newer) as database:
                known |= {text_at(row, "id") for row in database.sessions()}
    return Files(path, known)


@contextmanager
def opened(path: Path, *, takes_version_2: bool = True) -> Generator[Database]:
    """Open a database of OpenCode's for reading; no byte of it or beside it changes.

    With `takes_version_2` a database is opened too that version 2 has made alone. StoreError for a
    database of another form, and while it is open for what SQLite cannot read.
    """
    if path.is_dir():
        yield _of_files(path)
        return
    try:
        os.close(through_links(str(path)))  # SQLite would wait for a pipe
        with (
            tempfile.TemporaryDirectory(prefix="upthread-") as copies,
            closing(connected(*_source(path, Path(copies)))) as connection,
        ):
            database = Database(connection, path)
            if database.missing_of_1 and not (takes_version_2 and database.is_of_2):
                table, missing = next(iter(database.missing_of_1.items()))
                raise StoreError(
                    f"{path} is of a form this version does not know: {table} lacks "
                    + ", ".join(sorted(missing)),
                    hint="it is left as it is; a newer upthread may know it",
                )
            yield database
    except (apsw.Error, OSError) as error:
        raise StoreError(
            f"{path} cannot be read as a database of OpenCode: {error}",
            hint="it is left as it is; if OpenCode opens it, please report this",
        ) from error


def _source(path: Path, copies: Path) -> tuple[str, int]:
    """Return what to open, and how, so that nothing changes."""
    if would_be_copied(path):
        copy = copies / path.name  # the directory is 0700
        shutil.copyfile(path, copy)
        shutil.copyfile(beside(path, "-wal"), beside(copy, "-wal"))
        return str(copy), apsw.SQLITE_OPEN_READWRITE
    # Where nothing waits in a log, the file is all there is, and is read without a lock. Otherwise
    # the log is read by the index that its writers keep, which is not written to.
    how = "mode=ro&readonly_shm=1" if _log_bytes(path) else "immutable=1"
    place = f"file:{quote(str(path.absolute()))}?{how}"
    return place, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def would_be_copied(path: Path) -> bool:
    """Return whether a database is read from a copy: SQLite would make an index of its log."""
    return bool(_log_bytes(path)) and not beside(path, "-shm").exists()


def _log_bytes(path: Path) -> int:
    log = beside(path, "-wal")
    return log.stat().st_size if log.exists() else 0


def beside(path: Path, suffix: str) -> Path:
    """Return a file that SQLite keeps beside a database, for example its `-wal`."""
    return path.with_name(path.name + suffix)
