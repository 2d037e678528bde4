"""The stage: a copy of the example, a git repository and an environment of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec import Struct

from upthread.boundary.git.new_repository import start_repository

EXAMPLE = "greeter"
WORKSTREAM = "spec-42"
PACE_MS = 60
"""How long the rehearsal agent thinks before each tool call, so that a kill finds it at work."""

ANSWERS = {"opening": "Good day", "stranger": "whoever you are"}
ANY_ANSWER = "yes"

# The demo's own person says yes to the demo's own agent, in their own configuration: a repository
# cannot, and yours asks you.
SETTINGS = '[permissions]\nedit = "allow"\nexecute = "allow"\n'


BRIEFED = SETTINGS + "[freshness]\nresume_tokens_max = 1\n"
"""Every session is too big to resume, so that each turn starts fresh from a briefing."""


class Stage(Struct, frozen=True, kw_only=True):
    """Where one part is played. All that it writes is below `directory`."""

    directory: Path

    @property
    def project(self) -> Path:
        return self.directory / EXAMPLE

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def log(self) -> Path:
        """What the agent received, one JSON line each, written by the agent."""
        return self.directory / "received.jsonl"

    @property
    def specification(self) -> str:
        return (self.project / "spec.md").read_text(encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """The process's environment, with every path of upthread and its agent on this stage."""
        # None of the person's own settings: the demo must not write to their record.
        kept = {k: v for k, v in os.environ.items() if not k.startswith("UPTHREAD_")}
        return {
            **kept,
            "UPTHREAD_HOME": str(self.home),
            "UPTHREAD_REHEARSAL_HOME": str(self.directory / "sessions"),
            "UPTHREAD_REHEARSAL_LOG": str(self.log),
            "UPTHREAD_REHEARSAL_PACE_MS": str(PACE_MS),
        }


def set_stage(directory: Path, *, settings: str = SETTINGS) -> Stage:
    """Copy the example into a new repository below `directory`."""
    stage = Stage(directory=directory)
    directory.mkdir(mode=0o700, parents=True)
    shutil.copytree(example_directory(), stage.project)
    stage.home.mkdir(mode=0o700)
    (stage.home / "config.toml").write_text(settings, encoding="utf-8")
    start_repository(stage.project)
    return stage


def example_directory() -> Path:
    """Return the example: beside the package when installed, in `examples/` in a checkout."""
    package = Path(__file__).resolve().parents[3]
    installed = package / "examples" / EXAMPLE
    return installed if installed.is_dir() else package.parents[1] / "examples" / EXAMPLE
