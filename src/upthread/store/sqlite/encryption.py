"""A file that is encrypted whole, log and all: how it is unlocked, and how it is locked and opened.

The engine does it: apsw is built with SQLite3 Multiple Ciphers, whose default, ChaCha20-Poly1305,
also finds a page that was changed: https://utelle.github.io/SQLite3MultipleCiphers. A key is 32
bytes by chance, taken as it is; no passphrase is stretched.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

import apsw

from upthread.errors import StoreError
from upthread.store.sqlite.files import prepare_file, sync_file
from upthread.store.sqlite.presence import CURE_OF_DAMAGE, Connection, allow_full_disk

KEY_BYTES: Final = 32
_MEMORY: Final = "memory"
_COPY_BYTES: Final = 8
_CHANCE: Final = re.compile(r"[0-9a-f]{16}")


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
    connection.pragma("key", _raw(key))


def change_key(path: Path, *, before: bytes | None, after: bytes | None) -> None:
    """Put a copy under another key, None for none, in the place of a database.

    Nobody else may have it open. StoreError when somebody has, or when `before` is not its key;
    after a crash the file is the old one or the new one, whole. (The engine can also write a file
    anew in place. Killed meanwhile, it is damaged by whoever opens it with the other key.)
    """
    place = prepare_file(path)
    connection = connect(place, before, busy_timeout_ms=0)
    try:
        be_alone(connection)
        # Only now, alone: while others may be here, one of them may be making such a copy.
        _remove_copies(place)
        copy = new_copy(place)
        with_key = f"file:{quote(str(copy))}?key={_raw(after) if after else ''}"
        connection.execute("VACUUM INTO ?", (with_key,))
        # Before it has the name: a power cut must not leave the name with half a file behind it.
        sync_file(copy)
        # Whoever has opened the old file and waits for it is refused: SQLite does not write to a
        # file that has lost its name.
        copy.replace(place)
        sync_file(place.parent)
    except (apsw.Error, OSError) as error:
        raise StoreError(
            f"the key of {path} could not be changed: {error}", hint=cure(error)
        ) from error
    finally:
        connection.close()


def be_alone(connection: Connection) -> None:
    """Take the file for this connection alone, until it is closed, and remove its log.

    apsw.BusyError or LockedError when somebody else has it open.
    """
    connection.pragma("temp_store", _MEMORY)
    connection.pragma("locking_mode", "exclusive")
    # The log goes only while nobody else has it.
    connection.pragma("journal_mode", "delete")
    # The mode alone takes no lock: it keeps the one that is taken next.
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("COMMIT")


def new_copy(place: Path) -> Path:
    """Make an empty file beside another, 0600, with a name by chance; it takes its place later."""
    copy = place.with_name(f"{place.name}.{os.urandom(_COPY_BYTES).hex()}")
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    return copy


def _remove_copies(place: Path) -> None:
    """Take away what a process that was killed has left."""
    for each in place.parent.iterdir():
        name, _, chance = each.name.rpartition(".")
        if name == place.name and _CHANCE.fullmatch(chance):
            each.unlink()


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


def _raw(key: bytes) -> str:
    return f"raw:{key.hex()}"


def cure(error: Exception) -> str:
    """Return what helps when a file cannot be copied or opened."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return "another process has it open: let it finish or end it, then do it again"
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return f"it is damaged, or under another key; {CURE_OF_DAMAGE}"
    return "check the disk, its mount and its space, then do it again"
