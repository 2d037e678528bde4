"""Texts people hand in: a prompt, a specification, from the line, a file or standard input."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from upthread.boundary import files
from upthread.boundary.git.places import untrusted_around
from upthread.errors import UsageError

STDIN: Final = "-"
BYTES_MAX: Final = 1024 * 1024


def read_prompt(text: str) -> str:
    """Return the text, or standard input for `-`. Raises UsageError for what is no text."""
    if text != STDIN:
        return text
    return _decoded(_read_stdin(), "standard input")


def read_specification(path: str) -> str:
    """Return a specification file's text; `-` is standard input. Raises UsageError."""
    if path == STDIN:
        return _decoded(_read_stdin(), "the specification on standard input")
    what = f"the specification {path!r}"
    try:
        return _decoded(_read(path), what)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        cure = error.cure if isinstance(error, files.FileRefusedError) else "--spec FILE"
        raise UsageError(f"{what} cannot be read: {reason}", hint=cure) from error


def _read(path: str) -> bytes:
    """Read what was named in a repository as the repository's, anything else as the person's own.

    The person's own may be a pipe (--spec <(command)): its length is known only after reading.
    """
    place = files.place_within(untrusted_around(str(Path.cwd())), path)
    if place is None:
        with Path(path).open("rb") as file:
            return file.read(BYTES_MAX + 1)
    with os.fdopen(files.within(*place), "rb") as file:
        return file.read(BYTES_MAX + 1)


def _read_stdin() -> bytes:
    # At a terminal it would wait, and look as if upthread did.
    if sys.stdin is None or os.isatty(sys.stdin.fileno()):
        raise UsageError("- reads standard input, and nothing is piped in", hint="… | upthread …")
    # One byte more, by which what is too long is told from what just fits.
    return sys.stdin.buffer.read(BYTES_MAX + 1)


def _decoded(raw: bytes, what: str) -> str:
    if len(raw) > BYTES_MAX:
        raise UsageError(f"{what} is longer than {BYTES_MAX} bytes", hint="shorten it")
    if b"\0" in raw:
        raise UsageError(f"{what} is binary, not text", hint="give a text file, UTF-8")
    try:
        # Editors may put a mark before the text, which is none of it.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} is not UTF-8 text", hint="convert it to UTF-8") from error
    if not text.strip():
        raise UsageError(f"{what} is empty", hint="write down what is wanted")
    return text
