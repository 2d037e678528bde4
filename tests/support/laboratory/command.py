"""`upthread …` as a process to be killed: the program itself, its output in a file.

Warm, it is forked from a server that has everything imported, and begins to work at once; cold, it
is started as a person starts it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tests.support.warm_process import Invocation, Warm

PROC = Path("/proc")
ENDS_WITHIN_S = 60.0

Json = dict[str, Any]


class Started(Protocol):
    """What the two ways to start a process have in common."""

    pid: int

    def exit_code(self, within_s: float) -> int | None: ...


class Command:
    """One invocation, running or ended."""

    def __init__(self, invocation: Invocation, *, is_cold: bool = False) -> None:
        self.invocation = invocation
        self._started: Started = (_Cold if is_cold else Warm)(invocation)
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
        """The whole lines it has written: what somebody who looks has been told."""
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


class _Cold:
    def __init__(self, invocation: Invocation) -> None:
        with (
            Path(invocation.output).open("wb") as out,
            Path(invocation.errors).open("wb") as errors,
        ):
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "upthread", *invocation.words],
                cwd=invocation.directory,
                env=invocation.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
            )
        self.pid = self._popen.pid

    def exit_code(self, within_s: float) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(within_s)
        return self._popen.returncode


def _children_of(pid: int) -> list[int]:
    found: list[int] = []
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                stat = (entry / "stat").read_text()
                if int(stat[stat.rindex(")") + 2 :].split()[1]) == pid:
                    found.append(int(entry.name))
    return found


def _leads_session(pid: int) -> bool:
    with suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False
