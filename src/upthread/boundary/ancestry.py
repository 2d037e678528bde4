"""The processes above this one, and the variables they were started with.

A program can start another with a clean environment; that it was started below an agent still
stands in the table of processes, until those between are gone. Where the system tells nothing of
it (other than Linux, another account's process), nothing is found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

ANCESTORS_MAX: Final = 64
ENVIRONMENT_BYTES_MAX: Final = 4 * 1024 * 1024
_STAT_BYTES_MAX: Final = 4096


def environments_above() -> Iterator[Mapping[str, str]]:
    """Yield what each process above this one was started with, the nearest first."""
    pid = os.getppid()
    # A pid may be given out again while we go up: without a bound the way could go round.
    for _ in range(ANCESTORS_MAX):
        if pid <= 1:
            return
        yield _environment_of(pid)
        pid = _parent_of(pid)


def _environment_of(pid: int) -> Mapping[str, str]:
    raw = _read(f"/proc/{pid}/environ", ENVIRONMENT_BYTES_MAX)
    pairs = (each.partition(b"=") for each in raw.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name}


def _parent_of(pid: int) -> int:
    """Return the pid of a process's parent, 0 for none; a name may hold spaces and brackets."""
    after_name = _read(f"/proc/{pid}/stat", _STAT_BYTES_MAX).rpartition(b")")[2].split()
    return int(after_name[1]) if len(after_name) > 1 and after_name[1].isdigit() else 0


def _read(path: str, bytes_max: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(bytes_max)
    except OSError:  # gone, another account's, or no such file system
        return b""
