"""An agent that upthread has been set up for, in a project of its own, and what comes of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 60


class AgentSetUp:
    """A repository, and the environment that both the agent and upthread run in there."""

    def __init__(
        self, project: Path, environment: dict[str, str], *, python: str = sys.executable
    ) -> None:
        self.project = project
        self.environment = environment
        self.python = python
        self.program = [python, "-m", "upthread"]
        project.mkdir(parents=True, exist_ok=True)
        git = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        for words in (("init", "-q", "-b", "main"), ("commit", "-qm", "seed", "--allow-empty")):
            subprocess.run([*git, *words], cwd=project, check=True)

    def upthread(self, *words: str) -> Any:
        done = subprocess.run(
            [*self.program, *words, "--json"],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    def conversation(self, address: str, *, turns: int) -> Any:
        """How a conversation stands once so many turns are in the store."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.upthread("drain")
            listed = self.upthread("ls")["workstreams"]
            roles = [role for each in listed for role in each["roles"]]
            found = next((role for role in roles if role["address"] == address), None)
            if found and found["turns"] >= turns:
                return found
            assert time.monotonic() < deadline, listed
            time.sleep(0.2)

    def planner(self, workstream: str, *, turns: int) -> Any:
        """How its planner stands once so many turns are in the store."""
        return self.conversation(f"{workstream}/planner", turns=turns)
