"""W13: `upthread tell` beside the same turn of the same agent, driven directly.

Raw: the rehearsal agent, started by a client of a few lines that resumes a session and prompts it.
Ours: `upthread tell` to a role that is resumed, the whole process. What is compared is the sum;
what `tell` adds has rows of its own, with the most that it may add beside it. Then the same with
many conversations published for hooks, and in a repository of a long history.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from measure import Row, installed_program, percentile
from scratch import scratch

from upthread.agents.rehearsal.sessions import HOME_VARIABLE

ROUNDS = 12
ROUNDS_QUICK = 5
ADDED_WALL_MS_MAX = 150.0
ADDED_CPU_MS_MAX = 200.0
GROWTH_LIMIT = 1.3
COMMITS = 300_000
COMMITS_QUICK = 30_000
ADDRESS = "spec-42/planner"
AGENT = [sys.executable, "-m", "upthread.agents.rehearsal"]
UPTHREAD = installed_program()


class Took(NamedTuple):
    """What a process and all that it started took."""

    wall_ms: float
    cpu_ms: float


class Project(NamedTuple):
    """A repository, and what a process in it finds in its environment."""

    directory: Path
    environment: Mapping[str, str]


def measure(*, is_quick: bool) -> list[Row]:
    """Return what `tell` takes, what it adds, and how it grows."""
    rounds = ROUNDS_QUICK if is_quick else ROUNDS
    with scratch() as directory:
        plain = make_project(directory / "plain")
        long = make_project(directory / "long", commits=COMMITS_QUICK if is_quick else COMMITS)
        many = make_project(directory / "many")
        publish_many(many)
        projects = {"ours": plain, "in a long history": long, "with many published": many}
        session = new_session(AGENT, plain)
        took: dict[str, list[Took]] = {"raw": [], **{name: [] for name in projects}}
        for project in projects.values():
            tell(project)
        for _ in range(rounds):
            took["raw"].append(timed(lambda: driven(AGENT, plain, session)))
            for name, project in projects.items():
                took[name].append(timed(lambda project=project: tell(project)))
    best = {name: best_of(each) for name, each in took.items()}
    added = added_by("W13", "the rehearsal agent", best["raw"], best["ours"])
    return [*added, *(_grown(best, name) for name in list(projects)[1:])]


def added_by(workload: str, agent: str, raw: Took, ours: Took) -> list[Row]:
    """Return what a turn takes both ways, and what `tell` adds to it."""
    note = "raw: the most it may be"
    return [
        Row(
            workload=workload,
            what=f"tell, resumed, {agent}",
            raw=raw.wall_ms,
            ours=ours.wall_ms,
            unit="ms",
        ),
        Row(
            workload=workload,
            what=f"wall that tell adds, {agent}",
            raw=ADDED_WALL_MS_MAX,
            ours=ours.wall_ms - raw.wall_ms,
            unit="ms",
            limit=1.0,
            note=note,
        ),
        Row(
            workload=workload,
            what=f"CPU that tell adds, {agent}",
            raw=ADDED_CPU_MS_MAX,
            ours=ours.cpu_ms - raw.cpu_ms,
            unit="ms",
            limit=1.0,
            note=note,
        ),
    ]


def _grown(best: Mapping[str, Took], name: str) -> Row:
    return Row(
        workload="W13",
        what=f"tell {name}, CPU",
        raw=best["ours"].cpu_ms,
        ours=best[name].cpu_ms,
        unit="ms",
        limit=GROWTH_LIMIT,
        note="ours to ours",
    )


def best_of(took: Sequence[Took]) -> Took:
    """Return the tenth percentiles: nobody disturbed these."""
    return Took(
        percentile([each.wall_ms for each in took], 0.1),
        percentile([each.cpu_ms for each in took], 0.1),
    )


def timed(run: Callable[[], object]) -> Took:
    """Return what a process takes that is started and waited for."""
    before, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took((time.perf_counter() - wall_s) * 1e3, cpu_s * 1e3)


# --- the sides ---------------------------------------------------------------------------------


def tell(project: Project) -> None:
    command = [*UPTHREAD, "tell", ADDRESS, "Go on.", "--agent", "rehearsal"]
    run_in(command, project)


class Client:
    """A client of ACP that asks one thing after the other."""

    def __init__(self, agent: Sequence[str], project: Project) -> None:
        self._process = subprocess.Popen(
            [_found(agent[0], project), *agent[1:]],
            cwd=project.directory,
            env=project.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._id = 0
        self.ask("initialize", protocolVersion=1, clientCapabilities={})

    def ask(self, method: str, **fields: Any) -> Any:
        self._id += 1
        asked = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": fields}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            told = json.loads(line)
            if told.get("id") == self._id and "method" not in told:
                return told["result"]
        raise AssertionError(f"the agent ended before it answered {method}")

    def close(self) -> None:
        self._process.communicate()


def new_session(agent: Sequence[str], project: Project) -> str:
    """Have an agent open a session, and end it; returns the session's id."""
    client = Client(agent, project)
    session: str = client.ask("session/new", cwd=str(project.directory), mcpServers=[])["sessionId"]
    client.close()
    return session


def driven(agent: Sequence[str], project: Project, session: str) -> None:
    """Resume a session and prompt it once, by a client of a few lines."""
    client = Client(agent, project)
    client.ask("session/resume", sessionId=session, cwd=str(project.directory), mcpServers=[])
    prompt = [{"type": "text", "text": "Go on."}]
    client.ask("session/prompt", sessionId=session, prompt=prompt)
    client.close()


# --- what is there before ----------------------------------------------------------------------


def make_project(directory: Path, *, commits: int = 1) -> Project:
    directory.mkdir()
    tree, home = directory / "tree", directory / "home"
    environment = {
        **{n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"},
        "HOME": str(home),
        "UPTHREAD_HOME": str(home / "upthread"),
        HOME_VARIABLE: str(directory / "sessions"),
    }
    tree.mkdir()
    home.mkdir()
    project = Project(tree, environment)
    run_in(["git", "init", "-q", "-b", "main"], project)
    run_in(["git", "fast-import", "--quiet"], project, given=_history(commits))
    return project


def _history(commits: int) -> bytes:
    who = "A <a@example.invalid> {at} +0000"
    lines = (
        f"commit refs/heads/main\ncommitter {who.format(at=1_600_000_000 + number)}\ndata 2\nx\n\n"
        for number in range(commits)
    )
    return "".join(lines).encode()


def publish_many(project: Project) -> None:
    """Publish many conversations for hooks, as after `upthread setup`."""
    here = Path(__file__).resolve().parent
    # It stands in for nobody's turn, and so may import what the tests share.
    filling = project._replace(environment={**project.environment, "PYTHONPATH": str(here.parent)})
    run_in([sys.executable, str(here / "many_conversations.py")], filling)
    run_in([*UPTHREAD, "setup", "claude", "--yes"], project)


def run_in(command: Sequence[str], project: Project, given: bytes | None = None) -> str:
    """Run a command to its good end, and return what it wrote."""
    done = subprocess.run(
        [_found(command[0], project), *command[1:]],
        cwd=project.directory,
        env=project.environment,
        input=given,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stderr.decode()[-2000:]}"
    return done.stdout.decode()


def _found(program: str, project: Project) -> str:
    """Return a program as the project's PATH has it, and not ours."""
    return shutil.which(program, path=project.environment["PATH"]) or program
