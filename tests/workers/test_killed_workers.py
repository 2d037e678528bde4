"""Workers that are lost at any time: every run ends, nothing is lost and nothing done twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from tests.support.laboratory.command import Command
from tests.support.laboratory.plan import AGENTS
from tests.support.laboratory.sharing import Observer, Passage, Workers, taken_over_after_s
from tests.support.laboratory.summary import percentile, take_overs_as_property

pytestmark = pytest.mark.anyio

WORKERS = 3
SLOTS = ("--concurrency", "20")
"""Any worker has as many places as there are pipelines, also when the others have just begun: to
wait for a free place is no take-over."""

PAUSE_S = 1.0
"""How long the storm pauses at most before the next loss."""

SPARE_PASSAGES = 6
"""Pipelines that begin only when the others are nearly over and losses are still due: a loss that
hits nobody at work proves nothing."""

KILLED_P95_S = 5.0
SILENT_P95_S = 20.0


class Pipelines:
    """What the storm rages over: passages that are played, and the spare ones."""

    def __init__(self, passages: Sequence[Passage], *, spare: Sequence[Passage]) -> None:
        self.played = list(passages)
        self._spare = list(spare)
        self.unfinished = len(passages)

    async def play(self, each: Passage, storm: Storm, *, until_s: float) -> None:
        """Play one; then a spare one where too few are left for the kills that are due."""
        await each.play(until_s=until_s)
        self.unfinished -= 1
        if storm.is_raging and self.unfinished < WORKERS and self._spare:
            another = self._spare.pop()
            self.played.append(another)
            self.unfinished += 1
            await self.play(another, storm, until_s=until_s)


class Storm:
    """Losses of workers that hold a run, one after the other; here each is killed, and replaced."""

    after = "a kill"

    def __init__(self, workers: Workers, observer: Observer, *, seed: int, losses: int) -> None:
        self._workers = workers
        self._observer = observer
        self._chance = random.Random(seed)
        self._due = losses
        self.take_overs_s: list[float] = []
        self.losses = 0

    @property
    def is_raging(self) -> bool:
        return self.losses < self._due

    async def rage(self, pipelines: Pipelines) -> None:
        while self.is_raging:
            assert pipelines.unfinished, f"all runs are over after {self.losses} losses"
            await anyio.sleep(self._chance.uniform(0, PAUSE_S))
            busy = [each for each in self._workers.running if self._observer.held_by(each.pid)]
            if busy:
                self.losses += 1
                await self._lose(self._chance.choice(busy))

    async def _lose(self, victim: Command) -> None:
        self._workers.kill(victim)
        since_s = time.monotonic()
        lost = self._observer.held_by(victim.pid)
        self._workers.start(*SLOTS)
        self.take_overs_s += await taken_over_after_s(self._observer, lost, since_s)

    @property
    def p95_s(self) -> float:
        return percentile(self.take_overs_s, 0.95)


class Silence(Storm):
    """Each falls silent instead, and wakes up when others have its runs."""

    after = "a silent loss"

    async def _lose(self, victim: Command) -> None:
        os.kill(victim.pid, signal.SIGSTOP)
        since_s = time.monotonic()
        lost = self._observer.held_by(victim.pid)
        try:
            self.take_overs_s += await taken_over_after_s(self._observer, lost, since_s)
        finally:
            os.kill(victim.pid, signal.SIGCONT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where a storm rages: a directory, a database, and who looks on."""

    directory: Path
    address: str
    observer: Observer
    record_property: pytest.RecordProperty


@pytest.fixture
def scene(
    tmp_path: Path, address: str, observer: Observer, record_property: pytest.RecordProperty
) -> Scene:
    return Scene(
        directory=tmp_path, address=address, observer=observer, record_property=record_property
    )


async def endured(
    scene: Scene,
    kind: type[Storm],
    *,
    passages: int,
    losses: int,
    within_s: float,
    spare: int = SPARE_PASSAGES,
) -> Storm:
    """Play passages through a storm to their end and have them judged."""
    chance = random.Random(passages)
    drawn = chance.choices(tuple(AGENTS), tuple(AGENTS.values()), k=passages + spare)
    made = [
        Passage(scene.directory / f"passage-{number}", scene.address, agent=agent)
        for number, agent in enumerate(drawn)
    ]
    pipelines = Pipelines(made[:passages], spare=made[passages:])
    projects = [each.world.project for each in made]
    with Workers(scene.directory, made[0].world.environment, projects) as workers:
        for _ in range(WORKERS):
            workers.start(*SLOTS)
        storm = kind(workers, scene.observer, seed=passages, losses=losses)
        until_s = time.monotonic() + within_s
        async with anyio.create_task_group() as tasks:
            for each in made[:passages]:
                tasks.start_soon(lambda each=each: pipelines.play(each, storm, until_s=until_s))
            tasks.start_soon(storm.rage, pipelines)
        workers.check_no_traceback()
    scene.record_property(*take_overs_as_property(storm.after, storm.take_overs_s))
    judge(pipelines.played)
    for each in made:
        each.close()
    assert storm.losses == losses
    return storm


def judge(played: Sequence[Passage]) -> None:
    for each in played:
        faults = each.judged()["faults"]
        told = "\n".join(faults)
        assert faults == [], f"{each.world.directory}, {each.agent}: {told}"


@pytest.mark.timeout(300)
async def test_pipelines_whose_workers_are_killed_end_with_nothing_lost_and_nothing_doubled(
    scene: Scene,
) -> None:
    storm = await endured(scene, Storm, passages=4, losses=10, within_s=200)
    assert storm.p95_s <= KILLED_P95_S, storm.take_overs_s


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_twenty_pipelines_and_sixty_kills(scene: Scene) -> None:
    storm = await endured(scene, Storm, passages=20, spare=30, losses=60, within_s=1500)
    assert storm.p95_s <= KILLED_P95_S, storm.take_overs_s


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_eight_pipelines_and_twenty_workers_that_fall_silent(scene: Scene) -> None:
    # A silence lasts longer than a pipeline takes on a quick machine.
    storm = await endured(scene, Silence, passages=8, spare=30, losses=20, within_s=1500)
    assert storm.p95_s <= SILENT_P95_S, storm.take_overs_s
