"""Linked working trees as git knows them: read from its files, and nothing of the repository run.

How they are made and removed is `worktree_changes`: most looks only ask whether there is one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from msgspec import Struct

from upthread.boundary.git.directory_files import GitFileError, read_line
from upthread.boundary.git.linkage import named_in
from upthread.boundary.git.places import GitDirectories

HEADS: Final = "refs/heads/"

WORKTREES_MAX = 10_000
"""How many linked working trees of one repository are looked at."""

BEING_MADE: Final = "initializing"
"""Why one is locked that somebody is making, or was killed over."""


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
        return self.lock == BEING_MADE


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
