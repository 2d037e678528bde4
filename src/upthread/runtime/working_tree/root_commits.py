"""The commits that a history began with, as git tells them: all of it walked, or what is new.

Starts git, and is loaded only where what is remembered of a repository does not do: most looks and
turns ask git for nothing.
"""

import os

from upthread.boundary.git.places import GitDirectories
from upthread.boundary.git.private import PrivateGit, objects_of
from upthread.boundary.git.process import find_git

_ROOTS = ("rev-list", "--max-parents=0")


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
        if known and _has_no_other(git, *known, commit):
            return known[1]
        return tuple(os.fsdecode(git.ask(*_ROOTS, commit, "--") or b"").split())


def has_object(place: GitDirectories, name: str) -> bool:
    """Return whether a repository has an object; False without a git. Raises GitFileError."""
    if find_git(place.untrusted) is None:
        return False
    with objects_of(place) as git:
        return git.ask("cat-file", "-e", name) is not None


def _has_no_other(git: PrivateGit, before: str, roots: tuple[str, ...], commit: str) -> bool:
    """Whether a commit has the roots of one that is known: its history leads to them alone."""
    # No answer: the commit that is known may be gone, after a rebase say.
    if git.ask(*_ROOTS, commit, f"^{before}", "--") != b"":
        return False
    # Of one root nothing else can be reached by what leads to no other; of several, some may not.
    return len(roots) == 1 or git.ask("merge-base", "--is-ancestor", before, commit) is not None
