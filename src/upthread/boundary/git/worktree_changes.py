"""Linked working trees made and removed as git does, with nothing of the repository run.

`git worktree add` runs hooks and filters, and `remove` the filters and the watcher of the tree, as
configured by whoever wrote the configuration last. The few files that make a linked working tree
(gitrepository-layout(5), "worktrees") are written here; its content is checked out by git in a
private directory.
"""

import os
import shutil
from contextlib import suppress
from os.path import basename, dirname, isdir, join, lexists, realpath

from upthread.boundary.git import process
from upthread.boundary.git.files import GitFileError
from upthread.boundary.git.places import (
    BEING_MADE,
    HEADS,
    GitDirectories,
    LinkedTree,
    find_reference,
    is_reference,
    list_trees,
    place_at,
    read_head,
)
from upthread.boundary.git.private import filters_of, tree_of
from upthread.boundary.programs import is_in
from upthread.core.text import command
from upthread.errors import UsageError


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
    if lexists(path) and (not isdir(path) or os.listdir(path)):
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
        forget_tree(record)
        shutil.rmtree(path, ignore_errors=True)
        raise


def _make_branch(place: GitDirectories, branch: str, commit: str) -> None:
    name = HEADS + branch
    parts = name.split("/")
    above = ["/".join(parts[:count]) for count in range(3, len(parts))]
    if not is_reference(name) or any(find_reference(place, other) for other in above):
        raise UsageError(f"git takes no branch named {branch} here", hint="see git branch --list")
    path = join(place.common_directory, name)
    os.makedirs(dirname(path), exist_ok=True)
    # A folder on the way may be a link that a clone brought, and we would write behind it.
    _require_within(place, dirname(path))
    # As git does it, so that no two processes make it at once: under its lock, then in one step.
    _write(f"{path}.lock", f"{commit}\n")
    os.replace(f"{path}.lock", path)


def _make_record(place: GitDirectories, path: str, branch: str) -> str:
    folder = join(place.common_directory, "worktrees")
    os.makedirs(folder, exist_ok=True)
    _require_within(place, folder)
    record = join(folder, f"{basename(path)}-{os.urandom(4).hex()}")
    os.mkdir(record)
    # The first file: from now on `git worktree prune` leaves it, and a kill shows as half made.
    _write(join(record, "locked"), BEING_MADE)
    _write(join(record, "gitdir"), f"{join(path, '.git')}\n")
    _write(join(record, "commondir"), "../..\n")
    _write(join(record, "HEAD"), f"ref: {HEADS}{branch}\n")
    return record


def _fill(path: str, record: str, commit: str) -> dict[bytes, bytes]:
    os.makedirs(path, exist_ok=True)
    _write(join(path, ".git"), f"gitdir: {record}\n")
    # Read back by the rules for any clone: what we made ourselves has to pass them.
    made = place_at(realpath(path))
    if made is None:
        raise GitFileError(f"{path} did not become a working tree")
    index = join(record, "index")
    with tree_of(made, commit, timeout_s=process.WORK_TIMEOUT_S, index=index) as git:
        git.do("read-tree", "-m", "-u", commit)
        filtered = filters_of(git, git.do("ls-files", "-z").split(b"\0")[:-1])
    # Last of all: until here it is told for half made, and removed with nothing asked.
    os.unlink(join(record, "locked"))
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
    modules = join(tree.record, "modules")
    if isdir(modules) and os.listdir(modules) and not tree.is_missing:
        raise UsageError(
            f"the working tree {tree.path} has submodules, with what was committed in them",
            hint="remove it yourself: "
            + command("git", "worktree", "remove", "--force", tree.path),
        )
    if not tree.is_missing:
        # Before its record: after a kill between the two it is listed still, as missing.
        shutil.rmtree(tree.path)
    forget_tree(tree.record)


def forget_tree(record: str) -> None:
    """Have git know nothing of a linked working tree any more; its folder is left alone."""
    shutil.rmtree(record)
    with suppress(OSError):  # not empty: there are others
        os.rmdir(dirname(record))


def _require_within(place: GitDirectories, folder: str) -> None:
    if not is_in(folder, (place.common_directory,)):
        raise GitFileError(f"{folder} leads out of {place.common_directory}")


def _write(path: str, text: str) -> None:
    # Only ever a new file: what somebody else put there, or led elsewhere, is not written to.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o666), "wb") as file:
        file.write(os.fsencode(text))
