"""Sharing: many pipelines in one PostgreSQL, carried out by workers that are killed.

A person each leaves a run to the workers, answers what is asked and says go on; an oracle each
judges what came of it, by what the agents and the world saw. Nobody carries a step out but workers.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

import anyio
import psycopg
from tests.support.laboratory.command import Command, Invocation, Json
from tests.support.laboratory.oracle_process import Oracle
from tests.support.laboratory.passage import ANSWERS, PACE_MS, STEPS, WORKSTREAM, take_release
from tests.support.laboratory.plan import NO_LOAD
from tests.support.trusting import agree
from tests.support.world import World

import upthread
from upthread.core.runs.pipeline import RunView
from upthread.core.turns.effects import Settlement
from upthread.errors import LeaseHeldError
from upthread.runtime.lease import LeaseTimes

LOOKS_EVERY_S = 0.2
"""How often a person reads the status. Twenty who read it more often are half of the load."""

LEASE_TIMES = LeaseTimes(heartbeat_s=0.2, stale_after_s=1.5)
"""Shorter than the usual ones, so that no test waits for a silent worker to become stale."""

LEASE_LOOKS_EVERY_S = 0.05
TRIES_AGAIN_S = 0.1
PLAYS_WITHIN_S = 150.0
TAKEN_OVER_WITHIN_S = 60.0

HOLDERS = """
SELECT convert_from(name, 'UTF8'), (convert_from(holder, 'UTF8')::json ->> 'pid')::integer, token
FROM upthread.lease WHERE holder IS NOT NULL AND convert_from(name, 'UTF8') LIKE 'workstream %'
"""

UNDER_WAY = """
SELECT concat_ws(' ', 'workstream', convert_from(project, 'UTF8'),
    convert_from(state, 'UTF8')::json ->> 'workstream')
FROM upthread.head WHERE due_at_ms IS NOT NULL
"""


class Passage:
    """One pipeline, in a project of its own, with an oracle of its own."""

    def __init__(self, directory: Path, address: str, *, agent: str = "") -> None:
        directory.mkdir(parents=True)
        self.agent = agent
        self.oracle = Oracle(directory / "journal.jsonl")
        self.world = World(directory, content=str(directory))
        self.world.environment["UPTHREAD_DB"] = address
        self.specification = take_release(self.world, self.oracle).read_text()
        # What the agent is told stands with the project: workers serve many of them.
        settings = {
            "UPTHREAD_REHEARSAL_LOG": self.oracle.journal,
            "UPTHREAD_REHEARSAL_HOME": self.world.sessions,
            "UPTHREAD_REHEARSAL_PACE_MS": PACE_MS,
            "UPTHREAD_REHEARSAL_CAPABILITIES": agent,
        }
        lines = "".join(f'{name} = "{value}"\n' for name, value in settings.items())
        with (self.world.project / "upthread.toml").open("a") as file:
            file.write(f"[agents.rehearsal.environment]\n{lines}")
        agree(self.world.project, Path(self.world.environment["UPTHREAD_HOME"]))

    async def play(self, within_s: float = PLAYS_WITHIN_S) -> None:
        """Be the person until the run is approved. TimeoutError when it is not in time."""
        with anyio.fail_after(within_s):
            await self._play()

    async def _play(self) -> None:
        async with upthread.open_project(
            self.world.project, environment=self.world.environment
        ) as project:
            view = await leave(project, self.specification)
            while view.ended is None:
                await anyio.sleep(LOOKS_EVERY_S)
                view = (await project.show(WORKSTREAM)).run
                for question in view.open_questions:
                    text = ANSWERS[question.question_id]
                    await project.answer(WORKSTREAM, text, question_id=question.question_id)
                    given = {"question_id": question.question_id, "text": text}
                    self.oracle.acknowledge("answer", given)
                if view.parked is not None:
                    for held in await project.effects_held(WORKSTREAM):
                        await project.settle_effect(WORKSTREAM, Settlement.AGAIN, held.effect_id)
                    self.oracle.note_go_on()
                    await leave(project, None)
            assert view.status == "approved"

    def judged(self, *, has_moved: bool = False) -> Json:
        """Return the faults and the figures; `has_moved` when a host was lost with its sessions."""
        (audit,) = self._upthread("audit")
        (shown,) = self._upthread("show")
        is_repeated = self.agent == NO_LOAD
        steps = () if has_moved else STEPS
        return self.oracle.judge(audit=audit, show=shown, steps=steps, may_repeat=is_repeated)

    def _upthread(self, verb: str) -> list[Json]:
        invocation = Invocation(
            words=(verb, WORKSTREAM, "--json"),
            directory=str(self.world.project),
            environment=self.world.environment,
            output=str(self.world.directory / verb),
        )
        return Command(invocation).lines_at_end

    def close(self) -> None:
        self.oracle.__exit__()
        self.world.close()


async def leave(project: upthread.Project, specification: str | None) -> RunView:
    """Leave a run to the workers; again while one of them still holds it."""
    options = upthread.RunOptions(agent="rehearsal" if specification else None, steps_max=0)
    while True:
        try:
            return await project.run(WORKSTREAM, specification, options)
        except LeaseHeldError:
            await anyio.sleep(TRIES_AGAIN_S)


class Workers:
    """Worker processes over the projects of some passages, or of any directories."""

    def __init__(
        self, directory: Path, environment: dict[str, str], projects: Sequence[Path]
    ) -> None:
        self._directory = directory
        # What else a rehearsal is told, it is told by its project's own configuration.
        self._environment = {
            name: value
            for name, value in environment.items()
            if not name.startswith("UPTHREAD_REHEARSAL") or name == "UPTHREAD_REHEARSAL_HOME"
        }
        self._projects = projects
        for project in projects:  # whoever starts workers has agreed to what they work on
            agree(project, Path(environment["UPTHREAD_HOME"]))
        self._numbers = count(1)
        self.running: list[Command] = []
        self.ended: list[Command] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for command in (*self.running, *self.ended):
            command.close()

    def start(self, *words: str, **environment: str) -> Command:
        invocation = Invocation(
            words=("worker", *map(str, self._projects), "--agent", "rehearsal", "--json", *words),
            directory=str(self._projects[0]),
            environment={**self._environment, **environment},
            output=str(self._directory / f"worker-{next(self._numbers)}"),
            lease_times=LEASE_TIMES,
        )
        command = Command(invocation)
        self.running.append(command)
        return command

    def kill(self, command: Command) -> None:
        """Kill one, and only it: its agents may live on."""
        os.kill(command.pid, signal.SIGKILL)
        assert command.was_killed
        self.running.remove(command)
        self.ended.append(command)

    def told(self, what: str) -> list[Json]:
        """What all workers have told of one kind, of each in order."""
        return [
            line
            for command in (*self.running, *self.ended)
            for line in command.lines
            if line.get("type") == what
        ]

    def check_no_traceback(self) -> None:
        for command in (*self.running, *self.ended):
            assert "Traceback" not in command.stderr, command.stderr


class Observer:
    """Sees who holds which run, from outside."""

    def __init__(self, address: str) -> None:
        self._connection = psycopg.connect(address, autocommit=True)

    def close(self) -> None:
        self._connection.close()

    def holders(self) -> dict[str, tuple[int, int]]:
        """Return the pid and token that hold each run now, by the lease's name."""
        return {name: (pid, token) for name, pid, token in self._connection.execute(HOLDERS)}

    def held_by(self, pid: int) -> dict[str, int]:
        return {name: token for name, (held, token) in self.holders().items() if held == pid}

    def under_way(self) -> set[str]:
        """Return the leases of runs that have something to do now."""
        return {name for (name,) in self._connection.execute(UNDER_WAY)}

    def execute(self, statement: str) -> None:
        self._connection.execute(statement.encode())

    def row(self, statement: str) -> tuple[Any, ...]:
        found = self._connection.execute(statement.encode()).fetchone()
        assert found is not None
        return found

    def one(self, statement: str) -> Any:
        return self.row(statement)[0]


async def until(look: Callable[[], object], *, within_s: float = 30.0) -> None:
    """Return when what is looked at is true. AssertionError when it is not in time."""
    until_s = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < until_s, "it did not come to pass"
        await anyio.sleep(0.02)


async def taken_over(observer: Observer, lost: dict[str, int]) -> int:
    """Wait until another worker holds each lost run that is under way; return how many there were.

    `lost` are the tokens of the lost worker, by the lease's name.
    """
    missing, count = dict(lost), 0
    with anyio.fail_after(TAKEN_OVER_WITHIN_S):
        while missing:
            seen, due = observer.holders(), observer.under_way()
            for name, token in list(missing.items()):
                if name not in due:
                    del missing[name]
                elif seen.get(name, (0, token))[1] != token:
                    del missing[name]
                    count += 1
            await anyio.sleep(LEASE_LOOKS_EVERY_S)
    return count
