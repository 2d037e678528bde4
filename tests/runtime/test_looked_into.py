"""What a call may run is read as text, bounded, and nothing of it is run."""

from __future__ import annotations

import os

from upthread.runtime.permissions.gate import FILE_BYTES_MAX, reader_in


def test_an_ordinary_file_is_read_wherever_its_links_lead(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_text("text \u00e9")
    (tmp_path / "sub" / "link").symlink_to(tmp_path / "a")
    read = reader_in(str(tmp_path / "sub"))
    assert read("../a") == read("link") == read(str(tmp_path / "a")) == "text \u00e9"


def test_what_is_no_ordinary_file_is_not_there(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    read = reader_in(str(tmp_path))
    assert [read(path) for path in ("none", "fifo", "loop", ".", "a\0b", "/dev/zero")] == [None] * 6


def test_a_file_of_no_text_tells_nothing_and_a_long_one_its_beginning(tmp_path):
    (tmp_path / "binary").write_bytes(b"\x7fELF\0push")
    (tmp_path / "long").write_text("a" * (FILE_BYTES_MAX + 1))
    read = reader_in(str(tmp_path))
    assert read("binary") == ""
    assert len(read("long") or "") == FILE_BYTES_MAX
    (tmp_path / "binary").write_text("changed")
    assert read("binary") == "", "each file is read once"
    assert reader_in(str(tmp_path))("binary") == "changed"
