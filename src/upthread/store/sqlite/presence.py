"""What a database file is before it is opened: new, there, or what is left of one.

SQLite takes an empty file for a new database and removes the log beside it, so that is looked at
first. Decides nothing about what is in a whole file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import apsw

from upthread.errors import StoreError
from upthread.store.address import KEY_SUFFIX

LOG_SUFFIX: Final = "-wal"

CURE_OF_DAMAGE: Final = (
    "`upthread restore FILE` puts a backup in its place, and the next prompt of each role reads "
    "back what its session has since; without a backup, `upthread adopt` continues a session"
)
ANEW: Final = "to begin anew, move it and what lies beside it away"

# https://sqlite.org/fileformat2.html#the_database_header
HEADER_BYTES: Final = 100
MAGIC: Final = b"SQLite format 3\0"
_FULL_SIZE_PAGE: Final = 65_536  # is written as 1, for want of a third byte

LOG_HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24


def refuse_remains(path: Path) -> None:
    """Raise StoreError for a file that would be taken for a new database or a whole one in error.

    It is missing or empty while its key or its log lies beside it, or it is cut short.
    """
    if not size_of(path):
        beside = remains(path)
        # Asked again: another process may have made it between the two questions. It has its first
        # page before it has a log, and its schema before it has a key.
        size = size_of(path)
        if beside and not size:
            raise not_new(path, "is not there" if size is None else "is empty (0 bytes)", beside)
        return
    if is_cut_short(path):
        raise StoreError(
            f"the database {path} is cut short: pages are missing at its end",
            hint=CURE_OF_DAMAGE,
        )


def remains(path: Path, suffixes: Iterable[str] = (KEY_SUFFIX, LOG_SUFFIX)) -> list[Path]:
    """Return the files beside a path that hold something and show that a database was there."""
    beside = (path.with_name(path.name + suffix) for suffix in suffixes)
    return [each for each in beside if size_of(each)]


def is_cut_short(path: Path) -> bool:
    """Return whether pages are missing at a file's end, by what it says of itself.

    False where it says nothing: encrypted, or no database. Who checkpoints writes the first page
    first, and may be killed then: what has not been written yet is in the log.
    """
    while True:
        size, (page_bytes, pages) = size_of(path) or 0, _size_said(path)
        if size >= page_bytes * pages:
            return False
        logged = _logged_pages(path.with_name(path.name + LOG_SUFFIX), page_bytes)
        is_missing = any(page not in logged for page in range(size // page_bytes + 1, pages + 1))
        if size == size_of(path):  # else somebody has gone on, and may have begun a new log
            return is_missing


def _logged_pages(log: Path, page_bytes: int) -> set[int]:
    """Return the pages that a log holds a version of (sqlite.org/fileformat2.html, 4.1)."""
    found: set[int] = set()
    if not size_of(log):
        return found
    with log.open("rb") as file:  # nobody locks it: their locks are on the -shm
        salt = file.read(LOG_HEADER_BYTES)[16:24]
        while len(frame := file.read(FRAME_HEADER_BYTES)) == FRAME_HEADER_BYTES:
            if frame[8:16] != salt:
                break
            found.add(int.from_bytes(frame[:4], "big"))
            file.seek(page_bytes, os.SEEK_CUR)
    return found


def size_of(path: Path) -> int | None:
    """Return a file's size in bytes, None where there is no ordinary one, or none could be."""
    try:
        found = path.lstat()
    except (OSError, ValueError):  # files.py says what is wrong with the place
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def header_of(path: Path) -> bytes:
    """Return the first bytes of a file, as many as are there, empty where there is none.

    Through the engine: closing a file of our own would drop the locks that a connection of this
    process has on it (sqlite.org/howtocorrupt.html, 2.2).
    """
    flags = [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0]
    try:
        file: Any = apsw.VFSFile("unix", str(path.absolute()), flags)
    except apsw.CantOpenError:
        return b""
    try:
        read: bytes = file.xRead(min(HEADER_BYTES, size_of(path) or 0), 0)
        return read
    finally:
        file.xClose()


def _size_said(path: Path) -> tuple[int, int]:
    """Return how large a database's pages are and how many it says it has; 0 of none."""
    header = header_of(path)
    # The number counts only where whoever last wrote the file knew of it.
    if not header.startswith(MAGIC) or header[24:28] != header[92:96]:
        return 0, 0
    page_bytes = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    return _FULL_SIZE_PAGE if page_bytes == 1 else page_bytes, pages


def not_new(path: Path, state: str, beside: Iterable[Path]) -> StoreError:
    """Return the error for a file that SQLite would take for a new database."""
    return StoreError(
        f"the database {path} {state}, and {' and '.join(each.name for each in beside)} beside it "
        "says that there was one: it is not taken for a new one, and nothing was written",
        hint=f"{CURE_OF_DAMAGE}; {ANEW}",
    )
