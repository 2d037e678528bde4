"""The commits that a history began with, as git tells them: all of it walked, or what is new.

Starts git, and is loaded only where what is remembered of a repository does not do: most looks and
turns ask git for nothing.
"""

from __future__ import annotations

import os
from typing import Final

from upthread.boundary.git.places import GitDirectories
from upthread.boundary.git.private import PrivateGit, objects_of
from upthread.boundary.git.process import find_git

MOVED_COMMITS_MAX: Final = 10_000
"""How many commits are looked through from one that is known; of more, all of history is."""


def find_roots(
    place: GitDirectories, commit: str, known: tuple[str, tuple[str, ...]] | None
) -> tuple[str, ...] | None:
    """Return the commits without a parent that a commit's history leads to, the newest first.

    None without a git. `known` is another commit of this repository with those that its own leads
    to, None for nothing known. Raises GitFileError.
    """
    if find_git(place.untrusted) is None:
        return None
    with objects_of(place) as git:
        found = _moved_on(git, *known, commit) if known else None
        if found is None:
            listed = git.ask("rev-list", "--max-parents=0", commit, "--")
            found = tuple(os.fsdecode(listed or b"").split())
    return found


def has_object(place: GitDirectories, name: str) -> bool:
    """Return whether a repository has an object; False without a git. Raises GitFileError."""
    if find_git(place.untrusted) is None:
        return False
    with objects_of(place) as git:
        return git.ask("cat-file", "-e", name) is not None


def _moved_on(
    git: PrivateGit, before: str, known: tuple[str, ...], commit: str
) -> tuple[str, ...] | None:
    """Return the roots of a commit by those of one that is known; None where they may be others."""
    told = git.ask(
        "rev-list",
        f"--max-count={MOVED_COMMITS_MAX + 1}",
        "--parents",
        "--boundary",
        commit,
        f"^{before}",
        "--",
    )
    # No answer: the commit that is known may be gone, after a rebase say.
    lines = None if told is None else [line.split() for line in os.fsdecode(told).splitlines()]
    if lines is None or len(lines) > MOVED_COMMITS_MAX:
        return None
    has_new_root = any(len(line) == 1 and not line[0].startswith("-") for line in lines)
    goes_on = any(line[0] == f"-{before}" for line in lines)
    # Of one root nothing else can be reached by what leads to no other; of several, some may not.
    return known if not has_new_root and (goes_on or len(known) == 1) else None
