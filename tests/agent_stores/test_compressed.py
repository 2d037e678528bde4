"""Compressed files: read in pieces, and refused where they expand without end."""

from __future__ import annotations

import io

import pytest
from backports import zstd

from upthread.agent_stores import lines
from upthread.agent_stores.lines import CompressedError, ExpandedStream, expanded_ends


def test_both_ends_of_what_it_holds_are_told():
    raw = bytes(range(256)) * 8_000
    ends = expanded_ends(io.BytesIO(zstd.compress(raw)), head_bytes=1_000, tail_bytes=700)
    assert ends == (raw[:1_000], raw[-700:], False)
    whole = expanded_ends(io.BytesIO(zstd.compress(b"ab")), head_bytes=1, tail_bytes=700)
    assert whole == (b"a", b"b", True)


def test_a_file_that_was_added_to_is_read_to_its_last_frame():
    raw = b"".join(zstd.compress(b"%d\n" % number * 30_000) for number in range(4))
    stream = io.BufferedReader(ExpandedStream(io.BytesIO(raw)))
    assert [*dict.fromkeys(stream)] == [b"0\n", b"1\n", b"2\n", b"3\n"]
    with pytest.raises(CompressedError):
        expanded_ends(io.BytesIO(raw + b"no frame"), head_bytes=9, tail_bytes=9)


@pytest.mark.parametrize("raw", [b"", b"no zstandard", zstd.compress(b"x" * 9_000)[:-4]])
def test_what_is_none_or_is_cut_off_is_refused(raw):
    with pytest.raises(CompressedError):
        expanded_ends(io.BytesIO(raw), head_bytes=9, tail_bytes=9)


def test_a_file_that_expands_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(lines, "BYTES_MAX", 1_000_000)
    bomb = zstd.compress(b"\0" * 10_000_000)
    with pytest.raises(CompressedError, match="more than"):
        expanded_ends(io.BytesIO(bomb), head_bytes=9, tail_bytes=9)


def test_a_window_larger_than_ours_is_refused_before_it_is_taken():
    options = {zstd.CompressionParameter.window_log: 27}
    expander = zstd.ZstdCompressor(options=options)
    raw = expander.compress(bytes(range(256)) * 4_000) + expander.flush()
    with pytest.raises(CompressedError, match="Zstandard"):
        expanded_ends(io.BytesIO(raw), head_bytes=9, tail_bytes=9)
