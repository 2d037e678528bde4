"""Marks, and the guard of one agent: what ends the agent's tools when upthread itself was killed.

Which processes belong to an agent is told by a variable that all it starts inherit: coding agents
start their tools in sessions of their own, which no signal to a group reaches. The agent itself
ends with us (see `_process`); a command in its shell, or a server it was testing, would go on.

Run as a program this file is the guard. It is in nobody's group, has nothing of our environment,
and reads a pipe whose other end only upthread holds: a byte says that all was tidied up, an end
without one that upthread is gone. One is started beside each agent, so what takes time to import is
imported where it is needed.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

MARK_VARIABLE = "UPTHREAD_PROCESS_MARK"
"""Names the agents a process belongs to, innermost last, separated by colons."""

GUARD_PATIENCE_S = 2.0
"""How long an agent that has been told to end may take, with all it started."""

RELEASE_PATIENCE_S = 5.0

_RELEASED = b"."
_POLL_INTERVAL_S = 0.02
_IS_LINUX = sys.platform == "linux"


# --- marks ---------------------------------------------------------------------------------------


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
        with open(f"/proc/{pid}/environ", "rb") as environment:  # noqa: PTH123  # see the docstring
            return environment.read()
    except OSError:
        return b""


def marked_processes(mark: str) -> tuple[int, ...]:
    """Return the ids of all processes that carry `mark`; none where there is no /proc."""
    if not _IS_LINUX or not mark:
        return ()
    ours = os.getpid()
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208
    # Anywhere: it is random, and may be an outer one of several that the process carries.
    sought = mark.encode()
    return tuple(pid for pid in pids if pid != ours and sought in _environment_of(pid))


def kill_marked(mark: str) -> None:
    """Kill every process that carries `mark`, again until none is new: they may be forking."""
    import signal  # noqa: PLC0415  # see the module docstring

    seen: set[int] = set()
    # Only the new: one that may not be killed would have this go on for ever.
    while new := set(marked_processes(mark)) - seen:
        seen |= new
        for pid in new:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue


# --- the guard -----------------------------------------------------------------------------------


class Guard:
    """A running guard. `release` it when there is nothing left to end; it is reaped then."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.pipe = popen.stdin

    def release(self) -> None:
        """Tell it that all is in order, and wait for its end: a few milliseconds."""
        import contextlib  # noqa: PLC0415  # see the module docstring
        import subprocess  # noqa: PLC0415

        pipe = self._popen.stdin
        assert pipe is not None
        # Somebody may have killed it; what it was for is done.
        with contextlib.suppress(BrokenPipeError):
            pipe.write(_RELEASED)
        pipe.close()
        try:
            self._popen.wait(RELEASE_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


def started_guard(mark: str) -> Guard | None:
    """Start the guard of what carries `mark`; None where processes cannot be found by it."""
    import subprocess  # noqa: PLC0415  # see the module docstring

    from upthread.boundary import programs  # noqa: PLC0415
    from upthread.boundary.files import NOWHERE  # noqa: PLC0415

    if not _IS_LINUX or not sys.executable:
        return None
    popen = subprocess.Popen(
        programs.own_file(os.path.abspath(__file__), mark),  # noqa: PTH100
        bufsize=0,
        cwd=NOWHERE,  # it must not hold on to a directory that somebody wants to remove
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # What ends our group, such as ctrl-C, must leave it to see that we are gone.
        start_new_session=True,
    )
    return Guard(popen)


def _guard(mark: str) -> None:
    """Wait for the other end of the pipe; when it was lost, end what carries the mark."""
    if os.read(sys.stdin.fileno(), len(_RELEASED)):
        return
    # The agent has had SIGTERM and the end of its stdin: it may be writing its session down.
    until_s = time.monotonic() + GUARD_PATIENCE_S
    while marked_processes(mark) and time.monotonic() < until_s:
        time.sleep(_POLL_INTERVAL_S)
    kill_marked(mark)


if __name__ == "__main__":
    _guard(sys.argv[1])
