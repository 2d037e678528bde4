"""Colours: a text as a person sees it, without what paints it, and where a part of that stands.

`grep --color`, highlighters and test runners write `ESC [ 1 m` before, behind and within what they
paint, and JSON and source code write the ESC as an escape. To an expression that is a part of the
word. So rules look at a painted text twice: as it is, and without its colours.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from typing import Final

from msgspec import Struct

from upthread.core.redaction.linear import Expression

_ESCAPE: Final = b"\x1b"
_BACKSLASH: Final = b"\\"
_WRITTEN_ESCAPES: Final = (b"u001b", b"u001B", b"x1b", b"x1B", b"033[", b"\\e[")
"""Without an escape, or a backslash before one of these, nothing is painted. Most texts have
neither byte, and are looked through for these two alone: each text that is kept comes here."""

_COLOUR: Final = r"(?:\x1b|\\{1,8}(?:u001[bB]|x1[bB]|033|e))(?:\[[0-9;:?]{0,32}[A-Za-z]|\(B)"
"""A control sequence: a colour, the end of one, `erase the line`, which grep writes behind each."""


class Unpainted(Struct, frozen=True, kw_only=True):
    """A text without its colours: `text`, and where each piece of it stands there and stood."""

    text: bytes
    starts: tuple[int, ...]
    stood: tuple[int, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a span of the text stood, from its first byte to its last."""
        return self._at(start), self._at(end - 1) + 1

    def _at(self, place: int) -> int:
        piece = bisect_right(self.starts, place) - 1
        return self.stood[piece] + place - self.starts[piece]


def unpainted(content: bytes) -> Unpainted | None:
    """Return a text without its colours, None where it has none."""
    if _ESCAPE not in content and not _has_written_escape(content):
        return None
    pieces: list[bytes] = []
    starts: list[int] = []
    stood: list[int] = []
    end = length = 0
    for start, behind in (*_colour().spans(content), (len(content), len(content))):
        if end < start:
            pieces.append(content[end:start])
            starts.append(length)
            stood.append(end)
            length += start - end
        end = behind
    # An escape that paints nothing, as in `\\e[0`: one look is enough.
    if length == len(content):
        return None
    return Unpainted(text=b"".join(pieces), starts=tuple(starts), stood=tuple(stood))


def _has_written_escape(content: bytes) -> bool:
    return _BACKSLASH in content and any(each in content for each in _WRITTEN_ESCAPES)


@functools.cache
def _colour() -> Expression:
    return Expression(_COLOUR)
