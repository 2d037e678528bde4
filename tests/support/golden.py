"""Golden texts: what a person sees, kept in a file beside the test and compared line by line.

`UPTHREAD_GOLDEN=write` writes them anew, for a person to look at what changed.
"""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

TIMEOUT_S = 60.0


def assert_golden(path: Path, text: str) -> None:
    if os.environ.get("UPTHREAD_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def seen_at(
    columns: int, words: Sequence[str], *, directory: Path, environment: Mapping[str, str]
) -> str:
    """What stands on a terminal of so many columns at the end, without colour or a status line."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        words,
        cwd=directory,
        env={**environment, "TERM": "dumb", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while piece := _read(ours):
            seen += piece
    finally:
        os.close(ours)
        process.wait(TIMEOUT_S)
    return seen.decode("utf-8").replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""
