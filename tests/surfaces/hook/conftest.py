"""What the tests of the hook share: the real program as a process, in a place that is published."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import in_process
from tests.support.warm_process import Done
from tests.support.world import eventually, git

from upthread.runtime.bindings.claims import lives

PROGRAM = Path(__file__).resolve().parents[3] / "src/upthread/surfaces/hook/__main__.py"
TIMEOUT_S = 60.0
PATIENT = """
import sys
sys.path.append(sys.argv[1])
from upthread.surfaces.hook import drain_wait, program
program.TIME_MAX_S = drain_wait.WAIT_S = 60.0
program.main(sys.argv[2:])
"""
"""The hook with time enough on any machine; its own limit is for an agent that waits for it."""

KEEP_WORDS = """
import os, sys
from pathlib import Path
from upthread.client.hook_words import keep_words
if "--words" in sys.argv:
    keep_words(sys.stdin.buffer.read(), Path(sys.argv[2]), environment=os.environ)
"""


@dataclass(frozen=True)
class Said:
    """How a hook ended."""

    out: str
    err: str
    code: int

    @property
    def answer(self) -> dict[str, Any]:
        return json.loads(self.out) if self.out else {}


class HookPlace:
    """A repository with upthread's files beside it; `hook` is what an agent would run."""

    def __init__(self, directory: Path) -> None:
        self.project = directory / "project"
        self.home = directory / "upthread"
        self.project.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "UPTHREAD_HOME": str(self.home),
        }
        for words in (("init", "-q", "-b", "main"), ("commit", "-qm", "seed", "--allow-empty")):
            git(self.project, *words)
        self.upthread("use", "spec-42")
        self.start_drains_by(KEEP_WORDS)

    def start_drains_by(self, program: str) -> None:
        """What `setup` writes down; here a drain keeps a call's words, and tests say when more."""
        self.start_drains_by_words((sys.executable, "-c", program))

    def start_drains_by_words(self, words: Sequence[str]) -> None:
        installed = {"schema": 1, "drain": [*words], "agents": {}}
        (self.home / "hooks" / "installed.json").write_text(json.dumps(installed))
        (self.home / "hooks" / "installed.json").chmod(0o600)

    def run(self, *words: str) -> Done:
        return in_process.done(*words, directory=self.project, environment=self.environment)

    def upthread(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.code == 0, done
        return done.json

    def hook(
        self,
        request: dict[str, Any] | bytes,
        *,
        agent: str = "opencode",
        before: Callable[[], None] | None = None,
        is_patient: bool = True,
        **environment: str,
    ) -> Said:
        """Run the program to its end; `before` runs in its process, before the program does.

        `is_patient`: it has time enough. Otherwise it has the time that it has with an agent.
        """
        program = ("-c", PATIENT, str(PROGRAM.parents[3])) if is_patient else (str(PROGRAM),)
        raw = request if isinstance(request, bytes) else json.dumps(request).encode()
        done = subprocess.run(
            [sys.executable, "-I", "-S", *program, agent, str(self.home)],
            cwd=self.project,
            env={**self.environment, **environment},
            input=raw,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            preexec_fn=before,
        )
        return Said(done.stdout.decode(), done.stderr.decode(), done.returncode)

    def request(self, event: str, call_id: str, **fields: Any) -> dict[str, Any]:
        return {
            "event": event,
            "cwd": str(self.project),
            "session": "ses_main",
            "call_id": call_id,
            "role": "planner",
            "pid": os.getpid(),
            **fields,
        }

    def call(self, call_id: str, child: str, *, prompt: str = "Plan it.", **ended: Any) -> Said:
        """One delegation from begin to end; returns what was decided."""
        decided = self.hook(self.request("before", call_id, prompt=prompt))
        self.hook(self.request("started", call_id, child=child))
        end = {"outcome": "ok", "reply": "Planned.", **ended}
        self.hook(self.request("ended", call_id, child=child, prompt=prompt, **end))
        self.wait_for_words()
        return decided

    def wait_for_words(self) -> None:
        """Return when every event that has words has them, or nobody is left to keep them."""
        eventually(
            lambda: not [*self._without("said", "ended"), *self._without("asked", "launched")]
        )

    def _without(self, words: str, kind: str) -> list[Any]:
        whose = {event["call_id"] for event in self._spooled(words)}
        events = self._spooled(kind)
        return [each for each in events if each["call_id"] not in whose and lives(each["drain"])]

    def _spooled(self, kind: str) -> Iterator[Any]:
        for path in self.files(f"spool/*-{kind}.json"):
            with contextlib.suppress(FileNotFoundError):  # taken in meanwhile
                yield json.loads(path.read_text())

    def files(self, pattern: str) -> list[Path]:
        return sorted(self.home.glob(f"hooks/projects/*/{pattern}"))

    @property
    def binding(self) -> Path:
        (path,) = self.files("bindings/*.json")
        return path


@pytest.fixture
def place(tmp_path: Path) -> HookPlace:
    return HookPlace(tmp_path)
