"""Private files of ours are for nobody else to read."""

from __future__ import annotations

import os

import pytest

from upthread.boundary import own_files


@pytest.mark.parametrize("has_leftover", [False, True])
def test_a_private_file_is_made_for_its_owner_alone(tmp_path, has_leftover):
    """A killed process with our pid may have left its unfinished file."""
    path = tmp_path / "own" / "file"
    if has_leftover:
        path.parent.mkdir(mode=0o700)
        path.with_name(f"file.{os.getpid()}").write_text("half")
    before = os.umask(0)
    try:
        own_files.replace(str(path), {"a": 1})
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o777 for each in (path.parent, path)] == [0o700, 0o600]
    assert own_files.read(str(path)) == {"schema": 1, "a": 1}
