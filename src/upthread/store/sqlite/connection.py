"""A connection to SQLite: its types, its key, and the engine's own check.

The engine can encrypt a whole file with its log, because apsw is built with SQLite3 Multiple
Ciphers. The default cipher, ChaCha20-Poly1305, also detects a changed page:
https://utelle.github.io/SQLite3MultipleCiphers. A key is 32 random bytes and is used as given:
upthread stretches no passphrase.
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
"""The smallest size of a `-shm` file."""


class Cursor(Protocol):
    """The used part of apsw.Cursor, with types, because apsw's own stubs need a newer Python."""

    def execute(self, statements: str, /) -> Cursor: ...
    def fetchall(self) -> list[Row]: ...


class Connection(Protocol):
    """The used part of apsw.Connection, with types."""

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
    """Open a database file, without a check of its content. Raises apsw.Error."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
    # Resolved, because NOFOLLOW otherwise also refuses the system's links further up.
    place = path.resolve()
    connection = cast("Connection", apsw.Connection(str(place), flags=flags, vfs=vfs))
    allow_full_disk(connection, place)
    if key is not None:
        unlock(connection, key)
    connection.set_busy_timeout(busy_timeout_ms)
    return connection


def unlock(connection: Connection, key: bytes) -> None:
    """Give a connection its key, before any other statement.

    Raises StoreError if the engine has no ciphers. A wrong key shows at the first read:
    apsw.NotADBError.
    """
    if not hasattr(apsw, "mc_version"):
        # This engine would accept the key silently and write plain text.
        raise StoreError(
            "the installed apsw cannot encrypt: another package put itself in its place",
            hint="pip uninstall apsw && pip install --force-reinstall apsw-sqlite3mc",
        )
    connection.pragma("key", raw_key(key))


def raw_key(key: bytes) -> str:
    """Return a key in the engine's notation, for example `raw:00ff…`."""
    return f"raw:{key.hex()}"


def has_key(path: Path, key: bytes | None) -> bool:
    """Return whether a key, or no key for None, opens a database. Always true of an empty file."""
    connection = connect(path, key, busy_timeout_ms=0)
    try:
        connection.pragma("schema_version")
    except apsw.NotADBError:
        return False
    finally:
        connection.close()
    return True


def allow_full_disk(connection: Connection, place: Path) -> None:
    """Keep the index of the log in memory if a full disk has no room for the index file.

    To be called before the first read. SQLite allows an index in memory to a process that has the
    file alone: https://sqlite.org/wal.html#noshm.
    """
    free = os.statvfs(place.parent)
    is_there = (size_of(place.with_name(place.name + "-shm")) or 0) >= _INDEX_BYTES
    if free.f_bavail * free.f_frsize < _INDEX_BYTES and not is_there:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()


def faults_in(connection: Connection, *, faults_max: int) -> tuple[str, ...]:
    """Return the damage that the engine finds, empty if there is none. Blocking.

    For example an entry that no index leads to. Reads the whole file, because any page may be bad.
    """
    rows = connection.execute(f"PRAGMA integrity_check({faults_max:d})").fetchall()
    told = [line for (text,) in rows for line in str(text).splitlines()]
    # `*** in database main ***` is a heading.
    return tuple(line for line in told if line != "ok" and not line.startswith("***"))


def cure(error: Exception) -> str:
    """Return the advice for a file that cannot be copied or opened."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return "another process has it open: let it finish or end it, then do it again"
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return f"it is damaged, or under another key; {CURE_OF_DAMAGE}"
    return "check the disk, its mount and its space, then do it again"
