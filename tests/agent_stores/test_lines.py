"""Lines of JSON from anywhere: none crashes, none hangs, none takes the machine's memory."""

import io
import json
import random
import subprocess
import sys

import pytest
from backports import zstd
from tests.support.thoroughness import EXAMPLES

from upthread.agent_stores import lines
from upthread.agent_stores.base import BEGINNING_CHARACTERS_MAX
from upthread.agent_stores.lines import (
    BINARY,
    CUT,
    EMPTY,
    NO_LINES,
    CompressedError,
    damage_of,
    decoded,
    ends_in,
    is_cut,
    lines_backward,
    lines_forward,
    lines_in,
    read_lines,
)
from upthread.boundary.directories import FileEnds
from upthread.errors import StoreError

GOOD = b'{"a": 1}'
BAD = {
    "cut UTF-8": '{"a": "é"}'.encode()[:8],
    "cut": b'{"a": ',
    "no object": b"[1, 2]",
    "NUL": b"\x00\x00",
    "deep": b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "deep in objects": b'{"a": ' * 10_000 + b"1" + b"}" * 10_000,
    "deeper than is useful": b'{"a": ' + b"[" * 600 + b"]" * 600 + b"}",
    "two in one": GOOD + GOOD,
}


def read(path, content: bytes):
    path.write_bytes(content)
    return list(read_lines(path))


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_reported_with_its_place_and_its_neighbours_are_read(tmp_path, name):
    found = read(tmp_path / "a.jsonl", b"\n".join([GOOD, BAD[name], GOOD]))
    assert [(line.number, bool(line.why), dict(line.value)) for line in found] == [
        (1, False, {"a": 1}),
        (2, True, {}),
        (3, False, {"a": 1}),
    ]
    report = found[1].unreadable
    assert report.place == "line 2"
    assert 0 < len(report.beginning) <= BEGINNING_CHARACTERS_MAX * 4


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a": "\\ud800"}', {"a": "\ud800"}),
        (b'{"a": "\\u0000"}', {"a": "\x00"}),
        ('{"a": "\u2028\u202e"}'.encode(), {"a": "\u2028\u202e"}),
        (b'{"a": 1}\r', {"a": 1}),
        (b'  {"a": 1}  ', {"a": 1}),
    ],
)
def test_strange_text_is_text(tmp_path, raw, value):
    (line,) = read(tmp_path / "a.jsonl", raw + b"\n")
    assert (line.value, line.why) == (value, "")


def test_nan_is_read_as_it_was_written_and_blank_lines_are_counted(tmp_path):
    (line,) = read(tmp_path / "a.jsonl", b'{"a": NaN}')
    assert line.value["a"] != line.value["a"]
    found = read(tmp_path / "a.jsonl", b"\r\n\n" + GOOD + b"\r\n\n")
    assert [line.number for line in found] == [3]


def test_a_line_beyond_the_limit_is_reported_and_the_next_one_read(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 1000)
    long = json.dumps({"a": "x" * 5_000_000}).encode()
    found = read(tmp_path / "a.jsonl", long + b"\n" + GOOD + b"\n" + long)
    assert [bool(line.why) for line in found] == [True, False, True]
    assert f"{len(long) + 1:,} bytes" in found[0].why


def test_a_line_of_five_megabytes_is_read(tmp_path):
    (line,) = read(tmp_path / "a.jsonl", json.dumps({"a": "x" * 5_000_000}).encode())
    assert len(str(line.value["a"])) == 5_000_000


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"nowhere\.jsonl"):
        list(read_lines(tmp_path / "nowhere.jsonl"))


@pytest.mark.soak
def test_no_bytes_crash_or_hang_a_reader(tmp_path):
    """Good transcripts with bytes changed and cut anywhere: every line is accounted for."""
    chosen = random.Random(7)
    whole = b"\n".join([GOOD, json.dumps({"é": ["日本", {"x": None}]}).encode(), *BAD.values()])
    for _ in range(3 * EXAMPLES):
        content = bytearray(whole)
        for _ in range(chosen.randint(1, 8)):
            at = chosen.randrange(len(content))
            content[at : at + chosen.randint(0, 3)] = chosen.randbytes(chosen.randint(0, 3))
        found = read(tmp_path / "a.jsonl", bytes(content))
        not_blank = [line for line in bytes(content).split(b"\n") if line.strip()]
        assert len(found) == len(not_blank)


MEASURE = """
import resource, sys
from pathlib import Path
from upthread.agents.claude_code.reader import read_histories
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(read,) = read_histories(Path(sys.argv[1]))
print(len(read.unreadable), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.soak
def test_a_line_of_a_hundred_megabytes_takes_no_more_than_its_share(tmp_path):
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        for megabytes in (100, 30):
            entry = {"type": "user", "uuid": str(megabytes), "message": {"content": "x"}}
            raw = json.dumps(entry).encode()
            file.write(raw.replace(b'"x"', b'"' + b"x" * (megabytes * 1024 * 1024) + b'"') + b"\n")
    words = [sys.executable, "-c", MEASURE, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    unreadable, kilobytes = map(int, done.stdout.split())
    assert unreadable == 1
    assert kilobytes <= (3 * 30 + 64) * 1024


def test_a_line_as_long_as_is_taken_is_read_and_so_is_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", len(GOOD))
    found = read(tmp_path / "a.jsonl", b"\n".join([GOOD, GOOD, GOOD + b" ", GOOD]))
    assert [line.number for line in found] == [1, 2, 3, 4]
    assert [bool(line.why) for line in found] == [False, False, True, False]


# --- the lines at both ends of a file, and what is wrong with it as far as they tell --------------


def ends(head: bytes, tail: bytes = b"", *, is_whole: bool = True, at_ms: int = 0) -> FileEnds:
    return FileEnds(len(head) + len(tail), at_ms, head, tail, is_whole)


def test_lines_are_read_both_ways_without_the_pieces_at_the_cuts():
    small = ends(b"a\nb\n", b"c\n")
    assert list(lines_forward(small)) == [b"a", b"b", b"c"]
    assert list(lines_backward(small)) == [b"c", b"b", b"a"]
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
        (b'{"a" 1}\n{"b"\n', b"", True, NO_LINES),
        (b'oops\n{"b":1}\n{"c":', b"", True, ""),
        (b'{"a":', b"", True, CUT),
    ],
)
def test_damage_is_told_by_its_reason(head, tail, is_whole, damage):
    assert damage_of(ends(head, tail, is_whole=is_whole)) == damage


def test_a_last_line_that_is_no_line_is_cut_unless_somebody_writes_it():
    assert [is_cut(ends(b'{"a":1}\n' + last)) for last in (b'{"b":', b"\0\0", b'{"b":1}', b"")] == [
        *(True, True, False, False)
    ]
    assert not is_cut(ends(b'{"a":1}\n{"b":', at_ms=1 << 60))


# --- compressed files: read in pieces, and refused where they expand without end ------------------


def test_both_ends_of_what_it_holds_are_told():
    raw = bytes(range(256)) * 8_000
    ends = ends_in(io.BytesIO(zstd.compress(raw)), "x.zst", head_bytes=1_000, tail_bytes=700)
    assert ends == (raw[:1_000], raw[-700:], False)
    whole = ends_in(io.BytesIO(zstd.compress(b"ab")), "x.zst", head_bytes=1, tail_bytes=700)
    assert whole == (b"a", b"b", True)


def test_a_file_that_was_added_to_is_read_to_its_last_frame():
    raw = b"".join(zstd.compress(b"%d\n" % number * 30_000) for number in range(4))
    stream = lines_in(io.BytesIO(raw), "x.zst")
    assert [*dict.fromkeys(stream)] == [b"0\n", b"1\n", b"2\n", b"3\n"]
    with pytest.raises(CompressedError):
        ends_in(io.BytesIO(raw + b"no frame"), "x.zst", head_bytes=9, tail_bytes=9)


@pytest.mark.parametrize("raw", [b"", b"no zstandard", zstd.compress(b"x" * 9_000)[:-4]])
def test_what_is_none_or_is_cut_off_is_refused(raw):
    with pytest.raises(CompressedError):
        ends_in(io.BytesIO(raw), "x.zst", head_bytes=9, tail_bytes=9)


def test_a_file_that_expands_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(lines, "BYTES_MAX", 1_000_000)
    bomb = zstd.compress(b"\0" * 10_000_000)
    with pytest.raises(CompressedError, match="more than"):
        ends_in(io.BytesIO(bomb), "x.zst", head_bytes=9, tail_bytes=9)


def test_a_window_larger_than_ours_is_refused_before_it_is_taken():
    options = {zstd.CompressionParameter.window_log: 27}
    expander = zstd.ZstdCompressor(options=options)
    raw = expander.compress(bytes(range(256)) * 4_000) + expander.flush()
    with pytest.raises(CompressedError, match="Zstandard"):
        ends_in(io.BytesIO(raw), "x.zst", head_bytes=9, tail_bytes=9)
