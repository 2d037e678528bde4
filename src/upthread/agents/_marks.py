"""Marks: which processes belong to an agent, found by a variable that all it starts inherit.

Coding agents start their tools in sessions of their own, which no signal to a group reaches. Run as
a program this file is the guard that ends them when upthread itself was killed: it reads a pipe
whose other end only upthread holds. A byte says that all was tidied up; an end without one, that
upthread is gone. Standard library only, so that the guard starts in milliseconds with `-I -S`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MARK_VARIABLE = "UPTHREAD_PROCESS_MARK"
"""Names the agents a process belongs to, innermost last, separated by colons."""

GUARD_PATIENCE_S = 2.0
"""How long an agent that has been told to end may take, with all it started."""

RELEASED = b"."

_POLL_INTERVAL_S = 0.02
_PROC = Path("/proc")
_IS_LINUX = sys.platform == "linux"


def mark_for(inherited: Mapping[str, str], mark: str) -> str:
    """Return the mark variable's value for a new agent, keeping the marks we run under."""
    outer = inherited.get(MARK_VARIABLE, "")
    return f"{outer}:{mark}" if outer else mark


def marks_of(pid: int) -> str:
    """Return the innermost mark of process `pid`, empty when it has none or cannot be read."""
    for entry in _environment_of(pid).split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == MARK_VARIABLE.encode():
            return value.decode("ascii", "replace").rpartition(":")[2]
    return ""


def _environment_of(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""


def marked_processes(mark: str) -> tuple[int, ...]:
    """Return the ids of all processes that carry `mark`; none where there is no /proc."""
    if not _IS_LINUX or not mark:
        return ()
    ours = os.getpid()
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())
    # Anywhere: it is random, and may be an outer one of several that the process carries.
    sought = mark.encode()
    return tuple(pid for pid in pids if pid != ours and sought in _environment_of(pid))


def kill_marked(mark: str) -> None:
    """Kill every process that carries `mark`, again until none is new: they may be forking."""
    seen: set[int] = set()
    # Only the new: one that may not be killed would have this go on for ever.
    while new := set(marked_processes(mark)) - seen:
        seen |= new
        for pid in new:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _guard(mark: str) -> None:
    """Wait for the other end of the pipe; when it was lost, end what carries the mark."""
    if os.read(sys.stdin.fileno(), len(RELEASED)):
        return
    # The agent has had SIGTERM and the end of its stdin: it may be writing its session down.
    until_s = time.monotonic() + GUARD_PATIENCE_S
    while marked_processes(mark) and time.monotonic() < until_s:
        time.sleep(_POLL_INTERVAL_S)
    kill_marked(mark)


if __name__ == "__main__":
    _guard(sys.argv[1])
