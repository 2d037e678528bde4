"""Other processes, as Linux lists them: those above this one, and suspended holders of a lock.

A program can start another with a clean environment; the table of processes still shows that an
agent started it, until the processes between are gone. Where the system reports nothing (not Linux,
another account's process), there is no result.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

ANCESTORS_MAX: Final = 64
ENVIRONMENT_BYTES_MAX: Final = 4 * 1024 * 1024
LOCKS_BYTES_MAX: Final = 4 * 1024 * 1024
_STAT_BYTES_MAX: Final = 4096
_SUSPENDED: Final = b"T"
_NS_PER_TICK: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def started_at_ticks(pid: int) -> int | None:
    """Return when a process started, None if it is gone; 0 where the machine does not tell."""
    if pid <= 0:
        return None
    stat = _stat_of(pid)
    if not stat:
        # Gone, or a system without /proc, which tells no more than that a pid is in use.
        return None if os.path.exists("/proc/self/stat") else _lives_without_proc(pid)
    # A zombie has ended and waits to be collected, by an agent that may never do it.
    return None if stat[0] in {b"Z", b"X"} else int(stat[19])


def _lives_without_proc(pid: int) -> int | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    # Somebody else's, and there.
    except PermissionError:
        return 0
    return 0


def environments_above() -> Iterator[Mapping[str, str]]:
    """Yield what each process above this one was started with, the nearest first."""
    pid = os.getppid()
    # A pid may be given out again while we go up: without a bound the way could go round.
    for _ in range(ANCESTORS_MAX):
        if pid <= 1:
            return
        yield environment_of(pid)
        pid = _parent_of(pid)


def living_parent() -> int:
    """Return the process that started this one and reads its output, 0 where it has died.

    An orphan has another parent, which may live for ever.
    """
    parent, output = os.getppid(), select.poll()
    output.register(1, 0)
    gone = select.POLLERR | select.POLLHUP  # of a pipe, and of a pair of sockets
    return 0 if any(events & gone for _, events in output.poll(0)) else parent


def suspended_holder(files: Iterable[Path]) -> int | None:
    """Return the pid of a suspended process (Ctrl-Z) that holds a write lock of one of the files.

    The kernel's list of locks is read, because asking for a lock would need the file to be opened,
    and closing it would drop this process's own locks (POSIX).
    """
    inodes = {str(each.stat().st_ino).encode() for each in files if each.exists()}
    for line in _read("/proc/locks", LOCKS_BYTES_MAX).splitlines():
        # For example `1: POSIX  ADVISORY  WRITE 4711 00:2c:90813 120 120` (proc(5)).
        _, kind, _, access, pid, file, *_ = line.split()
        # A process that waits for a lock has `->` as its kind.
        is_held = kind in {b"POSIX", b"FLOCK"} and access == b"WRITE"
        is_ours = is_held and file.rpartition(b":")[2] in inodes
        if is_ours and _stat_of(int(pid))[:1] == [_SUSPENDED]:
            return int(pid)
    return None


def users_of(file: Path) -> Iterator[tuple[int, int]]:
    """Yield the other processes of this account that have a file open; none without /proc.

    Each is a pid and when it started, in epoch milliseconds.
    """
    wanted = file.stat()
    for process in Path("/proc").glob("[0-9]*"):
        pid = int(process.name)
        with suppress(OSError):  # gone meanwhile, or another account's
            is_open = any(os.path.samestat(each.stat(), wanted) for each in process.glob("fd/*"))
            if is_open and pid != os.getpid() and (ticks := started_at_ticks(pid)):
                age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * _NS_PER_TICK
                yield pid, (time.time_ns() - age_ns) // 1_000_000


def environment_of(pid: int) -> Mapping[str, str]:
    """Return what a process was started with; empty where the system does not tell."""
    raw = _read(f"/proc/{pid}/environ", ENVIRONMENT_BYTES_MAX)
    pairs = (each.partition(b"=") for each in raw.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name}


def _parent_of(pid: int) -> int:
    """Return the pid of a process's parent, 0 for none."""
    after_name = _stat_of(pid)
    return int(after_name[1]) if len(after_name) > 1 and after_name[1].isdigit() else 0


def _stat_of(pid: int) -> list[bytes]:
    """Return a process's state and what follows it; its name may hold spaces and brackets."""
    return _read(f"/proc/{pid}/stat", _STAT_BYTES_MAX).rpartition(b")")[2].split()


def _read(path: str, bytes_max: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(bytes_max)
    except OSError:  # gone, another account's, or no such file system
        return b""
