"""Private files: read with a limit, replaced atomically, changed by one process at a time."""

from __future__ import annotations

import fcntl
import os
import time

from upthread.boundary import files as opener
from upthread.runtime.bindings.light_json import NotJsonError, dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

SCHEMA = 1
FILE_BYTES_MAX = 4 * 1024 * 1024
LOCK_WAIT_S = 0.3
LOCK_LOOK_S = 0.02


class UnreadableError(Exception):
    """A file is there and cannot be used; the message says which, and why."""


class BusyError(Exception):
    """Another process holds the lock for longer than a hook may wait."""


def read(path: str) -> dict[str, Any] | None:
    """Return a file's content, None when there is no file. Raises UnreadableError."""
    try:
        descriptor = opener.direct(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from error
    try:
        raw = _all_of(descriptor)
        fields = loads(raw.decode("utf-8"))
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from error
    except (NotJsonError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path}: {error}") from error
    finally:
        os.close(descriptor)
    # Another version may mean something else by the same name: better nothing than half of it.
    if fields.get("schema") != SCHEMA:
        raise UnreadableError(f"{path}: written by another version of upthread")
    return fields


def _all_of(descriptor: int) -> bytes:
    pieces: list[bytes] = []
    left = FILE_BYTES_MAX
    # One byte more than may be, so that a file that is too long is told from one that just fits.
    while piece := os.read(descriptor, min(left + 1, 1024 * 1024)):
        left -= len(piece)
        if left < 0:
            raise NotJsonError(f"more than {FILE_BYTES_MAX} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def replace(path: str, fields: dict[str, Any]) -> None:
    """Write a file whole, for nobody else to read; a crash leaves the old one. Raises OSError."""
    make_directory(os.path.dirname(path))
    # Named by the process: two never write into one, and what a dead one left is found by it.
    beside = f"{path}.{os.getpid()}"
    raw = dumps({"schema": SCHEMA, **fields}).encode("ascii")
    descriptor = _made(beside)
    try:
        _write_all(descriptor, raw)
    except BaseException:
        os.unlink(beside)
        raise
    finally:
        os.close(descriptor)
    # Hooks read without the lock: they find the old file or the new one, and never half of one.
    os.replace(beside, path)


def _made(beside: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(beside, flags, 0o600)
    except FileExistsError:
        # Left by a process that was killed while it wrote and had our pid, as happens in
        # containers: whoever took it for one at work would never write this file again.
        remove(beside)
        return os.open(beside, flags, 0o600)


def make_directory(path: str) -> None:
    """Make a directory and those above it, each for nobody else; `makedirs` does the last only."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directory(os.path.dirname(path))
        make_directory(path)


def _write_all(descriptor: int, raw: bytes) -> None:
    left = raw
    while left:
        left = left[os.write(descriptor, left) :]


def remove(path: str) -> None:
    """Take a file away, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def remove_half_written(directory: str) -> None:
    """Take away what processes that died have left beside the files of a directory."""
    from upthread.runtime.bindings.claims import started_at_ticks

    try:
        listed = os.listdir(directory)
    except FileNotFoundError:
        return
    for name in listed:
        _, is_beside, pid = name.rpartition(".json.")
        # One that lives may be writing it at this moment.
        if is_beside and pid.isdecimal() and started_at_ticks(int(pid)) is None:
            remove(os.path.join(directory, name))


class Lock:
    """Held by one process at a time, given back by its death. Raises BusyError."""

    def __init__(self, path: str, *, wait_s: float = LOCK_WAIT_S) -> None:
        self._path = path
        self._wait_s = wait_s
        self._descriptor = -1

    def __enter__(self) -> None:
        make_directory(os.path.dirname(self._path))
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline_s = time.monotonic() + self._wait_s
        # Not waited for within flock, which knows no limit: an agent stands still meanwhile.
        while not self._is_taken():
            if time.monotonic() >= deadline_s:
                os.close(self._descriptor)
                raise BusyError(f"{self._path} is held by another process")
            time.sleep(LOCK_LOOK_S)

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Not by closing it alone: a child that was forked meanwhile has the same lock, and would
        # hold it until it ends.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)
