"""A repository stays the project it was whatever is done to its history; another one is another."""

from pathlib import Path

import pytest
from tests.support.world import git

ADDRESS = "w/planner"
LONG_AGO = "2001-01-01T00:00:00+00:00"


@pytest.fixture
def up(make_upthread, tmp_path):
    up = make_upthread(tmp_path / "world")
    up("tell", ADDRESS, "[[rehearse: say hi]]", "--agent", "rehearsal")
    return up


def older_history(directory: Path) -> Path:
    """A repository that began before any other here."""
    directory.mkdir()
    git(directory, "init", "-q", "-b", "main")
    (directory / "old").write_text("old")
    git(directory, "add", "-A")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GIT_COMMITTER_DATE", LONG_AGO)
        git(directory, "commit", "-qm", "long ago", "--date", LONG_AGO)
    return directory


def test_what_was_merged_in_stays_a_project_of_its_own(up):
    session = up("id", ADDRESS).out
    other = type(up)(older_history(up.directory.with_name("beside")), up.home)
    other("tell", ADDRESS, "[[rehearse: say hi]]", "--agent", "rehearsal")
    theirs = other("id", ADDRESS).out
    git(up.directory, "fetch", "-q", str(other.directory), "main")
    git(up.directory, "merge", "-q", "--allow-unrelated-histories", "--no-edit", "FETCH_HEAD")
    assert up("id", ADDRESS).out == session
    assert other("id", ADDRESS).out == theirs
