"""A terminal that a program really draws on: what a person reads there, types and closes.

The program runs on a pseudo-terminal; what it draws is put on a screen by a terminal emulator
(pyte, ADR 74), so that a test reads rows and columns as a person does and never a stream of escape
sequences. A thread reads all the time: a program that nobody reads stands still, and one that asks
its terminal a question gets its answer at once.
"""

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyte
from tests.live.shell import tree_of

ROWS, COLUMNS = 60, 160
READ_BYTES_MAX = 65536
HISTORY_ROWS_MAX = 200
LOOKS_EVERY_S = 0.1
QUIET_S, SETTLED_WITHIN_S = 1.0, 10.0
ENDED_WITHIN_S = 20.0
KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "down": "\x1b[B",
    "up": "\x1b[A",
    "interrupt": "\x03",
    "end of file": "\x04",
}
_BECOME = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal its own, then becomes the program: no fork of a process that has threads."""

_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: moves, erases, colours, asks
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC: nothing that is seen
    r"|[()#%].|[^\[\]PX^_()#%])"
)
_KNOWN = re.compile(r"\x1b(?:\[[0-9;]*[@A-HJ-MPXacdefghln`r]|\[\?[0-9;]*[hl]|[78DEHMc])")
"""What moves the cursor, erases and asks. The rest is colour, or pyte would draw it as text."""
_MARGIN = re.compile(r"\x1b\[([0-9]*)([ST])")
_FRAME = re.compile(r"[\s\u2500-\u257f\u2580-\u259f]+")


class _Screen(pyte.HistoryScreen):
    """Answers what a program asks its terminal, and scrolls as it is told to."""

    def __init__(self, answer: Callable[[str], None]) -> None:
        super().__init__(COLUMNS, ROWS, history=HISTORY_ROWS_MAX)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    def scroll(self, by: int) -> None:
        """Move the rows within the margins up, or down for a negative number."""
        top, bottom = self.margins or pyte.screens.Margins(0, self.lines - 1)
        x, y = self.cursor.x, self.cursor.y
        for _ in range(abs(by)):
            self.cursor.y = bottom if by > 0 else top
            (self.index if by > 0 else self.reverse_index)()
        self.cursor.x, self.cursor.y = x, y


class Terminal:
    """One program on a terminal of its own; leaving the context kills all that runs on it."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], cwd: Path
    ) -> None:
        self._terminal, below = pty.openpty()
        fcntl.ioctl(below, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._screen = _Screen(self._send)
        self._stream = pyte.Stream(self._screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._undrawn = ""
        self._is_over = False
        self._drawn_at_s = time.monotonic()
        self._drawing = threading.RLock()
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", _BECOME, *command],
            stdin=below,
            stdout=below,
            stderr=below,
            cwd=cwd,
            env={**environment, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        self.pid = self._process.pid
        os.close(below)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    # --- what a person does ----------------------------------------------------------------------

    def type(self, text: str) -> None:
        """Type a text, without the key that sends it."""
        self._send(text)

    def paste(self, text: str) -> None:
        """Paste a text as terminals do, so that its line ends do not send it."""
        self._send(f"\x1b[200~{text}\x1b[201~")

    def press(self, *keys: str) -> None:
        """Press keys by their names, one after the other."""
        for key in keys:
            self._send(KEYS[key])

    # --- what a person sees ----------------------------------------------------------------------

    @property
    def screen(self) -> str:
        """The rows as they stand there now."""
        with self._drawing:
            buffer = self._screen.buffer
            return "\n".join(_words(buffer[row]) for row in range(ROWS)).rstrip()

    @property
    def text(self) -> str:
        """What stands there and what has scrolled away: the words alone, with single spaces."""
        with self._drawing:
            gone = [_words(row) for row in self._screen.history.top]
        return _FRAME.sub(" ", "\n".join([*gone, self.screen]))

    def wait_for(self, words: str, *, within_s: float) -> None:
        """Wait until the words stand there; fails with what stands there in their place."""
        self.wait_until(lambda: words in self.text, f"{words!r}", within_s=within_s)

    def wait_until(self, holds: Callable[[], bool], what: str, *, within_s: float) -> None:
        """Look again and again until something holds; fails with what stands there."""
        until_s = time.monotonic() + within_s
        while not holds():
            assert not self.is_over, f"it ended before {what}:\n{self.screen}"
            is_late = time.monotonic() > until_s
            assert not is_late, f"no {what} within {within_s:g} s; the screen:\n{self.screen}"
            time.sleep(LOOKS_EVERY_S)

    def wait_settled(self) -> None:
        """Wait until nothing has been drawn for a moment: what is drawn may not listen yet."""
        until_s = time.monotonic() + SETTLED_WITHIN_S
        while time.monotonic() < min(until_s, self._drawn_at_s + QUIET_S):
            time.sleep(LOOKS_EVERY_S)

    # --- how it ends -----------------------------------------------------------------------------

    def wait_ended(self) -> None:
        """Wait until the program has ended by itself."""
        try:
            self._process.wait(ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end; the screen:\n{self.screen}") from None

    def kill(self) -> None:
        """SIGKILL the program and all below it at once: nothing of them can tidy up."""
        for pid in tree_of(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    @property
    def is_over(self) -> bool:
        """Whether the program has let go of its terminal."""
        return self._is_over

    @property
    def command(self) -> list[str]:
        """The words of the program that runs there now."""
        words = Path(f"/proc/{self.pid}/cmdline").read_bytes().decode()
        return words.split("\0")[:-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._reader.join(ENDED_WITHIN_S)
        os.close(self._terminal)

    # --- between the program and the screen ------------------------------------------------------

    def _send(self, text: str) -> None:
        with suppress(OSError):  # whoever should have read it has ended: waiting says so
            os.write(self._terminal, text.encode())

    def _read(self) -> None:
        while True:
            drawn = b""
            with suppress(OSError):  # what it says when nobody draws any more
                drawn = os.read(self._terminal, READ_BYTES_MAX)
            if not drawn:
                self._is_over = True
                return
            with self._drawing:
                self._draw(self._decoder.decode(drawn))
                self._drawn_at_s = time.monotonic()

    def _draw(self, text: str) -> None:
        """Draw what the emulator knows; a sequence that was cut in two waits for its rest."""
        text = self._undrawn + text
        at = 0
        for found in _SEQUENCE.finditer(text):
            self._stream.feed(text[at : found.start()])
            self._obey(found[0])
            at = found.end()
        begun = text.find("\x1b", at)
        end = len(text) if begun < 0 else begun
        self._stream.feed(text[at:end])
        self._undrawn = text[end:]

    def _obey(self, sequence: str) -> None:
        if _KNOWN.fullmatch(sequence):
            self._stream.feed(sequence)
        elif moved := _MARGIN.fullmatch(sequence):
            by = int(moved[1] or 1)
            self._screen.scroll(by if moved[2] == "S" else -by)


def _words(row: Mapping[int, pyte.screens.Char]) -> str:
    """A row without colours; the second half of a wide character has no text."""
    return "".join(row[column].data for column in range(COLUMNS)).rstrip()
