"""A connection as it is: its types, its key, and the engine's own check.

A file may be encrypted whole, log and all. The engine does it: apsw is built with SQLite3 Multiple
Ciphers, whose default, ChaCha20-Poly1305, also finds a page that was changed:
https://utelle.github.io/SQLite3MultipleCiphers. A key is 32 bytes by chance, taken as it is; no
passphrase is stretched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast

import apsw

from upthread.errors import StoreError
from upthread.store.log import Row
from upthread.store.sqlite.files import CURE_OF_DAMAGE, size_of

KEY_BYTES: Final = 32
_INDEX_BYTES: Final = 32 * 1024
"""What SQLite makes `-shm` of at least."""


class Cursor(Protocol):
    """What we use of apsw.Cursor, typed: apsw's own stubs need a newer Python for their buffers."""

    def execute(self, statements: str, /) -> Cursor: ...
    def fetchall(self) -> list[Row]: ...


class Connection(Protocol):
    """What we use of apsw.Connection, typed."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, statements: str, bindings: Sequence[Any] | None = None, /) -> Cursor: ...
    def executemany(self, statements: str, bindings: Sequence[Sequence[Any]], /) -> Cursor: ...
    def pragma(self, name: str, value: str | None = None, /) -> Any: ...
    def set_busy_timeout(self, milliseconds: int, /) -> None: ...
    def set_busy_handler(self, callable: Callable[[int], bool], /) -> None: ...  # noqa: A002
    def backup(self, database: str, source: Connection, source_database: str, /) -> Any: ...
    def config(self, option: int, value: int, /) -> int: ...
    def changes(self) -> int: ...
    def total_changes(self) -> int: ...
    def data_version(self) -> int: ...
    def create_scalar_function(
        self,
        name: str,
        callable: Any,  # noqa: A002  # apsw's
        numargs: int = ...,
        *,
        deterministic: bool = ...,
        flags: int = ...,
    ) -> None: ...
    def close(self, force: bool = False, /) -> None: ...  # noqa: FBT001, FBT002  # apsw's signature


def connect(
    path: Path, key: bytes | None, *, busy_timeout_ms: int = 5_000, vfs: str | None = None
) -> Connection:
    """Open a database file as it is. Raises apsw.Error."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
    # Resolved: without that, NOFOLLOW also refuses the links further up, which are the system's.
    place = path.resolve()
    connection = cast("Connection", apsw.Connection(str(place), flags=flags, vfs=vfs))
    allow_full_disk(connection, place)
    if key is not None:
        unlock(connection, key)
    connection.set_busy_timeout(busy_timeout_ms)
    return connection


def unlock(connection: Connection, key: bytes) -> None:
    """Give a connection its key, before anything else. StoreError for an engine without ciphers.

    Whether it is the right one shows at the first read: apsw.NotADBError.
    """
    if not hasattr(apsw, "mc_version"):
        # It would take the key without a word, and write everything as it is.
        raise StoreError(
            "the installed apsw cannot encrypt: another package put itself in its place",
            hint="pip uninstall apsw && pip install --force-reinstall apsw-sqlite3mc",
        )
    connection.pragma("key", raw_key(key))


def raw_key(key: bytes) -> str:
    """Return a key as the engine takes it."""
    return f"raw:{key.hex()}"


def has_key(path: Path, key: bytes | None) -> bool:
    """Return whether a database can be read with a key, None: without one. An empty one always."""
    connection = connect(path, key, busy_timeout_ms=0)
    try:
        connection.pragma("schema_version")
    except apsw.NotADBError:
        return False
    finally:
        connection.close()
    return True


def allow_full_disk(connection: Connection, place: Path) -> None:
    """Before a connection reads: where a full disk has no room for the index of the log, have none.

    It is in memory then, which SQLite allows to whoever has the file alone:
    https://sqlite.org/wal.html#noshm.
    """
    free = os.statvfs(place.parent)
    is_there = (size_of(place.with_name(place.name + "-shm")) or 0) >= _INDEX_BYTES
    if free.f_bavail * free.f_frsize < _INDEX_BYTES and not is_there:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()


def faults_in(connection: Connection, *, faults_max: int) -> tuple[str, ...]:
    """Return what the engine finds damaged, empty where nothing is. Blocking, reads the whole file.

    For example an entry that no index leads to: whoever asks for it by its place finds none.
    """
    rows = connection.execute(f"PRAGMA integrity_check({faults_max:d})").fetchall()
    told = [line for (text,) in rows for line in str(text).splitlines()]
    # `*** in database main ***` is the head of what follows it.
    return tuple(line for line in told if line != "ok" and not line.startswith("***"))


def cure(error: Exception) -> str:
    """Return what helps when a file cannot be copied or opened."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return "another process has it open: let it finish or end it, then do it again"
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return f"it is damaged, or under another key; {CURE_OF_DAMAGE}"
    return "check the disk, its mount and its space, then do it again"
