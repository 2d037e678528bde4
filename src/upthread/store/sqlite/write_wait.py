"""Waiting for another writer of the database: for how long, and when the wait is given up.

A writer holds SQLite's write lock from BEGIN to COMMIT: a few milliseconds, the sync to the disk
included. It waits for nothing else in between. A process that is suspended in that moment, for
example by Ctrl-Z, keeps the lock until it continues. Then every other writer waits for
SUSPENDED_WAIT_S only, and the error names the suspended process and the command that continues it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from upthread.store.sqlite.files import QUEUE_SUFFIX

SUSPENDED_WAIT_S: Final = 5.0
"""For how long a suspended writer is waited for. Who suspends a process often continues it soon."""

_DELAYS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
_LOCKS: Final = Path("/proc/locks")
_WRITE_LOCK_AT: Final = 120
"""The byte of the `-shm` file that SQLite's write lock is on (WAL_WRITE_LOCK, os_unix.c)."""
_LOCK_FIELDS: Final = 8


class WriteWait:
    """The busy handler of one connection: called while another writer has the lock."""

    def __init__(self, database: Path, *, wait_s: float) -> None:
        self._database = database
        self._wait_s = wait_s
        self._began_s = 0.0

    def __call__(self, tries: int) -> bool:
        """Sleep, and return whether to ask for the lock once more."""
        now_s = time.monotonic()
        self._began_s = self._began_s if tries else now_s
        waited_s = now_s - self._began_s
        if waited_s >= self._wait_s:
            return False
        if waited_s >= SUSPENDED_WAIT_S and suspended_writer(self._database) is not None:
            return False
        time.sleep(min(_DELAYS_S[min(tries, len(_DELAYS_S) - 1)], self._wait_s))
        return True


def suspended_writer(database: Path) -> int | None:
    """Return the process that is suspended with the write lock, None if there is none or unknown.

    Only Linux tells who holds a lock.
    """
    try:
        memory = database.with_name(f"{database.name}-shm").stat().st_ino
        queue = database.with_name(database.name + QUEUE_SUFFIX)
        waiting = queue.stat().st_ino if queue.exists() else None
        held = [line.split() for line in _LOCKS.read_text().splitlines()]
    except OSError:
        return None
    # `1: POSIX ADVISORY WRITE 4711 08:01:1234 120 120`; a process that waits has `->` more.
    for fields in held:
        if len(fields) != _LOCK_FIELDS or fields[3] != "WRITE":
            continue
        inode, pid = int(fields[5].rpartition(":")[2]), int(fields[4])
        is_writer = inode == memory and _covers(fields[6], fields[7], _WRITE_LOCK_AT)
        if (is_writer or inode == waiting) and _is_suspended(pid):
            return pid
    return None


def _covers(start: str, end: str, at: int) -> bool:
    return int(start) <= at and (end == "EOF" or at <= int(end))


def _is_suspended(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in {"T", "t"}
