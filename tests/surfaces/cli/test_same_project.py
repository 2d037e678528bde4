"""A repository stays the project it was whatever is done to its history; another one is another."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.sets import spread
from tests.support.world import git, make_repository

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


def merged_with_an_older_one(root: Path, beside: Path) -> None:
    git(root, "fetch", "-q", str(older_history(beside)), "main")
    git(root, "merge", "-q", "--allow-unrelated-histories", "--no-edit", "FETCH_HEAD")


def begun_on_an_orphan(root: Path, beside: Path) -> None:
    git(root, "checkout", "-q", "--orphan", "pages")
    git(root, "commit", "-qm", "another beginning", "--allow-empty")


@pytest.mark.soak
@pytest.mark.parametrize("change", [merged_with_an_older_one, begun_on_an_orphan])
@pytest.mark.parametrize("looks_between", spread([False, True]))
def test_a_repository_whose_history_begins_elsewhere_now_goes_on(up, change, looks_between):
    session = up("id", ADDRESS).out
    change(up.directory, up.directory.with_name("beside"))
    if looks_between:
        up("ls")
    assert up("id", ADDRESS).out == session
    told = up("tell", ADDRESS, "[[rehearse: say ho]]", "--agent", "rehearsal").err
    assert "RESUMED" in told


@pytest.mark.extended
def test_a_shallow_clone_goes_on_when_more_of_it_is_fetched(up):
    origin = make_repository(up.directory.with_name("origin"))
    for number in range(3):
        git(origin, "commit", "-qm", f"commit {number}", "--allow-empty")
    clone = up.directory.with_name("clone")
    git(origin.parent, "clone", "-q", "--depth", "1", origin.as_uri(), str(clone))
    cloned = type(up)(clone, up.home)
    cloned("tell", ADDRESS, "[[rehearse: say hi]]", "--agent", "rehearsal")
    session = cloned("id", ADDRESS).out
    git(clone, "fetch", "-q", "--deepen", "1")
    assert cloned("id", ADDRESS).out == session
    git(clone, "fetch", "-q", "--unshallow")
    assert cloned("id", ADDRESS).out == session


def test_what_was_merged_in_stays_a_project_of_its_own(up):
    session = up("id", ADDRESS).out
    other = type(up)(older_history(up.directory.with_name("beside")), up.home)
    other("tell", ADDRESS, "[[rehearse: say hi]]", "--agent", "rehearsal")
    theirs = other("id", ADDRESS).out
    git(up.directory, "fetch", "-q", str(other.directory), "main")
    git(up.directory, "merge", "-q", "--allow-unrelated-histories", "--no-edit", "FETCH_HEAD")
    assert up("id", ADDRESS).out == session
    assert other("id", ADDRESS).out == theirs


def replaced(root: Path) -> None:
    shutil.rmtree(root)
    make_repository(root, content="another")


def emptied_and_begun_again(root: Path) -> None:
    shutil.rmtree(root / ".git")
    make_repository(root, content="begun again")


@pytest.mark.extended
@pytest.mark.parametrize("change", [replaced, emptied_and_begun_again])
def test_another_repository_in_its_place_is_another_project(up, change: Callable[[Path], None]):
    change(up.directory)
    assert up("id", ADDRESS, code=None).code != 0
