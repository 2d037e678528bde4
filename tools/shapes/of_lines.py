"""Shapes of any file of lines: what may happen to its bytes, whoever wrote them."""

from __future__ import annotations

import json

from tools.shapes import Stored, Table, encoded

SHAPES = Table()


def apart(s: Stored, mark: str) -> tuple[bytes, bytes]:
    """Return the bytes before the first line that says a mark, and the bytes from there."""
    at = s.at(mark)
    return b"".join(map(encoded, s.lines[:at])), b"".join(map(encoded, s.lines[at:]))


@SHAPES
def as_it_was(_: Stored) -> None:
    """As the agent stored it."""


@SHAPES
def cut_tail(s: Stored) -> bytes:
    """The last answer is cut in the middle of its line."""
    whole, last = apart(s, "PEAR-3")
    return whole + last[:120]


@SHAPES
def cut_after_the_end(s: Stored) -> bytes:
    """Half of a further line follows the whole session."""
    return s.raw + encoded(s.lines[-1])[:60]


@SHAPES
def no_last_line_end(s: Stored) -> bytes:
    """The last line lacks its line end."""
    return s.raw.rstrip(b"\n")


@SHAPES
def nul_tail(s: Stored) -> bytes:
    """NUL bytes follow the last line, as after a power cut."""
    return s.raw + b"\0" * 2048


@SHAPES
def nul_in_the_middle(s: Stored) -> bytes:
    """A block of NUL bytes stands between two lines."""
    before, after = apart(s, "PLUM-2")
    return before + b"\0" * 512 + b"\n" + after


@SHAPES
def nul_before_a_line(s: Stored) -> bytes:
    """A block of NUL bytes stands before a line, without a line end between."""
    before, after = apart(s, "PLUM-2")
    return before + b"\0" * 512 + after


@SHAPES
def byte_order_mark(s: Stored) -> bytes:
    """The file begins with a byte order mark."""
    return b"\xef\xbb\xbf" + s.raw


@SHAPES
def utf_16(s: Stored) -> bytes:
    """The file is UTF-16."""
    return s.raw.decode().encode("utf-16")


@SHAPES
def windows_line_ends(s: Stored) -> bytes:
    """Lines end with CR LF."""
    return s.raw.replace(b"\n", b"\r\n")


@SHAPES
def blank_lines(s: Stored) -> bytes:
    """Blank lines stand between the lines."""
    return s.raw.replace(b"\n", b"\n\n \n")


@SHAPES
def no_line_ends(s: Stored) -> bytes:
    """All values stand in one line."""
    return s.raw.replace(b"\n", b" ")


@SHAPES
def pretty_printed(s: Stored) -> bytes:
    """Each value is spread over several lines."""
    return b"".join(json.dumps(line, indent=1).encode() + b"\n" for line in s.lines)


@SHAPES
def garbage_line(s: Stored) -> bytes:
    """A line that is no JSON stands in the middle."""
    before, after = apart(s, "PLUM-2")
    return before + b'{"oops\n' + after


@SHAPES
def a_list_for_a_line(s: Stored) -> bytes:
    """A line holds a list in place of an object."""
    before, after = apart(s, "PLUM-2")
    return before + b"[1,2]\nnull\n" + after


@SHAPES
def not_utf_8(s: Stored) -> bytes:
    """A message has a byte that is no UTF-8."""
    return s.raw.replace(b"PEAR-2", b"PEAR-2 \xff\xfe")


@SHAPES
def half_a_character(s: Stored) -> bytes:
    """A message has half of a surrogate pair, as an escape."""
    return s.raw.replace(b"PEAR-2", rb"PEAR-2 \ud800")


@SHAPES
def empty(_: Stored) -> bytes:
    """The file is empty."""
    return b""


@SHAPES
def blank(_: Stored) -> bytes:
    """The file holds blank lines alone."""
    return b"\n \n\n"


@SHAPES
def binary(_: Stored) -> bytes:
    """The file is another program's."""
    return b"PK\x03\x04" + bytes(range(256)) * 8
