"""What git says is checked out, in every state a repository can be in; never an exception."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.world import git, make_repository

from upthread.errors import ConfigError, UsageError
from upthread.runtime.working_tree.repository import (
    GitFacts,
    Repository,
    find_repository,
    git_facts,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD")


def test_branch_and_commit_are_told(root: Path) -> None:
    facts = git_facts(root)
    assert facts == GitFacts(repository=str(root), branch="main", commit=head(root))
    git(root, "checkout", "-qb", "feature/x")
    assert git_facts(root).branch == "feature/x"


def test_below_the_root_it_is_the_same_repository(root: Path) -> None:
    (root / "deep" / "er").mkdir(parents=True)
    assert git_facts(root / "deep" / "er") == git_facts(root)


def test_a_detached_head_has_a_commit_and_no_branch(root: Path) -> None:
    git(root, "checkout", "-q", "--detach")
    assert git_facts(root) == GitFacts(repository=str(root), commit=head(root))


def test_before_the_first_commit_there_is_a_branch_alone(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q", "-b", "trunk")
    assert git_facts(tmp_path / "new") == GitFacts(repository=str(tmp_path / "new"), branch="trunk")


def test_outside_of_a_repository_nothing_is_known_and_nothing_is_wrong(tmp_path: Path) -> None:
    assert git_facts(tmp_path) == GitFacts()


def test_a_worktree_is_of_the_repository_it_was_made_from(root: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git(root, "worktree", "add", "-q", str(tree), "-b", "topic")
    assert git_facts(tree) == GitFacts(repository=str(root), branch="topic", commit=head(root))


def test_a_corrupt_index_does_not_matter(root: Path) -> None:
    (root / ".git" / "index").write_bytes(b"garbage")
    assert git_facts(root) == GitFacts(repository=str(root), branch="main", commit=head(root))


@pytest.mark.parametrize("name", ["HEAD", "refs/heads/main"])
def test_a_damaged_head_is_a_fault_and_not_another_branch(root: Path, name: str) -> None:
    (root / ".git" / name).write_text("garbage")
    facts = git_facts(root)
    assert (facts.branch, facts.commit) == (None, None)
    assert str(root) in facts.fault
    with pytest.raises(ConfigError) as caught:
        find_repository(root)
    assert (caught.value.exit_code, bool(caught.value.hint)) == (1, True)


def test_without_git_on_the_path_what_is_checked_out_is_told_all_the_same(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = git_facts(root)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_facts(root) == before


def test_a_directory_that_is_gone_is_no_error(tmp_path: Path) -> None:
    assert git_facts(tmp_path / "gone") == GitFacts()


def test_a_git_that_does_not_answer_is_an_error_and_not_another_project(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("upthread.boundary.git.process.TIMEOUT_S", 0.2)
    with pytest.raises(UsageError, match="did not answer"):
        find_repository(root)
    assert git_facts(root).branch == "main"


def test_a_working_directory_that_was_removed_is_told(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match="is not there any more"):
        find_repository(Path())


# --- what is remembered of it --------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def git_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log with a line for each call of git that is ours."""
    log, real = tmp_path / "calls", shutil.which("git")
    folder = tmp_path / "bin"
    folder.mkdir()
    wrapper = folder / "git"
    wrapper.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    log.touch()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return log


def commit(root: Path, message: str, *, at: str = "2030-01-01T00:00:00Z") -> None:
    dates = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.invalid")
    command = ["git", *identity, "commit", "-q", "--allow-empty", "-m", message]
    subprocess.run(command, cwd=root, check=True, env={**os.environ, **dates})


def asked(root: Path, home: Path, log: Path) -> tuple[Repository, str]:
    """What is found, and what git was asked for it."""
    log.write_text("")
    found = find_repository(root, home=home)
    return found, log.read_text()


def test_a_repository_that_has_not_moved_is_known_without_git(root, home, git_calls):
    first = find_repository(root, home=home)
    again, told = asked(root, home, git_calls)
    assert again == first
    assert first.identity.root_commit == head(root)
    assert told == ""


def test_a_repository_that_is_remembered_is_the_same_project_where_no_git_is_installed(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = find_repository(root, home=home)
    monkeypatch.setenv("PATH", str(root.parent / "no programs"))
    assert find_repository(root, home=home) == first
    assert find_repository(root).identity.root_commit is None


def test_what_is_remembered_is_nobody_elses_to_read(root: Path, home: Path) -> None:
    find_repository(root, home=home)
    (found,) = (home / "repositories").iterdir()
    assert found.stat().st_mode & 0o777 == 0o600
    assert found.parent.stat().st_mode & 0o777 == 0o700


def test_an_older_history_that_is_merged_in_is_seen_as_without_a_memory(root, home):
    find_repository(root, home=home)
    git(root, "checkout", "-q", "--orphan", "older")
    commit(root, "before all", at="2001-01-01T00:00:00Z")
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--allow-unrelated-histories", "-m", "merge", "older")
    assert find_repository(root, home=home) == find_repository(root)
    # And back, where it is not reached any more.
    git(root, "reset", "-q", "--hard", "HEAD~1")
    assert find_repository(root, home=home) == find_repository(root)


def test_a_branch_that_shares_nothing_is_another_history(root: Path, home: Path) -> None:
    find_repository(root, home=home)
    git(root, "checkout", "-q", "--orphan", "other")
    commit(root, "afresh")
    assert find_repository(root, home=home) == find_repository(root)
    assert find_repository(root, home=home).identity.root_commit == head(root)


def test_another_repository_in_its_place_is_looked_through(root, home, git_calls, tmp_path):
    find_repository(root, home=home)
    root.rename(tmp_path / "moved")
    make_repository(root, content="another")
    again, told = asked(root, home, git_calls)
    assert again.identity.root_commit == head(root)
    assert "--max-parents=0" in told


def test_a_shallow_clone_that_is_made_whole_is_looked_through(root, home, tmp_path):
    commit(root, "more")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{root}", str(shallow))
    before = find_repository(shallow, home=home)
    git(shallow, "fetch", "-q", "--unshallow")
    after = find_repository(shallow, home=home)
    assert before.identity.root_commit != after.identity.root_commit
    assert after == find_repository(shallow)


@pytest.mark.extended
@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_what_others_could_have_written_is_not_believed(root, home, git_calls, mode):
    first = find_repository(root, home=home)
    (found,) = (home / "repositories").iterdir()
    found.write_text(found.read_text().replace(head(root), "0" * 40))
    found.chmod(mode)
    again, told = asked(root, home, git_calls)
    assert again == first
    assert "--max-parents=0" in told


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 1}', '{"schema": 1, "roots": [3]}'])
def test_a_memory_that_says_nothing_is_made_anew(root: Path, home: Path, content: str) -> None:
    first = find_repository(root, home=home)
    (found,) = (home / "repositories").iterdir()
    found.write_text(content)
    assert find_repository(root, home=home) == first


def test_nothing_is_kept_in_a_home_that_others_can_enter(root: Path, home: Path) -> None:
    home.chmod(0o755)
    find_repository(root, home=home)
    assert not (home / "repositories").exists()
