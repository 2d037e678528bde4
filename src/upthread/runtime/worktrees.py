"""Working trees of their own: a git worktree and a branch for one workstream.

Nothing of it is kept by us: git knows its worktrees, and a workstream's is the one at its place or
on its branch. A workstream that has one is worked on there, whoever asks. It is removed only when a
person says so, never with uncommitted work, and its branch stays.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from upthread.core.names import directory_name, shown
from upthread.errors import NotFoundError, RefusedError, UsageError
from upthread.runtime.repository import ask_git, do_git

BRANCH_PREFIX: Final = "upthread/"

_HEADS: Final = "refs/heads/"
_BEING_MADE: Final = "initializing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """A workstream's own working tree. `branch` is empty while none is checked out there.

    `is_missing` when git knows it and its directory is gone, `is_half_made` when git was killed
    while it made it. `left_behind` counts what was not committed where it was branched off, just
    then; 0 for one that was there.
    """

    path: str
    branch: str
    is_missing: bool = False
    is_half_made: bool = False
    is_new: bool = False
    left_behind: int = 0


class Worktrees:
    """The worktrees of one repository. Blocking; `folder` is where new ones are made."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder

    def find(self, workstream: str) -> Worktree | None:
        """Return a workstream's worktree, None where it has none, or git cannot tell."""
        try:
            told = ask_git(self._root, "worktree", "list", "--porcelain")
        except UsageError:
            return None
        place, branch = self._place(workstream), _branch(workstream)
        known = _read(os.fsdecode(told or b""))
        at_place = [each for each in known if each.path == str(place)]
        on_branch = [each for each in known[1:] if each.branch == branch]
        return next(iter([*at_place, *on_branch]), None)

    def require(self, workstream: str) -> Worktree | None:
        """As `find`; raises UsageError for one whose directory is gone."""
        found = self.find(workstream)
        if found is not None and (found.is_missing or found.is_half_made):
            raise UsageError(
                f"the working tree of {shown(workstream)} is gone: {found.path}",
                hint=f"make it again: upthread run {workstream} --worktree; "
                "or let git forget it: git worktree prune",
                workstream=workstream,
            )
        return found

    def ensure(self, workstream: str) -> Worktree:
        """Return a workstream's worktree, made from HEAD if there is none.

        Work that was committed on its branch before is there. UsageError where git cannot make it.
        For one process at a time.
        """
        found = self.find(workstream)
        if found is not None and not found.is_missing and not found.is_half_made:
            return found
        if ask_git(self._root, "rev-parse", "--verify", "--quiet", "HEAD") is None:
            raise UsageError(
                f"there is no commit in {self._root} to branch off from",
                hint="commit something first, or run without --worktree",
            )
        if found is not None and found.is_half_made:
            do_git(self._root, "worktree", "remove", "--force", "--force", found.path)
        place, branch = self._place(workstream), _branch(workstream)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_there = ask_git(self._root, "rev-parse", "--verify", "--quiet", _HEADS + branch)
        what = ("-b", branch, str(place), "HEAD") if is_there is None else (str(place), branch)
        anew = ("--force",) if found is not None and found.is_missing else ()
        do_git(self._root, "worktree", "add", "--quiet", *anew, *what)
        made = Worktree(path=str(place), branch=branch, is_new=True)
        return replace(made, left_behind=uncommitted(self._root))

    def remove(self, workstream: str) -> Worktree:
        """Remove a workstream's worktree, and leave its branch; returns what it was.

        Raises NotFoundError for none, RefusedError while something in it is not committed.
        """
        found = self.find(workstream)
        if found is None:
            raise NotFoundError(
                f"{shown(workstream)} has no working tree of its own",
                hint="see `upthread worktree`",
                workstream=workstream,
            )
        left = 0 if found.is_missing else uncommitted(Path(found.path))
        if left:
            raise RefusedError(
                f"{found.path} has {left} uncommitted change{'' if left == 1 else 's'}",
                reasons=("uncommitted",),
                hint="commit them there, or throw them away yourself, then remove it",
                workstream=workstream,
            )
        # Without --force: git looks again, and refuses what has changed meanwhile.
        do_git(self._root, "worktree", "remove", found.path)
        return found

    def _place(self, workstream: str) -> Path:
        return self._folder / directory_name(workstream)


def uncommitted(directory: Path) -> int:
    """Return how many paths of a working tree are not as they were committed. Blocking.

    Raises UsageError where git cannot tell: what is not known is not thrown away.
    """
    told = do_git(directory, "status", "--porcelain", "--untracked-files=all")
    return len(told.splitlines())


def _branch(workstream: str) -> str:
    return BRANCH_PREFIX + directory_name(workstream)


def _read(listed: str) -> list[Worktree]:
    """Return what `git worktree list --porcelain` tells, in its order: the main tree first."""
    found: list[Worktree] = []
    for block in listed.split("\n\n"):
        lines = (line.partition(" ") for line in block.splitlines())
        said = {word: rest for word, _, rest in lines}
        if "worktree" not in said:
            continue
        path = said["worktree"]
        worktree = Worktree(
            path=path,
            branch=said.get("branch", "").removeprefix(_HEADS),
            is_missing=not Path(path).is_dir(),
            is_half_made=said.get("locked") == _BEING_MADE,
        )
        found.append(worktree)
    return found
