"""Linked working trees: listed, made and removed as git does, with nothing of the repository run.

Beside them a whole repository of our own making, as `demo` needs it: nobody's configuration or
hooks.

`git worktree add` runs hooks and filters, and `remove` the filters and the watcher of the tree, as
configured by whoever wrote the configuration last. The few files that make a linked working tree
(gitrepository-layout(5), "worktrees") are written here; its content is checked out by git in a
private directory.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from upthread.boundary.git import process
from upthread.boundary.git.directory_files import GitFileError, read_line
from upthread.boundary.git.linkage import named_in
from upthread.boundary.git.places import GitDirectories, place_at
from upthread.boundary.git.private import filters_of, tree_of
from upthread.boundary.git.process import TIMEOUT_S, UNCONFIGURED, run_git
from upthread.boundary.git.references import find_reference, is_reference, read_head
from upthread.boundary.programs import is_in
from upthread.core.text import command
from upthread.errors import UsageError

HEADS: Final = "refs/heads/"

WORKTREES_MAX = 10_000
"""How many linked working trees of one repository are looked at."""

_BEING_MADE: Final = "initializing"
_NAMES_MAX = 1000


class LinkedTree(Struct, frozen=True, kw_only=True):
    """A working tree git knows. `record` is git's folder about it, empty for the main tree's.

    `branch` is empty while none is checked out. `is_missing` when its folder is gone, or does not
    say that it belongs here; `lock` is why it must not be removed, empty for none.
    """

    path: str
    branch: str
    record: str = ""
    is_missing: bool = False
    lock: str = ""

    @property
    def is_half_made(self) -> bool:
        """Whether whoever made it was killed over it."""
        return self.lock == _BEING_MADE


def list_trees(place: GitDirectories) -> list[LinkedTree]:
    """Return the working trees of a repository, the main one first. Raises GitFileError."""
    main = os.path.dirname(place.common_directory)
    found = [LinkedTree(path=main, branch=_branch(place.common_directory))]
    folder = os.path.join(place.common_directory, "worktrees")
    with suppress(FileNotFoundError, NotADirectoryError):
        names = sorted(os.listdir(folder))
        # Each is some reads: without a limit a clone could have one look at it take for ever.
        if len(names) > WORKTREES_MAX:
            raise GitFileError(f"{folder} holds more than {WORKTREES_MAX} working trees")
        read = (_linked(os.path.join(folder, name)) for name in names)
        found += [tree for tree in read if tree is not None]
    return found


def _linked(record: str) -> LinkedTree | None:
    if os.path.islink(record) or not os.path.isdir(record):
        return None
    dot_git = read_line(os.path.join(record, "gitdir"))
    if not dot_git:
        return None
    path = os.path.dirname(os.path.join(record, dot_git))
    lock = read_line(os.path.join(record, "locked"))
    return LinkedTree(
        path=path,
        branch=_branch(record),
        record=record,
        is_missing=not _belongs(path, record),
        # An empty file locks as well; git asks for no reason.
        lock="" if lock is None else lock or "locked",
    )


def _belongs(path: str, record: str) -> bool:
    # What a record says is not enough to work in, or to remove, any folder that it names.
    try:
        return named_in(os.path.join(path, ".git")) == os.path.realpath(record)
    except GitFileError:
        return False


def _branch(git_directory: str) -> str:
    try:
        line = read_line(os.path.join(git_directory, "HEAD")) or ""
    except GitFileError:
        return ""
    prefix = f"ref: {HEADS}"
    return line.removeprefix(prefix) if line.startswith(prefix) else ""


def add_tree(place: GitDirectories, path: str, branch: str) -> dict[bytes, bytes]:
    """Make a linked working tree on a branch, from HEAD where the branch is new. Blocking.

    Returns the files that have a filter, with its name: they are there as git stores them. Raises
    UsageError where it cannot be made; nothing is left then.
    """
    commit = find_reference(place, HEADS + branch)
    # Git would refuse it, too: a commit in one would leave the other behind its own branch.
    taken = [tree.path for tree in list_trees(place) if tree.branch == branch]
    if taken:
        raise UsageError(
            f"the branch {branch} is checked out in {taken[0]}",
            hint="work there, or check out another branch in it",
        )
    if os.path.lexists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise UsageError(f"{path} already exists", hint="look at what it is, and move it away")
    start = commit or read_head(place).commit
    if start is None:
        raise UsageError(f"there is no commit in {place.top}", hint="commit something first")
    # Before the record: what is left by a kill between the two is a branch without a tree.
    if commit is None:
        _make_branch(place, branch, start)
    record = _make_record(place, path, branch)
    try:
        return _fill(path, record, start)
    except BaseException:
        # The record first: a kill between the two leaves a folder, which git does not know.
        forget_tree(LinkedTree(path=path, branch=branch, record=record))
        shutil.rmtree(path, ignore_errors=True)
        raise


def _make_branch(place: GitDirectories, branch: str, commit: str) -> None:
    name = HEADS + branch
    parts = name.split("/")
    above = ["/".join(parts[:count]) for count in range(3, len(parts))]
    if not is_reference(name) or any(find_reference(place, other) for other in above):
        raise UsageError(f"git takes no branch named {branch} here", hint="see git branch --list")
    path = os.path.join(place.common_directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # A folder on the way may be a link that a clone brought, and we would write behind it.
    _require_within(place, os.path.dirname(path))
    # As git does it, so that no two processes make it at once: under its lock, then in one step.
    _write(f"{path}.lock", f"{commit}\n")
    os.replace(f"{path}.lock", path)


def _make_record(place: GitDirectories, path: str, branch: str) -> str:
    folder = os.path.join(place.common_directory, "worktrees")
    os.makedirs(folder, exist_ok=True)
    _require_within(place, folder)
    for number in range(_NAMES_MAX):
        record = os.path.join(folder, f"{os.path.basename(path)}{number or ''}")
        # Making it is what takes the name: two processes that look first would both find it free.
        with suppress(FileExistsError):
            os.mkdir(record)
            break
    else:
        raise UsageError(f"there is no name left in {folder}", hint="git worktree prune")
    # The first file: from now on `git worktree prune` leaves it, and a kill shows as half made.
    _write(os.path.join(record, "locked"), _BEING_MADE)
    _write(os.path.join(record, "gitdir"), f"{os.path.join(path, '.git')}\n")
    _write(os.path.join(record, "commondir"), "../..\n")
    _write(os.path.join(record, "HEAD"), f"ref: {HEADS}{branch}\n")
    return record


def _fill(path: str, record: str, commit: str) -> dict[bytes, bytes]:
    os.makedirs(path, exist_ok=True)
    _write(os.path.join(path, ".git"), f"gitdir: {record}\n")
    # Read back by the rules for any clone: what we made ourselves has to pass them.
    made = place_at(os.path.realpath(path))
    if made is None:
        raise GitFileError(f"{path} did not become a working tree")
    index = os.path.join(record, "index")
    with tree_of(made, commit, timeout_s=process.WORK_TIMEOUT_S, index=index) as git:
        git.do("read-tree", "-m", "-u", commit)
        filtered = filters_of(git, git.do("ls-files", "-z").split(b"\0")[:-1])
    # Last of all: until here it is told for half made, and removed with nothing asked.
    os.unlink(os.path.join(record, "locked"))
    return filtered


def remove_tree(tree: LinkedTree) -> None:
    """Remove a linked working tree with all that is in it. Raises UsageError for a locked one.

    A folder that does not say that it belongs to it is left alone.
    """
    if tree.lock and not tree.is_half_made:
        raise UsageError(
            f"the working tree {tree.path} is locked: {tree.lock}",
            hint=f"unlock it: {command('git', 'worktree', 'unlock', tree.path)}",
        )
    modules = os.path.join(tree.record, "modules")
    if os.path.isdir(modules) and os.listdir(modules) and not tree.is_missing:
        raise UsageError(
            f"the working tree {tree.path} has submodules, with what was committed in them",
            hint="remove it yourself: "
            + command("git", "worktree", "remove", "--force", tree.path),
        )
    if not tree.is_missing:
        # Before its record: after a kill between the two it is listed still, as missing.
        shutil.rmtree(tree.path)
    forget_tree(tree)


def forget_tree(tree: LinkedTree) -> None:
    """Have git know nothing of a linked working tree any more; its folder is left alone."""
    assert tree.record
    shutil.rmtree(tree.record)
    with suppress(OSError):  # not empty: there are others
        os.rmdir(os.path.dirname(tree.record))


def _require_within(place: GitDirectories, folder: str) -> None:
    if not is_in(folder, (place.common_directory,)):
        raise GitFileError(f"{folder} leads out of {place.common_directory}")


def _write(path: str, text: str) -> None:
    # Only ever a new file: what somebody else put there, or led elsewhere, is not written to.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o666), "wb") as file:
        file.write(os.fsencode(text))


# --- a repository of our own making ---------------------------------------------------------------


_IDENTITY = {
    "GIT_AUTHOR_NAME": "demo",
    "GIT_AUTHOR_EMAIL": "demo@localhost",
    "GIT_COMMITTER_NAME": "demo",
    "GIT_COMMITTER_EMAIL": "demo@localhost",
}


def start_repository(directory: Path) -> None:
    """Make a directory a repository, on `main`, with all that is in it committed. Blocking."""
    # No template: the machine's may bring hooks, which the commit would run.
    _git(directory, "init", "--quiet", "--template=", "--initial-branch=main")
    _git(directory, "add", "--all")
    _git(directory, "commit", "--quiet", "--message=Start")


def _git(directory: Path, *arguments: str) -> None:
    done = run_git(
        arguments,
        directory=str(directory),
        outside=(str(directory),),
        environment={**UNCONFIGURED, **_IDENTITY},
        until_s=time.monotonic() + TIMEOUT_S,
    )
    if done is None:
        raise UsageError("git is not installed", hint="install git")
    if done.code != 0:
        raise UsageError(
            f"git {arguments[0]} failed: {done.complaint}", hint=f"see what git says in {directory}"
        )
