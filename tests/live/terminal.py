"""A terminal that a program really draws on, and what a person would read there."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Self

ROWS, COLUMNS = 40, 120
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_].*?\x1b\\|.)", re.DOTALL
)


class Terminal:
    """One program on a terminal of its own; leaving the context kills all that runs on it."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], cwd: Path
    ) -> None:
        self._drawn = b""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(command[0], list(command), {**environment, "TERM": "xterm-256color"})
        ioctl(self._terminal, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def wait_for(self, words: str, *, within_s: float) -> None:
        """Read until the words stand there; fails with what stands there in their place."""
        until_s = time.monotonic() + within_s
        while words not in self.text:
            assert time.monotonic() < until_s, self.text[-2000:]
            if select.select([self._terminal], [], [], 0.2)[0]:
                self._read()

    def _read(self) -> None:
        drawn = b""
        with suppress(OSError):  # what it says when nobody draws any more
            drawn = os.read(self._terminal, 65536)
        assert drawn, f"it ended: {self.text[-2000:]}"
        self._drawn += drawn

    @property
    def text(self) -> str:
        """All that was drawn so far, without colours and places."""
        return _ESCAPES.sub("", self._drawn.decode("utf-8", "replace"))

    @property
    def command(self) -> list[str]:
        """The words of the program that runs there now."""
        words = Path(f"/proc/{self.pid}/cmdline").read_bytes().decode()
        return words.split("\0")[:-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)
