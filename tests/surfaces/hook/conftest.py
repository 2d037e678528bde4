"""What the tests of the hook share: the real program as a process, in a place that is used."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import in_process
from tests.support.warm_process import Done
from tests.support.world import git

from upthread.surfaces.cli.setup import launcher

PROGRAM = Path(__file__).resolve().parents[3] / "src/upthread/surfaces/hook/__main__.py"
LIBRARIES = launcher.libraries()
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Said:
    """How a hook ended."""

    out: str
    err: str
    code: int

    @property
    def answer(self) -> dict[str, Any]:
        return json.loads(self.out) if self.out else {}


@contextmanager
def commits_counted(database: Path) -> Iterator[list[int]]:
    """Count the commits to a database, by the frames of its log that end one.

    The reader keeps the log from being written anew: https://sqlite.org/walformat.html
    """
    counted: list[int] = []
    with ExitStack() as stack:
        with suppress(sqlite3.Error):  # it is damaged, or not there
            opened = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
            reader = stack.enter_context(closing(opened))
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM entry").fetchone()
        before = _commits_in(database)
        yield counted
        counted.append(_commits_in(database) - before)


def _commits_in(database: Path) -> int:
    log = database.with_name(f"{database.name}-wal")
    raw = log.read_bytes() if log.exists() else b""
    size = 24 + int.from_bytes(raw[8:12], "big")
    frames = [raw[at : at + 16] for at in range(32, len(raw), size)]
    return sum(each[4:8] != bytes(4) and each[8:] == raw[16:24] for each in frames)


class HookPlace:
    """A repository with upthread's home beside it; `hook` is what an agent would run.

    `commits_max` is how often one hook may commit: once, and more often where it ends or reads back
    an earlier turn first. None where others write at the same time.
    """

    commits_max: int | None = 1

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

    def run(self, *words: str) -> Done:
        return in_process.done(*words, directory=self.project, environment=self.environment)

    def upthread(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.code == 0, done
        return done.json

    def event(self, agent: str, name: str, **fields: Any) -> dict[str, Any]:
        """What a hook answers in the main session of an agent that has them."""
        asked = {"hook_event_name": name, "session_id": "main-1", "cwd": str(self.project)}
        said = self.hook({**asked, **fields}, agent=agent)
        assert (said.code, said.err) == (0, "")
        return said.answer

    def hook(
        self,
        request: dict[str, Any] | bytes,
        *,
        agent: str = "opencode",
        event: str = "",
        before: Callable[[], None] | None = None,
        **environment: str,
    ) -> Said:
        """Run the program to its end; `before` runs in its process, before the program does."""
        raw = request if isinstance(request, bytes) else json.dumps(request).encode()
        with commits_counted(self.home / "upthread.db") as counted:
            done = subprocess.run(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(PROGRAM),
                    agent,
                    str(self.home),
                    event,
                    *LIBRARIES,
                ],
                cwd=self.project,
                env={**self.environment, **environment},
                input=raw,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
                preexec_fn=before,
            )
        most = self.commits_max
        assert most is None or counted[0] <= most, f"{counted[0]} commits of {request!r}"
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
        return decided


def let_die(place: HookPlace) -> None:
    """Let each agent that holds a call be a process that has ended."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with closing(sqlite3.connect(place.home / "upthread.db")) as database:
        database.execute(
            "UPDATE lease SET holder = json_set(holder, '$.pid', ?, '$.started_at_ticks', 1)",
            (dead.pid,),
        )
        database.commit()


def context(answer: dict[str, Any]) -> str:
    """What an answer tells the model."""
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")


@pytest.fixture
def place(tmp_path: Path) -> HookPlace:
    return HookPlace(tmp_path)
