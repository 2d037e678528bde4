"""The lines at both ends of a file of lines, decoded only where a reader asks.

The last line of the head and the first of the tail may be the pieces of longer ones: they are left
out. What a line is not asked for is not decoded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from upthread.boundary.directories import FileEnds
from upthread.vendors.lines import read_object

BINARY: Final = "binary"
EMPTY: Final = "empty"
CUT: Final = "cut off in the middle of a line"
NO_LINES: Final = "not lines of JSON"

GROWING_MS: Final = 60_000
"""What was written so recently may be under way, and end in the middle of a line."""

_PROBED_BYTES: Final = 4096
_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


def lines_forward(ends: FileEnds) -> Iterator[bytes]:
    """Yield the lines of the head, first to last."""
    head = ends.head + ends.tail if ends.is_whole else ends.head
    lines = head.split(b"\n")
    if not ends.is_whole:
        lines.pop()
    yield from filter(None, lines)


def lines_backward(ends: FileEnds) -> Iterator[bytes]:
    """Yield the lines of the tail, last to first; of a file that the ends hold whole, of it all."""
    tail = ends.head + ends.tail if ends.is_whole else ends.tail
    lines = tail.split(b"\n")
    if not ends.is_whole:
        lines.pop(0)
    yield from filter(None, reversed(lines))


def decoded(line: bytes) -> dict[str, Any]:
    """Return the object of a line, an empty one where it holds none."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value, _ = read_object(line)  # takes what msgspec does not: halves of characters
        return dict(value)


def damage_of(ends: FileEnds) -> str:
    """Return what is wrong with a file of lines, as its ends tell; empty for nothing."""
    if b"\0" in ends.head[:_PROBED_BYTES]:
        return BINARY
    first, feed, _ = ends.head.lstrip().partition(b"\n")
    if not first:
        return EMPTY
    # A first line that is longer than the head is cut there, and cannot be decoded.
    if not first.startswith(b"{") or ((feed or ends.is_whole) and not decoded(first)):
        return NO_LINES if feed or not first.startswith(b"{") else CUT
    last = (ends.tail or ends.head).rsplit(b"\n", 1)
    if len(last) > 1 and last[1].strip() and not decoded(last[1]):
        return "" if _is_growing(ends) else CUT
    return ""


def _is_growing(ends: FileEnds) -> bool:
    return ends.written_at_ms > time.time_ns() // 1_000_000 - GROWING_MS
