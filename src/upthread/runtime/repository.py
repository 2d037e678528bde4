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


def _git(directory: Path, *arguments: str) -> str | None:
    """Return what git prints, None when it says no; raises UsageError when it refuses."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment["LC_ALL"] = "C"
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments],  # noqa: S607 - the user's git, from PATH
            capture_output=True,
            check=False,
            timeout=GIT_TIMEOUT_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"git did not answer within {GIT_TIMEOUT_S:.0f} s in {directory}"
        ) from error
    if done.returncode == 0:
        return os.fsdecode(done.stdout).strip()
    if b"dubious ownership" in done.stderr:
        first = os.fsdecode(done.stderr).strip().splitlines()[0]
        raise UsageError(first, hint="the repository belongs to another user; see git-config")
    return None
