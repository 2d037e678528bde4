"""A queue before SQLite's write lock, so that each writer of a file comes to its turn (ADR 104).

SQLite itself has none: whoever finds its lock held sleeps for up to 100 ms and looks again, while
those that come meanwhile go first. Writers of ours first take a lock of this file, which is quick
to ask for. It only orders them and refuses nobody: what keeps two writers apart is SQLite's lock,
so a place where the file cannot be made, a holder that stands still, an older version or another
program costs waiting and nothing else. The lock goes with its holder. The file is empty, but for a
byte for each step of a hook that could not use the database.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from upthread.store.sqlite.files import QUEUE_SUFFIX

# A commit takes 0.1 to 1 ms. Whoever has waited for longer waits for something else.
_LOOK_S: Final = 0.0003
_LOOKS_SHORT_MAX: Final = 300
_LOOK_LATER_S: Final = 0.005
_WAIT_MAX_S: Final = 5.0
_PASSED_BY_S: Final = 60.0
"""For how long a queue that stood still is passed by: a turn is many writes, each would wait."""

_TAKE: Final = fcntl.LOCK_EX | fcntl.LOCK_NB
_GIVE: Final = fcntl.LOCK_UN
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class WriteQueue:
    """The queue of one connection. Opened at the first write: who only reads makes no file."""

    def __init__(self, database: Path, *, wait_s: float) -> None:
        self._path = _queue_of(database)
        self._wait_s = min(wait_s, _WAIT_MAX_S)
        self._descriptor: int | None = None
        self._is_usable = True
        self._stood_still_until_s = 0.0

    @property
    def has_stood_still(self) -> bool:
        """Whether its holder was waited for in vain a moment ago."""
        return time.monotonic() < self._stood_still_until_s

    def enter(self) -> None:
        """Wait for our turn: `wait_s` or five seconds at most; then, for a minute, not at all."""
        if self._descriptor is None and not self._is_open():
            return
        if not self._is_taken() and not self.has_stood_still:
            self._wait()

    def leave(self) -> None:
        """Let the next one in. Changes nothing where it was not our turn."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, _GIVE)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _wait(self) -> None:
        # Not within flock, which knows no limit: a holder that was stopped would stop everybody.
        deadline_s = time.monotonic() + self._wait_s
        looks = 0
        while not self._is_taken():
            if time.monotonic() >= deadline_s:
                self._stood_still_until_s = time.monotonic() + _PASSED_BY_S
                return
            time.sleep(_LOOK_S if looks < _LOOKS_SHORT_MAX else _LOOK_LATER_S)
            looks += 1

    def _is_taken(self) -> bool:
        """Return whether it is our turn; also where locks are not to be had, since nobody waits."""
        assert self._descriptor is not None, "opened by `enter`"
        try:
            fcntl.flock(self._descriptor, _TAKE)
        except BlockingIOError:
            return False
        except OSError:
            self.close()
            self._is_usable = False
        return True

    def _is_open(self) -> bool:
        if self._is_usable:
            with contextlib.suppress(OSError):
                self._descriptor = os.open(self._path, _OPEN, 0o600)
            # Asked for once: a place that is read-only, or full, stays so for a while.
            self._is_usable = self._descriptor is not None
        return self._is_usable


def _queue_of(database: Path) -> Path:
    return database.with_name(database.name + QUEUE_SUFFIX)


def has_locks(database: Path) -> bool:
    """Return whether files can be locked where a database lies; True where it cannot be tried.

    Some network homes have no locks, and SQLite takes that for a lock of somebody else's.
    """
    try:
        # Not the database: to close it would give up this process's own locks of it.
        descriptor = os.open(_queue_of(database), _OPEN, 0o600)
    except OSError:
        return True
    try:
        fcntl.lockf(descriptor, _TAKE)
    except OSError as error:
        return isinstance(error, BlockingIOError | PermissionError)
    finally:
        os.close(descriptor)
    return True


def note_missed(database: Path) -> None:
    """Note that a step of a hook could not use a database. Nothing where that cannot be noted."""
    path, flags = _queue_of(database), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
    with contextlib.suppress(OSError):
        descriptor = os.open(path, flags)
        try:
            os.write(descriptor, b".")
        finally:
            os.close(descriptor)


def missed(database: Path) -> int:
    """Return how many steps of hooks could not use a database, since they were last read back."""
    try:
        return _queue_of(database).stat().st_size
    except OSError:
        return 0


def forget_missed(database: Path, seen: int) -> None:
    """Note that so many steps were read back; more may have been missed meanwhile."""
    with contextlib.suppress(OSError):
        if missed(database) == seen:
            os.truncate(_queue_of(database), 0)
