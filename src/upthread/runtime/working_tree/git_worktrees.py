"""Working trees of their own: a git worktree and a branch for one workstream.

Nothing of it is kept by us: git knows its worktrees, and a workstream's is the one at its place or
on its branch. A workstream that has one is worked on there, whoever asks. It is removed only when a
person says so, never with uncommitted work, and its branch stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from pathlib import Path
from typing import Final

from msgspec import Struct

from upthread.boundary import files as opener
from upthread.boundary.git.places import LinkedTree, list_trees, read_head
from upthread.core.names import directory_name, shown
from upthread.errors import NotFoundError, RefusedError, UsageError
from upthread.runtime.working_tree.repository import require_readable

BRANCH_PREFIX: Final = "upthread/"


class Worktree(Struct, frozen=True, kw_only=True):
    """A workstream's own working tree. `branch` is empty while none is checked out there.

    `is_missing` when git knows it and its directory is gone, `is_half_made` when git was killed
    while it made it. `left_behind` counts what was not committed where it was branched off, just
    then; 0 for one that was there. `unfiltered` counts the files that are as git stores them,
    because the programs that `filters` names would have made them and were not run.
    """

    path: str
    branch: str
    is_missing: bool = False
    is_half_made: bool = False
    is_new: bool = False
    left_behind: int = 0
    unfiltered: int = 0
    filters: tuple[str, ...] = ()


class Worktrees:
    """The worktrees of one repository. Blocking; `folder` is where new ones are made."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder

    def find(self, workstream: str) -> Worktree | None:
        """Return a workstream's worktree, None where it has none, or it cannot be told."""
        try:
            found = self._linked(workstream)
        except (UsageError, OSError):
            return None
        return None if found is None else _worktree(found)

    def require(self, workstream: str) -> Worktree | None:
        """As `find`; raises UsageError for one whose directory is gone."""
        found = self.find(workstream)
        if found is not None and (found.is_missing or found.is_half_made):
            raise UsageError(
                f"the working tree of {shown(workstream)} is gone: {found.path}",
                hint=f"make it again: upthread run {shlex.quote(workstream)} --worktree; "
                "or let git forget it: git worktree prune",
                workstream=workstream,
            )
        return found

    def ensure(self, workstream: str) -> Worktree:
        """Return a workstream's worktree, made from HEAD if there is none.

        Work that was committed on its branch before is there. UsageError where git cannot make it.
        For one process at a time.
        """
        try:
            return self._ensured(workstream)
        except OSError as error:
            raise UsageError(
                f"no working tree could be made for {shown(workstream)}: {error}",
                hint="mend it, then try again",
                workstream=workstream,
            ) from error

    def _ensured(self, workstream: str) -> Worktree:
        found = self._linked(workstream)
        if found is not None and not found.is_missing and not found.is_half_made:
            return _worktree(found)
        repository = require_readable(self._root)
        if repository is None or read_head(repository).commit is None:
            raise UsageError(
                f"there is no commit in {self._root} to branch off from",
                hint="commit something first, or run without --worktree",
            )
        # What starts git is loaded by who needs it: most only ask whether there is a worktree.
        from upthread.boundary.git.worktree_changes import add_tree, forget_tree, remove_tree

        # Made anew: half of a checkout may lie there, and nobody was let in to work on it.
        if found is not None and found.is_half_made:
            remove_tree(found)
        elif found is not None:
            forget_tree(found.record)
        place, branch = self._place(workstream), _branch(workstream)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        filtered = add_tree(repository, str(place), branch)
        return Worktree(
            path=str(place),
            branch=branch,
            is_new=True,
            left_behind=uncommitted(self._root),
            unfiltered=len(filtered),
            filters=tuple(sorted({os.fsdecode(name) for name in filtered.values()})),
        )

    def remove(self, workstream: str) -> Worktree:
        """Remove a workstream's worktree, and leave its branch; returns what it was.

        Raises NotFoundError for none, RefusedError while something in it is not committed.
        """
        try:
            linked = self._linked(workstream)
        except OSError as error:
            raise UsageError(str(error), hint="mend it, then try again") from error
        if linked is None:
            raise NotFoundError(
                f"{shown(workstream)} has no working tree of its own",
                hint="see `upthread worktree`",
                workstream=workstream,
            )
        found = _worktree(linked)
        left = 0 if found.is_missing else uncommitted(Path(found.path))
        if left:
            raise RefusedError(
                f"{found.path} has {left} uncommitted change{'' if left == 1 else 's'}",
                reasons=("uncommitted",),
                hint="commit them there, or throw them away yourself, then remove it",
                workstream=workstream,
            )
        from upthread.boundary.git.worktree_changes import remove_tree

        remove_tree(linked)
        return found

    def _linked(self, workstream: str) -> LinkedTree | None:
        """Return what git knows of a workstream's tree. Raises UsageError, GitFileError."""
        repository = require_readable(self._root)
        known = [] if repository is None else list_trees(repository)
        place, branch = str(self._place(workstream)), _branch(workstream)
        at_place = [each for each in known if each.path == place]
        # Not the main one: that is the person's own, whatever branch they look at.
        on_branch = [each for each in known[1:] if each.branch == branch]
        return next(iter([*at_place, *on_branch]), None)

    def _place(self, workstream: str) -> Path:
        return self._folder / directory_name(workstream)


def uncommitted(directory: Path) -> int:
    """Return how many paths of a working tree are not as they were committed. Blocking.

    Raises UsageError where git cannot tell: what is not known is not thrown away.
    """
    place = require_readable(directory)
    if place is None:
        raise UsageError(f"{directory} is in no repository", hint="see `git status` there")
    from upthread.runtime.working_tree.digest import changed_paths

    try:
        return len(changed_paths(place))
    except OSError as error:
        raise UsageError(str(error), hint=f"see `git status` in {directory}") from error


def _branch(workstream: str) -> str:
    return BRANCH_PREFIX + directory_name(workstream)


def _worktree(tree: LinkedTree) -> Worktree:
    return Worktree(
        path=tree.path,
        branch=tree.branch,
        is_missing=tree.is_missing,
        is_half_made=tree.is_half_made,
    )


# --- which workstream a person said that a tree is on ---------------------------------------------
# A file of one line in upthread's home, of this machine as the tree is: `upthread use` writes the
# file, and hooks read it.


FOLDER: Final = "used"
BYTES_MAX: Final = 4096


def used_workstream(home: Path, root: str) -> str | None:
    """Return the workstream that a working tree is on, None where nobody said one. Blocking."""
    path = _path(home, root)
    try:
        raw = opener.read_all(opener.direct(str(path)), str(path), bytes_max=BYTES_MAX)
        return raw.decode("utf-8") or None
    except (OSError, UnicodeDecodeError):
        return None


def use_workstream(home: Path, root: str, name: str | None) -> None:
    """Say which workstream a working tree is on, None for none. Blocking. Raises OSError."""
    path = _path(home, root)
    if name is None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, name.encode("utf-8"))
    finally:
        os.close(descriptor)
    written.replace(path)


def _path(home: Path, root: str) -> Path:
    digest = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return home / FOLDER / digest
