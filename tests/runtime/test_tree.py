"""The digest of a working tree: the same for the same content, whatever git has been told of it."""

import os
from pathlib import Path

import pytest
from tests.support.world import git

from upthread.runtime.working_tree.digest import tree_digest


def repository(where: Path) -> Path:
    where.mkdir()
    git(where, "init", "-qb", "main")
    return where


def commit(where: Path) -> None:
    git(where, "add", "-A")
    git(where, "commit", "-qm", "all of it")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = repository(tmp_path / "root")
    for name in ("a.txt", "b.txt", "c.txt"):
        (root / name).write_text(f"{name}\n")
    (root / ".gitignore").write_text("*.log\n")
    commit(root)
    return root


def changes(root: Path) -> None:
    """Change all that a commit can hold."""
    (root / "a.txt").write_text("another\n")
    (root / "b.txt").unlink()
    (root / "c.txt").chmod(0o755)
    (root / "new").mkdir()
    (root / "new" / os.fsdecode(b'odd\n"\\\xffname')).write_text("new\n")
    (root / "link").symlink_to("a.txt")
    (root / "broken").symlink_to("nowhere")


@pytest.mark.extended
def test_work_has_one_digest_before_and_after_it_is_staged_and_committed(root: Path) -> None:
    clean = tree_digest(root)
    changes(root)
    found = [tree_digest(root)]
    git(root, "add", "-A")
    found.append(tree_digest(root))
    git(root, "commit", "-qm", "all of it")
    found.append(tree_digest(root))
    git(root, "commit", "-q", "--allow-empty", "-m", "nothing")
    found.append(tree_digest(root / "new"))
    assert set(found) == {found[0]}
    assert found[0] != clean
    git(root, "checkout", "-q", "HEAD~2")
    assert tree_digest(root) == clean


def test_what_is_ignored_does_not_count(root: Path) -> None:
    clean = tree_digest(root)
    (root / "run.log").write_text("noise")
    assert tree_digest(root) == clean


def test_looking_writes_nothing(root: Path) -> None:
    changes(root)
    before = {place: place.lstat().st_mtime_ns for place in root.rglob("*")}
    tree_digest(root)
    assert {place: place.lstat().st_mtime_ns for place in root.rglob("*")} == before


def test_before_the_first_commit_the_files_count(tmp_path: Path) -> None:
    empty = repository(tmp_path / "empty")
    nothing = tree_digest(empty)
    (empty / "a.txt").write_text("a")
    written = tree_digest(empty)
    commit(empty)
    assert nothing != written == tree_digest(empty)


def test_a_submodule_and_a_repository_within_count_by_their_content(root, tmp_path):
    inner = repository(tmp_path / "inner")
    (inner / "x.txt").write_text("x")
    commit(inner)
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    added = tree_digest(root)
    commit(root)
    assert tree_digest(root) == added
    (root / "sub" / "x.txt").write_text("y")
    changed = tree_digest(root)
    assert changed != added
    (root / "sub" / "x.txt").write_text("z")
    assert tree_digest(root) not in {changed, added}
    (root / "sub" / "x.txt").write_text("x")
    assert tree_digest(root) == added


def test_where_git_cannot_tell_nothing_is_known(root: Path, tmp_path: Path) -> None:
    assert tree_digest(tmp_path) == ""
    assert tree_digest(tmp_path / "gone") == ""
    (root / ".git" / "index").write_bytes(b"DIRC but not an index")
    assert tree_digest(root) == ""


def test_patterns_that_are_a_link_are_what_git_makes_of_them(root: Path) -> None:
    (root / ".gitignore").rename(root / "patterns")
    (root / ".gitignore").symlink_to("patterns")
    assert tree_digest(root) != ""


@pytest.mark.timeout(20)
def test_more_than_is_read_is_not_known_and_answered_at_once(root: Path) -> None:
    with (root / "huge").open("wb") as huge:
        huge.truncate(4 << 30)  # costs its maker nothing, and a reader minutes
    assert tree_digest(root) == ""
    (root / "huge").unlink()
    assert tree_digest(root) != ""
