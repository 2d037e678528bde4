"""`upthread …` as a process to be killed: the program itself, its output in a file."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.warm_process import Invocation, Warm

PROC = Path("/proc")
ENDS_WITHIN_S = 60.0

Json = dict[str, Any]


class Command:
    """One invocation, running or ended."""

    def __init__(self, invocation: Invocation) -> None:
        self.invocation = invocation
        self._started = Warm(invocation)
        self.pid = self._started.pid

    @property
    def is_running(self) -> bool:
        return self._started.exit_code(0) is None

    @property
    def exit_code(self) -> int:
        """Negative for the signal that ended it; AssertionError when it does not end."""
        code = self._started.exit_code(ENDS_WITHIN_S)
        assert code is not None, f"{self.invocation.words} does not end: {self.stderr}"
        return code

    @property
    def was_killed(self) -> bool:
        return self.exit_code == -signal.SIGKILL

    @property
    def lines(self) -> list[Json]:
        """The whole lines that the process has written so far."""
        whole, _, _torn = Path(self.invocation.output).read_bytes().rpartition(b"\n")
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def lines_at_end(self) -> list[Json]:
        """All its lines, once it has ended."""
        assert self.exit_code is not None
        return self.lines

    @property
    def stderr(self) -> str:
        return Path(self.invocation.errors).read_text()

    def agents(self) -> list[int]:
        """The agents it has started: its children that lead a session of their own."""
        return [pid for pid in _children_of(self.pid) if _leads_session(pid)]

    def close(self) -> None:
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)
        assert self.exit_code is not None


def _children_of(pid: int) -> list[int]:
    children: list[int] = []
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                stat = (entry / "stat").read_text()
                if int(stat[stat.rindex(")") + 2 :].split()[1]) == pid:
                    children.append(int(entry.name))
    return children


def _leads_session(pid: int) -> bool:
    with suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False
