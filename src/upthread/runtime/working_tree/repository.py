"""Which repository a directory is in, and what is checked out there.

Reads only, and runs nothing of the repository: see `upthread.boundary.git`. What must not or cannot
be read is an error or a fault, never taken for "no repository".
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from upthread.boundary.git.directory_files import GitFileError
from upthread.boundary.git.person import person_configuration
from upthread.boundary.git.places import GitDirectories, find_place
from upthread.boundary.git.private import objects_of
from upthread.boundary.git.process import find_git
from upthread.boundary.git.references import find_reference, read_head, symbolic
from upthread.core.project import normalise_remote
from upthread.core.types import ProjectIdentity
from upthread.errors import ConfigError, UsageError

_HEADS = "refs/heads/"
_REMOTE = "refs/remotes/origin/"
_CURE = "mend or remove it, then try again"


class Repository(Struct, frozen=True, kw_only=True):
    """A directory's identity and the root agents work in: the worktree's, else itself."""

    identity: ProjectIdentity
    root: Path


def find_repository(directory: Path) -> Repository:
    """Return where a directory belongs.

    Raises UsageError when it is none, or in a repository that must not be read, and ConfigError for
    one that cannot be: by its path alone it would be another project.
    """
    try:
        real = directory.resolve()
    except FileNotFoundError:  # a path that is not absolute, in a directory that was removed
        raise UsageError(
            "the working directory is not there any more", hint="change into the project's folder"
        ) from None
    if not real.is_dir():
        raise UsageError(f"{directory} is not a directory", hint="run inside a project")
    try:
        place = find_place(str(real))
        root_commit = None if place is None else _root_commit(place)
    except GitFileError as error:
        raise ConfigError(str(error), hint=_CURE) from error
    if place is None:
        return Repository(identity=ProjectIdentity(path=str(real)), root=real)
    remote = place.configuration.last("remote.origin.url")
    identity = ProjectIdentity(
        path=str(Path(place.common_directory).parent),
        root_commit=root_commit,
        remote=normalise_remote(remote) if remote else None,
    )
    return Repository(identity=identity, root=Path(place.top))


def require_readable(directory: Path) -> GitDirectories | None:
    """Return the working tree a directory is in, None outside of any; raises UsageError."""
    try:
        return find_place(str(directory))
    except GitFileError as error:
        raise UsageError(str(error), hint=_CURE) from error


def _root_commit(place: GitDirectories) -> str | None:
    """Return the oldest commit without a parent, None where history does not lead to one.

    Raises GitFileError.
    """
    commit = read_head(place).commit
    if commit is None or find_git(place.untrusted) is None:
        return None
    with objects_of(place) as git:
        found = git.ask("rev-list", "--max-parents=0", commit, "--")
    roots = os.fsdecode(found or b"").split()
    # Git tells the newest first; a history merged in later must not make it another project.
    return roots[-1] if roots else None


class GitFacts(Struct, frozen=True, kw_only=True):
    """What is checked out. All None outside of a repository; `branch` also on a detached HEAD.

    `fault` is why it could not be told.
    """

    repository: str | None = None
    branch: str | None = None
    commit: str | None = None
    fault: str = ""


def git_facts(directory: Path) -> GitFacts:
    """Return branch and commit of a directory's working tree. Blocking; runs nothing.

    Never raises: what must not or cannot be read is a fault, and the decision is made without it.
    """
    try:
        place = find_place(str(directory))
        return _facts_without_repository(directory) if place is None else _facts(place)
    except (UsageError, OSError) as error:
        return GitFacts(fault=str(error))


def _facts(place: GitDirectories) -> GitFacts:
    repository = str(Path(place.common_directory).parent)
    try:
        head = read_head(place)
    except GitFileError as error:
        fault = f"git cannot read HEAD of {repository}: {error}"
        return GitFacts(repository=repository, fault=fault)
    branch = _branch_of(head.reference) if head.reference else None
    return GitFacts(repository=repository, branch=branch, commit=head.commit)


def _facts_without_repository(directory: Path) -> GitFacts:
    """Tell a damaged repository from none."""
    is_damaged = any(_holds_a_git(place) for place in (directory, *directory.parents))
    fault = f"git sees no repository in {directory}, though there is a .git"
    return GitFacts(fault=fault if is_damaged else "")


def _holds_a_git(place: Path) -> bool:
    """Whether a place was a repository: git too passes by the empty `.git` that sandboxes leave."""
    git = place / ".git"
    return git.is_file() or (git.is_dir() and any(git.iterdir()))


def default_branch(directory: Path) -> str | None:
    """Return the branch work starts from: the remote's, else main, master or git's own default.

    None where none of them exists. Blocking; raises UsageError where it must not be read.
    """
    place = require_readable(directory)
    if place is None:
        return None
    try:
        remote = symbolic(place, f"{_REMOTE}HEAD")
        if remote is not None:
            return remote.removeprefix(_REMOTE)
        found = place.configuration.over(person_configuration(place.untrusted))
        for branch in filter(None, (found.last("init.defaultbranch"), "main", "master")):
            if find_reference(place, _HEADS + branch):
                return branch
    except GitFileError as error:
        raise UsageError(str(error), hint=_CURE) from error
    return None


def _branch_of(reference: str) -> str | None:
    return reference.removeprefix(_HEADS) if reference.startswith(_HEADS) else None
