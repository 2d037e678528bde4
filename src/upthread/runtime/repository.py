"""Which repository a directory is in, asked of git itself.

Reads only. Git's own refusals (a repository that belongs to another user) are passed on as errors,
never taken for "no repository".
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from upthread.core.project import normalise_remote
from upthread.core.types import ProjectIdentity
from upthread.errors import UsageError

GIT_TIMEOUT_S = 30.0

GIT_WORK_TIMEOUT_S = 600.0
"""How long git may take to check a whole tree out, with the hooks the user has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A directory's identity and the root agents work in: the worktree's, else itself."""

    identity: ProjectIdentity
    root: Path


def find_repository(directory: Path) -> Repository:
    """Return where a directory belongs. Raises UsageError when it is none, or git refuses it."""
    real = directory.resolve()
    if not real.is_dir():
        raise UsageError(f"{directory} is not a directory", hint="run inside a project")
    told = _git(real, "rev-parse", "--show-toplevel", "--git-common-dir")
    if told is None:
        return Repository(identity=ProjectIdentity(path=str(real)), root=real)
    top, _, common = told.partition("\n")
    if not top:
        return Repository(identity=ProjectIdentity(path=str(real)), root=real)
    root = Path(top)
    common_directory = (real / common).resolve()
    roots = (_git(root, "rev-list", "--max-parents=0", "HEAD") or "").split()
    remote = _git(root, "config", "--get", "remote.origin.url")
    identity = ProjectIdentity(
        path=str(common_directory.parent),
        root_commit=roots[-1] if roots else None,
        remote=normalise_remote(remote) if remote else None,
    )
    return Repository(identity=identity, root=root)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitFacts:
    """What is checked out. All None outside of a repository; `branch` also on a detached HEAD.

    `fault` is git's own word where it could not tell.
    """

    repository: str | None = None
    branch: str | None = None
    commit: str | None = None
    fault: str = ""


def git_facts(directory: Path) -> GitFacts:
    """Return branch and commit of a directory's working tree. Blocking; neither reads the index.

    Never raises: what git refuses or cannot read is a fault, and the decision is made without it.
    """
    try:
        return _git_facts(directory)
    except (UsageError, OSError) as error:
        return GitFacts(fault=str(error))


def _git_facts(directory: Path) -> GitFacts:
    # Two questions in one process: HEAD as a commit, then HEAD as the reference it names.
    told = _git(directory, "rev-parse", "--git-common-dir", "HEAD", "--symbolic-full-name", "HEAD")
    if told is not None:
        common, commit, reference = told.splitlines()
        repository = _repository_of(directory, common)
        return GitFacts(repository=repository, branch=_branch_of(reference), commit=commit)
    return _facts_without_commit(directory)


def _facts_without_commit(directory: Path) -> GitFacts:
    """Tell a repository before its first commit from a damaged one, and that from none."""
    common = _git(directory, "rev-parse", "--git-common-dir")
    if common is None:
        is_damaged = any(_holds_a_git(place) for place in (directory, *directory.parents))
        fault = f"git sees no repository in {directory}, though there is a .git"
        return GitFacts(fault=fault if is_damaged else "")
    repository = _repository_of(directory, common)
    named = _git(directory, "symbolic-ref", "--quiet", "HEAD")
    if named is None or _git(directory, "rev-parse", "--verify", "--quiet", named) is not None:
        return GitFacts(repository=repository, fault=f"git cannot read HEAD of {repository}")
    return GitFacts(repository=repository, branch=_branch_of(named))


def _holds_a_git(place: Path) -> bool:
    """Whether a place was a repository: git too passes by the empty `.git` that sandboxes leave."""
    git = place / ".git"
    return git.is_file() or (git.is_dir() and any(git.iterdir()))


def _repository_of(directory: Path, common: str) -> str:
    return str((directory / common).resolve().parent)


def default_branch(directory: Path) -> str | None:
    """Return the branch work starts from: the remote's, else main, master or git's own default.

    None where none of them exists. Blocking; raises UsageError when git refuses.
    """
    remote = _git(directory, "symbolic-ref", "--quiet", "refs/remotes/origin/HEAD")
    if remote is not None:
        return remote.removeprefix("refs/remotes/origin/")
    configured = _git(directory, "config", "--get", "init.defaultBranch")
    for branch in filter(None, (configured, "main", "master")):
        if _git(directory, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"):
            return branch
    return None


def _branch_of(reference: str) -> str | None:
    prefix = "refs/heads/"
    return reference.removeprefix(prefix) if reference.startswith(prefix) else None


def _git(directory: Path, *arguments: str) -> str | None:
    """Return what git prints as text, as `ask_git` does."""
    told = ask_git(directory, *arguments)
    return None if told is None else os.fsdecode(told).strip()


def ask_git(directory: Path, *arguments: str, given: bytes = b"") -> bytes | None:
    """Return what git prints, None when it says no; raises UsageError when it refuses. Blocking.

    `given` is what git is told on its standard input.
    """
    done = _run_git(directory, arguments, given=given, timeout_s=GIT_TIMEOUT_S)
    if done is None:
        return None
    if done.returncode == 0:
        return done.stdout
    if b"dubious ownership" in done.stderr:
        first = os.fsdecode(done.stderr).strip().splitlines()[0]
        raise UsageError(first, hint="the repository belongs to another user; see git-config")
    return None


def do_git(directory: Path, *arguments: str) -> bytes:
    """Return what git prints; raises UsageError with git's own words when it fails. Blocking."""
    done = _run_git(directory, arguments, given=b"", timeout_s=GIT_WORK_TIMEOUT_S)
    if done is None:
        raise UsageError("git is not installed", hint="install git")
    if done.returncode != 0:
        said = [line for line in os.fsdecode(done.stderr).splitlines() if line.strip()]
        raise UsageError(
            f"git {' '.join(arguments[:2])} failed: {said[-1] if said else 'it did not say why'}",
            hint=f"see what git says in {directory}",
        )
    return done.stdout


def _run_git(
    directory: Path, arguments: tuple[str, ...], *, given: bytes, timeout_s: float
) -> subprocess.CompletedProcess[bytes] | None:
    """Run git to its end, None where there is no git."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment["LC_ALL"] = "C"
    try:
        return subprocess.run(
            ["git", "-C", str(directory), *arguments],  # noqa: S607 - the user's git, from PATH
            capture_output=True,
            check=False,
            timeout=timeout_s,
            env=environment,
            input=given,
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"git did not answer within {timeout_s:.0f} s in {directory}") from error
