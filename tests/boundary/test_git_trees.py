"""A tree's digest in every form a repository can have, and no filter run: upthread.boundary.git.

A call of git is bounded, linked trees are made and removed, and a repository is begun.
"""

import hashlib
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.support.world import eventually, git, make_repository

from upthread.boundary.git import process
from upthread.boundary.git.places import GitDirectories, find_place, list_trees
from upthread.boundary.git.private import objects_of, tree_of
from upthread.boundary.git.process import UNCONFIGURED, find_git, run_git, start_repository
from upthread.boundary.git.worktree_changes import add_tree, remove_tree
from upthread.boundary.programs import started_at_ticks
from upthread.errors import RefusedError, UsageError
from upthread.runtime.working_tree.digest import left_out, tree_digest
from upthread.runtime.working_tree.repository import Worktrees, find_repository, git_facts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "project")
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "inner" / "deep").mkdir(parents=True)
    (root / "inner" / "deep" / "b.txt").write_text("b\n")
    (root / "c").mkdir()
    (root / "c" / "c.txt").write_text("c\n")
    commit(root)
    return root


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all of it")


def place_of(root: Path) -> GitDirectories:
    place = find_place(str(root))
    assert place is not None
    return place


def same_before_and_after_a_commit(root: Path) -> str:
    before = tree_digest(root)
    git(root, "add", "-A")
    staged = tree_digest(root)
    git(root, "commit", "-qm", "all of it")
    assert before
    assert {before, staged, tree_digest(root)} == {before}
    return before


@pytest.mark.soak
@pytest.mark.parametrize("setting", ["true", "input", "false"])
@pytest.mark.parametrize("attributes", ["", "*.txt text\n", "* -text\n", "*.txt eol=crlf\n"])
def test_line_ends_are_counted_as_a_commit_would_hold_them(root, setting, attributes):
    git(root, "config", "core.autocrlf", setting)
    (root / ".gitattributes").write_text(attributes)
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    (root / "new.txt").write_bytes(b"new\r\n")
    same_before_and_after_a_commit(root)


def test_a_setting_of_the_persons_own_counts_too(root, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "ignored").write_text("*.log\n")
    (tmp_path / ".gitconfig").write_text("[core]\nautocrlf = input\nexcludesFile = ~/ignored\n")
    clean = tree_digest(root)
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    assert tree_digest(root) == clean
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    (root / "b.log").write_text("noise")
    same_before_and_after_a_commit(root)
    assert git(root, "ls-files", "b.log") == ""


def test_names_by_sha256_are_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q", "-b", "main", "--object-format=sha256")
    (root / "a.txt").write_text("a\n")
    commit(root)
    assert find_repository(root).identity.root_commit == git(root, "rev-parse", "HEAD")
    (root / "a.txt").write_text("b\n")
    same_before_and_after_a_commit(root)


@pytest.mark.parametrize(
    "arguments",
    [
        ("update-index", "--split-index"),
        ("update-index", "--index-version", "4"),
        ("update-index", "--untracked-cache"),
        ("sparse-checkout", "set", "--no-cone", "/a.txt"),
        ("sparse-checkout", "set", "--cone", "c"),
        ("sparse-checkout", "set", "--cone", "--sparse-index", "c"),
        ("config", "core.checkStat", "minimal"),
    ],
    ids=" ".join,
)
def test_whatever_form_the_index_has_the_content_is_the_same(root, arguments):
    before = tree_digest(root)
    git(root, *arguments)
    assert tree_digest(root) == before
    (root / "a.txt").write_text("changed\n")
    assert tree_digest(root) != before
    git(root, "add", "a.txt")
    (root / "new.txt").write_text("new\n")
    changed = tree_digest(root)
    git(root, "add", "--sparse", "new.txt")
    git(root, "commit", "-qm", "more")
    assert tree_digest(root) == changed


@pytest.mark.extended
def test_a_partial_clone_is_read_as_far_as_it_is_here(root: Path, tmp_path: Path) -> None:
    git(root, "config", "uploadpack.allowFilter", "true")
    where = tmp_path / "partial"
    git(tmp_path, "clone", "-q", "--filter=blob:none", root.as_uri(), str(where))
    assert find_repository(where).identity.root_commit
    assert tree_digest(where) == tree_digest(root)
    git(root, "commit", "-q", "--allow-empty", "-m", "later")
    missing = git(root, "rev-parse", "HEAD")
    (where / ".git" / "refs" / "heads" / "main").write_text(f"{missing}\n")
    assert find_repository(where).identity.root_commit is None
    assert tree_digest(where) == ""
    assert git_facts(where).commit == missing
    found = subprocess.run(
        ["git", "cat-file", "-e", missing],
        cwd=where,
        env={**os.environ, "GIT_ALLOW_PROTOCOL": "none"},
        capture_output=True,
        check=False,
    )
    assert found.returncode != 0, "it was fetched"


LFS = ("-c", "filter.lfs.clean=cat", "-c", "filter.lfs.required=false")


def pointer(content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"


@pytest.mark.parametrize("content", [b"", b"content\0" * 5000, pointer(b"x").encode()])
def test_a_large_file_counts_as_git_lfs_stores_it(root: Path, content: bytes) -> None:
    (root / ".gitattributes").write_text("*.bin filter=lfs -text\n")
    commit(root)
    (root / "a.bin").write_bytes(content)
    before = tree_digest(root)
    # What `git lfs` would commit, with the content in the tree as it puts it back.
    (root / "a.bin").write_bytes(content if len(content) < 1000 else pointer(content).encode())
    commit(root)
    os.utime(root / "a.bin", (1, 1))
    (root / "a.bin").write_bytes(content)
    assert tree_digest(root) == before


def test_a_file_of_another_filter_counts_by_its_bytes_once_changed(root: Path) -> None:
    (root / ".gitattributes").write_text("*.x filter=mine\n")
    (root / "a.x").write_text("a\n")
    commit(root)
    clean = tree_digest(root)
    (root / "a.x").write_text("b\n")
    assert tree_digest(root) not in {"", clean}


@pytest.mark.extended
def test_a_tree_of_its_own_has_what_a_checkout_has_and_git_knows_it(root, tmp_path):
    (root / "link").symlink_to("a.txt")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / ".gitattributes").write_text("*.txt eol=crlf\n*.bin filter=lfs\n*.x filter=mine\n")
    (root / "a.bin").write_text("a")
    (root / "a.x").write_text("a")
    commit(root)
    git(root, "worktree", "add", "-q", str(tmp_path / "theirs"), "-b", "theirs")
    made = Worktrees(root, tmp_path / "trees").ensure("spec-42")
    assert (made.unfiltered, made.filters) == (2, ("lfs", "mine"))
    ours = Path(made.path)
    assert git(ours, "status", "--porcelain") == ""
    assert git(ours, "rev-parse", "--abbrev-ref", "HEAD") == "upthread/spec-42"
    assert git(root, "worktree", "list", "--porcelain").count("worktree ") == 3
    assert git(root, "fsck", "--no-dangling") == ""
    assert tree_digest(ours) == tree_digest(tmp_path / "theirs")
    for name in ("a.txt", "link", "run.sh", "inner/deep/b.txt"):
        theirs = tmp_path / "theirs" / name
        assert (ours / name).lstat().st_mode == theirs.lstat().st_mode
        assert (ours / name).read_bytes() == theirs.read_bytes()
    assert (ours / "link").readlink() == Path("a.txt")
    git(root, "worktree", "prune")
    git(root, "gc", "-q")
    assert Worktrees(root, tmp_path / "trees").find("spec-42") is not None


def test_a_tree_is_not_made_on_a_branch_that_is_checked_out_or_over_files(root, tmp_path):
    place = place_of(root)
    with pytest.raises(UsageError, match=r"main is checked out in .*project"):
        add_tree(place, str(tmp_path / "tree"), "main")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        add_tree(place, str(tmp_path / "full"), "topic")
    git(root, "branch", "upthread")
    with pytest.raises(UsageError, match="takes no branch"):
        add_tree(place, str(tmp_path / "tree"), "upthread/x")
    assert [tree.path for tree in list_trees(place)] == [str(root)]
    assert (tmp_path / "full" / "file").read_text() == "mine"


def test_a_tree_that_cannot_be_filled_leaves_nothing(root: Path, tmp_path: Path) -> None:
    blob = git(root, "rev-parse", "HEAD:a.txt")
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(UsageError, match="read-tree failed"):
        Worktrees(root, tmp_path / "trees").ensure("spec-42")
    assert list((tmp_path / "trees").iterdir()) == []
    assert Worktrees(root, tmp_path / "trees").find("spec-42") is None


def test_a_record_that_names_a_folder_of_somebody_elses_is_not_worked_in_nor_removed(
    root: Path, tmp_path: Path
) -> None:
    """An agent that writes in `.git` could have us work in, or remove, any folder."""
    worktrees = Worktrees(root, tmp_path / "trees")
    path = Path(worktrees.ensure("spec-42").path)
    precious = make_repository(tmp_path / "precious")
    (record,) = (root / ".git" / "worktrees").iterdir()
    (record / "gitdir").write_text(f"{precious}/.git\n")
    for lock in ("", "initializing"):
        if lock:
            (record / "locked").write_text(lock)
        found = worktrees.find("spec-42")
        assert found.is_missing
        with pytest.raises(UsageError, match="is gone"):
            worktrees.require("spec-42")
    with pytest.raises(UsageError, match="already exists"):
        worktrees.ensure("spec-42")
    assert (precious / "README").exists()
    assert (path / "a.txt").exists()


def test_a_locked_tree_and_one_with_changes_are_not_removed(root: Path, tmp_path: Path) -> None:
    worktrees = Worktrees(root, tmp_path / "trees")
    path = Path(worktrees.ensure("spec-42").path)
    git(root, "worktree", "lock", str(path), "--reason", "mine")
    with pytest.raises(UsageError, match="locked: mine"):
        worktrees.remove("spec-42")
    git(root, "worktree", "unlock", str(path))
    (path / "a.txt").write_text("two\none\n")
    with pytest.raises(RefusedError, match="1 uncommitted change "):
        worktrees.remove("spec-42")
    git(path, "checkout", "-q", "a.txt")
    worktrees.remove("spec-42")
    assert not path.exists()
    assert not (root / ".git" / "worktrees").exists()
    assert git(root, "branch", "--list", "upthread/spec-42")


def test_removing_leaves_other_trees(root: Path, tmp_path: Path) -> None:
    place = place_of(root)
    for name in ("one", "two"):
        add_tree(place, str(tmp_path / name), name)
    first = next(tree for tree in list_trees(place) if tree.branch == "one")
    remove_tree(first)
    assert [tree.branch for tree in list_trees(place)] == ["main", "two"]


def test_git_is_given_a_directory_of_ours_that_is_gone_afterwards(root: Path) -> None:
    place = place_of(root)
    with tree_of(place, read := git(root, "rev-parse", "HEAD")) as told:
        assert told.ask("rev-parse", "HEAD") == f"{read}\n".encode()
        assert Path(told.directory).stat().st_mode & 0o077 == 0
        assert told.ask("config", "--get", "remote.origin.url") is None
        assert told.environment["GIT_INDEX_FILE"].startswith(told.directory)
    assert not Path(told.directory).exists()
    with objects_of(place) as told, pytest.raises(UsageError, match="failed"):
        told.do("cat-file", "-e", "1" * 40)


def asked(root: Path, *arguments: str, within_s: float = 10.0) -> process.Done | None:
    return run_git(
        arguments,
        directory=str(root),
        outside=(str(root),),
        environment=UNCONFIGURED,
        until_s=time.monotonic() + within_s,
    )


def test_an_answer_is_bounded_in_time_and_in_length(root, tmp_path, monkeypatch):
    done = asked(root, "rev-parse", "--is-inside-work-tree")
    assert (done.code, done.said) == (0, b"true\n")
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    assert find_git(()) == str(program)
    with pytest.raises(UsageError, match=r"git status did not answer within 0\.2 s"):
        asked(root, "status", within_s=0.2)
    program.write_text("#!/bin/sh\nexec cat /dev/zero\n")
    monkeypatch.setattr(process, "OUTPUT_BYTES_MAX", 10_000_000)
    with pytest.raises(UsageError, match="said more than 10000000 bytes"):
        asked(root, "status")
    program.write_text(f"#!/bin/sh\ncat /dev/zero >&2 &\necho $! > {tmp_path}/pid\nwait\n")
    with pytest.raises(UsageError, match="said more than 10000000 bytes"):
        asked(root, "status")
    eventually(lambda: started_at_ticks(int((tmp_path / "pid").read_text())) is None)


def test_a_repository_of_our_own_has_nobodys_hooks(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[commit]\ngpgsign = true\n[gpg]\nprogram = /bin/false\n")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a.txt").write_text("a")
    start_repository(tmp_path / "made")
    assert git(tmp_path / "made", "log", "--format=%an %s") == "demo Start"
    assert git_facts(tmp_path / "made").branch == "main"


@pytest.mark.parametrize("bit", ["skip-worktree", "assume-unchanged"])
def test_a_file_that_git_overlooks_is_told_from_what_was_deleted(root, bit):
    git(root, "update-index", f"--{bit}", "c/c.txt")
    (root / "c" / "c.txt").unlink()
    (root / "a.txt").unlink()
    assert left_out(str(root), ("c/c.txt", "a.txt")) == {"c/c.txt"}


@pytest.mark.parametrize("kind", [(), ("--sparse-index",)])
def test_what_a_sparse_checkout_leaves_out_is_told_from_what_was_deleted(root, kind):
    (root / "c" / "c.txt").unlink()
    paths = ("inner/deep/b.txt", "c/c.txt", str(root / "inner/deep/b.txt"), "../b.txt")
    assert left_out(str(root), paths) == frozenset()
    git(root, "sparse-checkout", "set", "--cone", *kind, "c")
    assert not (root / "inner").exists()
    assert left_out(str(root), paths) == {paths[0], paths[2]}
    assert left_out(str(root / "c"), ("../inner/deep/b.txt", "c.txt")) == {"../inner/deep/b.txt"}
