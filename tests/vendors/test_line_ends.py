"""The lines at both ends of a file, and what is wrong with it as far as they tell."""

from __future__ import annotations

import pytest

from upthread.boundary.directories import FileEnds
from upthread.vendors.line_ends import (
    BINARY,
    CUT,
    EMPTY,
    NO_LINES,
    damage_of,
    decoded,
    lines_backward,
    lines_forward,
)


def ends(head: bytes, tail: bytes = b"", *, is_whole: bool = True, at_ms: int = 0) -> FileEnds:
    return FileEnds(len(head) + len(tail), at_ms, head, tail, is_whole)


def test_of_a_small_file_all_lines_are_told_both_ways():
    small = ends(b"a\nb\n", b"c\n")
    assert list(lines_forward(small)) == [b"a", b"b", b"c"]
    assert list(lines_backward(small)) == [b"c", b"b", b"a"]


def test_the_pieces_of_lines_at_the_cuts_are_left_out():
    large = ends(b"a\nb\nhal", b"lf\nc\nd\n", is_whole=False)
    assert list(lines_forward(large)) == [b"a", b"b"]
    assert list(lines_backward(large)) == [b"d", b"c"]


def test_half_of_a_character_is_read_and_what_is_no_object_is_none():
    assert decoded(rb'{"text": "\ud800"}') == {"text": "\ud800"}
    for line in (b"[1]", b"{", b"\xff", b"[" * 100_000):
        assert decoded(line) == {}


@pytest.mark.parametrize(
    ("head", "tail", "is_whole", "damage"),
    [
        (b'{"a":1}\n', b"", True, ""),
        (b'{"a":1}\n{"b', b'x}\n{"c":1}', False, ""),
        (b'{"a' + b"a" * 99, b'a":1}\n{"c":1}\n', False, ""),
        (b"", b"", True, EMPTY),
        (b"\n \n", b"", True, EMPTY),
        (b"\0" * 99, b"\0" * 9, False, BINARY),
        (b"PK\3\4\0", b"", True, BINARY),
        (b"hello\nworld\n", b"", True, NO_LINES),
        (b'{"a" 1}\n{"b":1}\n', b"", True, NO_LINES),
        (b'{"a":1}\n{"b":', b"", True, CUT),
        (b'{"a":', b"", True, CUT),
    ],
)
def test_damage_is_told_by_its_reason(head, tail, is_whole, damage):
    assert damage_of(ends(head, tail, is_whole=is_whole)) == damage


def test_a_file_that_is_being_written_may_end_in_the_middle_of_a_line():
    growing = ends(b'{"a":1}\n{"b":', at_ms=1 << 60)
    assert damage_of(growing) == ""
