"""A hook looks at files with code of its own, for what it may load; it must see what others see."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import pytest

from upthread.runtime.bindings import examined_files
from upthread.runtime.turns.examination import PIECE_BYTES, examine

LONG_AGO_NS = 1_000_000_000_000_000_000

CONTENTS = {
    "empty": b"",
    "text": b"one\ntwo\n",
    "line ends of Windows": b"one\r\ntwo\r\n",
    "a CR alone": b"one\rtwo\r",
    "a CR at the end of a piece": b"x" * (PIECE_BYTES - 1) + b"\r\nmore\r",
    "CRs on both sides of a piece": b"x" * (PIECE_BYTES - 1) + b"\r\r\n",
    "binary": b"\0one\r\ntwo",
    "a NUL where nobody looks any more": b"x" * examined_files.BINARY_LOOK_BYTES + b"\0\r\n",
    "a NUL at the last place": b"x" * (examined_files.BINARY_LOOK_BYTES - 1) + b"\0\r\n",
    "no UTF-8": b"\xff\xfe\r\n",
}


def seen_by_both(root: Path, path: str) -> None:
    by_hook = examined_files.examined(str(root), path, "read")
    by_turn = asdict(examine(str(root), path, how="read"))
    assert {**dict.fromkeys(by_turn), **by_hook} == by_turn


@pytest.mark.extended
@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("is_young", [False, True])
def test_a_file_is_seen_alike_by_a_hook_and_by_a_turn(tmp_path, name, is_young):
    file = tmp_path / "file"
    file.write_bytes(CONTENTS[name])
    if not is_young:
        os.utime(file, ns=(LONG_AGO_NS, LONG_AGO_NS))
    seen_by_both(tmp_path, "file")
    seen_by_both(tmp_path, str(file))


def test_what_is_no_file_is_seen_alike(tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "nowhere").symlink_to("gone")
    os.mkfifo(tmp_path / "pipe")
    for path in ("directory", "nowhere", "pipe", "missing", "directory/missing", "file/below"):
        seen_by_both(tmp_path, path)
    seen_by_both(tmp_path, "a\0b")
    seen_by_both(tmp_path, "\ud800")


def test_a_file_that_was_seen_by_one_has_not_moved_for_the_other(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"one")
    os.utime(file, ns=(LONG_AGO_NS, LONG_AGO_NS))
    assert not examined_files.has_moved(
        str(tmp_path), asdict(examine(str(tmp_path), "file", how="read"))
    )
