"""A repository of our own making, as `demo` needs it: with nobody's configuration or hooks."""

from __future__ import annotations

import time
from pathlib import Path

from upthread.boundary.git.process import TIMEOUT_S, UNCONFIGURED, run_git

_IDENTITY = {
    "GIT_AUTHOR_NAME": "demo",
    "GIT_AUTHOR_EMAIL": "demo@localhost",
    "GIT_COMMITTER_NAME": "demo",
    "GIT_COMMITTER_EMAIL": "demo@localhost",
}


def start_repository(directory: Path) -> None:
    """Make a directory a repository, on `main`, with all that is in it committed. Blocking."""
    # No template: the machine's may bring hooks, which the commit would run.
    _git(directory, "init", "--quiet", "--template=", "--initial-branch=main")
    _git(directory, "add", "--all")
    _git(directory, "commit", "--quiet", "--message=Start")


def _git(directory: Path, *arguments: str) -> None:
    done = run_git(
        arguments,
        directory=str(directory),
        outside=(str(directory),),
        environment={**UNCONFIGURED, **_IDENTITY},
        until_s=time.monotonic() + TIMEOUT_S,
    )
    done.answer(arguments[0], str(directory))
