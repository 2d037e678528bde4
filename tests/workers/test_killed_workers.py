"""Workers that are lost at any time: every run ends, nothing is lost and nothing is done twice."""

import os
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from tests.support.laboratory.command import Command
from tests.support.laboratory.plan import AGENTS
from tests.support.laboratory.sharing import Observer, Passage, Workers, taken_over
from tests.support.sets import EXTENDED, SOAK

pytestmark = pytest.mark.anyio

WORKERS = 3
SLOTS = ("--concurrency", "20")
"""Each worker has as many places as there are pipelines, so that no run waits for a free place."""

PAUSE_S = 1.0
"""How long the storm pauses at most before the next loss."""

SOAK_PLAYS_WITHIN_S = 1500.0

Lose = Callable[[Workers, Observer, Command], Awaitable[None]]


async def killed(workers: Workers, observer: Observer, victim: Command) -> None:
    """Kill a worker and start another in its place."""
    workers.kill(victim)
    lost = observer.held_by(victim.pid)
    workers.start(*SLOTS)
    await taken_over(observer, lost)


async def silenced(workers: Workers, observer: Observer, victim: Command) -> None:
    """Stop a worker, and wake it up when others have its runs."""
    os.kill(victim.pid, signal.SIGSTOP)
    try:
        await taken_over(observer, observer.held_by(victim.pid))
    finally:
        os.kill(victim.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("lose", "passages", "losses"),
    [
        pytest.param(killed, 2, 3, marks=EXTENDED),
        pytest.param(killed, 20, 40, marks=SOAK),
        pytest.param(silenced, 8, 15, marks=SOAK),
    ],
)
@pytest.mark.timeout(1800)
async def test_pipelines_whose_workers_are_lost_end_with_nothing_lost_and_nothing_doubled(
    tmp_path: Path, address: str, observer: Observer, lose: Lose, passages: int, losses: int
) -> None:
    chance = random.Random(passages)
    drawn = chance.choices(tuple(AGENTS), tuple(AGENTS.values()), k=passages)
    made = [
        Passage(tmp_path / f"passage-{number}", address, agent=agent)
        for number, agent in enumerate(drawn)
    ]
    done = 0

    async def rage(workers: Workers) -> None:
        nonlocal done
        while done < losses:
            await anyio.sleep(chance.uniform(0, PAUSE_S))
            busy = [each for each in workers.running if observer.held_by(each.pid)]
            if busy:
                await lose(workers, observer, chance.choice(busy))
                done += 1

    projects = [each.world.project for each in made]
    with Workers(tmp_path, made[0].world.environment, projects) as workers:
        for _ in range(WORKERS):
            workers.start(*SLOTS)
        async with anyio.create_task_group() as losing:
            losing.start_soon(rage, workers)
            async with anyio.create_task_group() as playing:
                for each in made:
                    playing.start_soon(each.play, SOAK_PLAYS_WITHIN_S)
            losing.cancel_scope.cancel()
        workers.check_no_traceback()
    assert done, "no worker was lost while it held a run"
    for each in made:
        faults = "\n".join(each.judged()["faults"])
        assert not faults, f"{each.world.directory}, {each.agent}: {faults}"
        each.close()
