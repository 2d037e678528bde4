"""Record `upthread demo` on a real terminal, as the picture that the README shows.

    python -m tools.record_demo            # writes docs/demo.svg
    python -m tools.record_demo --check    # says whether it is what the demo prints now

The demo runs in an empty home on a pseudo-terminal; what it prints there, colours and all, is drawn
by rich. Session and process ids differ from run to run, and are not compared.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from html import unescape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"
COLUMNS, LINES = 104, 30
COMMAND = "$ upthread demo"


def recorded() -> str:
    """Return what the demo writes to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "HOME": home,
            "UPTHREAD_HOME": str(Path(home) / "upthread"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }
        demo = subprocess.Popen(
            [sys.executable, "-m", "upthread", "demo"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=home,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        pieces = bytearray()
        while piece := _read(ours):
            pieces += piece
        os.close(ours)
        if demo.wait() != 0:
            raise SystemExit(f"the demo failed: {pieces.decode(errors='replace')}")
    return pieces.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed
        return b""


def drawn(told: str, *, command: str = COMMAND, name: str = "demo") -> str:
    """Return the picture of what a command writes to a terminal; `name` is its own in a page."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(command, style="bold"))
    console.print(Text.from_ansi(told.replace("\r\n", "\n")))
    picture = console.export_svg(title=f"upthread {name}", theme=MONOKAI, unique_id=name)
    # Who looks at it asks nobody else for anything: without the fonts that rich would load.
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)


def words_in(picture: str) -> list[str]:
    """Return what a picture says, word by word, without the ids."""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    plain = unescape(" ".join(texts)).replace("\xa0", " ")
    return re.sub(r"ses_[0-9a-f]+|kill -9 \d+", "ID", plain).split()


def main() -> int:
    """Write the picture, or compare it."""
    picture = drawn(recorded())
    if "--check" in sys.argv:
        if words_in(picture) == words_in(PICTURE.read_text("utf-8")):
            return 0
        sys.stderr.write("docs/demo.svg is not what the demo prints: make recording\n")
        return 1
    PICTURE.write_text(picture, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
