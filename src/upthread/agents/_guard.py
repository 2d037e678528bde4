"""The guard of one agent: a small process that ends the agent's tools when we were killed.

The agent itself ends with us (see `_process`), but what it started in sessions of its own would go
on: a command in its shell, a server it was testing. The guard is in nobody's group and has nothing
of our environment; it is released when the agent has been ended in good order.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from upthread.agents import _marks
from upthread.boundary import programs
from upthread.boundary.files import NOWHERE

RELEASE_PATIENCE_S = 5.0


class Guard:
    """A running guard. `release` it when there is nothing left to end; it is reaped then."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid

    def release(self) -> None:
        """Tell it that all is in order, and wait for its end: a few milliseconds."""
        pipe = self._popen.stdin
        assert pipe is not None
        # Somebody may have killed it; what it was for is done.
        with suppress(BrokenPipeError):
            pipe.write(_marks.RELEASED)
        pipe.close()
        try:
            self._popen.wait(RELEASE_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


def started_guard(mark: str) -> Guard | None:
    """Start the guard of what carries `mark`; None where processes cannot be found by it."""
    if sys.platform != "linux" or not sys.executable:
        return None
    words = programs.own_file(str(Path(_marks.__file__)), mark)
    popen = subprocess.Popen(
        words,
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
