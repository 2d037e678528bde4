"""Who else may write what runs: each way it can be open to somebody is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upthread.boundary.ownership import written_by_others


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "inner").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    (home / "inner" / "file").write_text("x")
    (home / "inner" / "file").chmod(0o600)
    return home


def test_a_persons_own_file_is_written_by_nobody_else(home):
    assert written_by_others(home / "inner" / "file", within=home) == ""
    assert written_by_others(home / "inner" / "not yet", within=home) == ""


@pytest.mark.parametrize("mode", [0o020, 0o002])
@pytest.mark.parametrize("place", ["inner/file", "inner", "."])
def test_each_place_others_may_write_is_named(home, place, mode):
    (home / place).chmod((home / place).stat().st_mode | mode)
    told = written_by_others(home / "inner" / "file", within=home)
    assert told == f"{home / place} can be written by others"


def test_above_the_home_only_what_anybody_may_replace_is_named(home):
    above = home.parent
    above.chmod(0o770)
    assert written_by_others(home / "inner" / "file", within=home) == ""
    above.chmod(0o777)
    assert written_by_others(home / "inner" / "file", within=home)
    above.chmod(0o1777)
    assert written_by_others(home / "inner" / "file", within=home) == "", "as /tmp is"
    above.chmod(0o700)


def test_a_link_in_the_files_place_is_named(home):
    (home / "inner" / "link").symlink_to(home / "inner" / "file")
    assert "symlink" in written_by_others(home / "inner" / "link", within=home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_somebody_else_is_named(home):
    os.chown(home / "inner" / "file", 65534, 65534)
    assert "belongs to user 65534" in written_by_others(home / "inner" / "file", within=home)
