"""What a held call may run: scripts, Makefiles, configurations. As text, and never run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from upthread.boundary import files

FILE_BYTES_MAX: Final = 256 * 1024
"""How much of a file is read: no script that somebody wrote by hand is longer."""


def reader_in(directory: str) -> Callable[[str], str | None]:
    """Return a reader of text by its path from a directory, wherever its links lead.

    It gives an empty text for a file of no text, None for what is no ordinary file. Each file is
    read once.
    """
    kept: dict[str, str | None] = {}

    def read(path: str) -> str | None:
        whole = os.path.normpath(os.path.join(directory, os.path.expanduser(path)))  # noqa: PTH118, PTH111
        if whole not in kept:
            kept[whole] = _text_of(whole)
        return kept[whole]

    return read


def _text_of(path: str) -> str | None:
    try:
        # Wherever it lies: what is read can only have a call be held, and lets none pass (ADR 90).
        content = files.read_start(path, FILE_BYTES_MAX)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return "" if b"\0" in content else content.decode("utf-8", "replace")
