"""Blocks: lines of ours at the end of somebody's TOML file, between two comments that say whose."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from upthread.errors import UsageError

BEGIN: Final = "# begin: written by `upthread setup`"
END: Final = "# end: written by `upthread setup`"

_BLOCK: Final = re.compile(rb"\n?" + BEGIN.encode() + rb"\n.*?" + END.encode() + rb"\n", re.DOTALL)


def with_block(path: Path, content: bytes | None, lines: tuple[str, ...]) -> bytes:
    """Return a file with these lines as its block. Raises UsageError when that would not be TOML.

    A table that is there already would be there twice, and is somebody else's to change.
    """
    # Ours is taken out first: written again it stands once, and at the end.
    kept = without_block(content or b"")
    between = b"" if not kept else b"\n" if kept.endswith(b"\n") else b"\n\n"
    block = "\n".join((BEGIN, *lines, END, ""))
    after = kept + between + block.encode()
    try:
        # Before it is shown, and long before it is written:
        # a broken file would stop the agent itself.
        tomllib.loads(after.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} would be no valid TOML with upthread's lines: {error}",
            hint="mend it, or take out what names upthread there",
        ) from error
    return after


def block_of(content: bytes) -> bytes:
    """Return our block of a file, empty when there is none."""
    found = _BLOCK.search(content)
    return found[0] if found else b""


def without_block(content: bytes) -> bytes:
    """Return a file without our block, everything else as it is."""
    return _BLOCK.sub(b"", content)


def taken_out(_path: Path, content: bytes) -> bytes | None:
    """Return a file that somebody has changed since without our block."""
    return without_block(content)
