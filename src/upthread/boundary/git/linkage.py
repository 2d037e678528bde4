"""Whether a git directory and a working tree name each other.

A `.git` file names a git directory anywhere, so anybody who writes one could have a folder pass for
another project, with its conversations. It counts only where the other side, which whoever wrote
the file need not be able to write, names that folder: a linked worktree by its `gitdir`, a
submodule, and a git directory kept apart, by `core.worktree`.

Hooks load this: nothing heavy.
"""

from __future__ import annotations

import os

from upthread.boundary.git.configuration import read_configuration
from upthread.boundary.git.directory_files import read_line

_NAMES = "gitdir: "


def named_in(dot_git: str) -> str | None:
    """Return the git directory that a `.git` file names, None where it is no such file.

    Raises GitFileError.
    """
    line = read_line(dot_git)
    if line is None or not line.startswith(_NAMES):
        return None
    return os.path.realpath(os.path.join(os.path.dirname(dot_git), line.removeprefix(_NAMES)))


def common_of(git_directory: str) -> str | None:
    """Return the directory that a git directory shares, itself for a main one.

    None where it names one that is not above it, where git keeps linked worktrees. Raises
    GitFileError.
    """
    named = read_line(os.path.join(git_directory, "commondir"))
    if named is None:
        return git_directory
    common = os.path.realpath(os.path.join(git_directory, named))
    kept_at = os.path.dirname(os.path.realpath(git_directory))
    return common if kept_at == os.path.join(common, "worktrees") else None


def points_back(git_directory: str, top: str) -> bool:
    """Whether a git directory that is not in a folder names it. Raises GitFileError."""
    dot_git = read_line(os.path.join(git_directory, "gitdir"))
    # A linked tree's record names its `.git` file, all others the folder itself.
    if dot_git is not None:
        named = os.path.join(git_directory, os.path.dirname(dot_git))
    else:
        configuration = read_configuration(os.path.join(git_directory, "config"))
        named = os.path.join(git_directory, configuration.last("core.worktree") or ".")
    return os.path.realpath(named) == os.path.realpath(top)
