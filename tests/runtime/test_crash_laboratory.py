"""Whole pipelines whose processes are killed at random times come to a good end.

An oracle in another process counts the prompts that agents received, the effects that reached the
world and what a person was told, and judges what the record says by that: nothing acknowledged is
lost, no outcome and no outward effect is doubled, nothing is left open. A seed is a plan:

    python -m pytest "tests/runtime/test_crash_laboratory.py" -k "seed-7-"
"""

from collections.abc import Iterator

import pytest
from tests.support.laboratory.oracle_process import Oracle
from tests.support.laboratory.passage import Passage
from tests.support.laboratory.plan import KILLS, draw
from tests.support.sets import spread
from tests.support.world import World

SEEDS = range(1, 51)
EXTENDED_SEEDS = 1


@pytest.fixture
def oracle(world: World) -> Iterator[Oracle]:
    with Oracle(world.directory / "journal.jsonl") as started:
        yield started


def named(seed: int) -> str:
    return f"seed-{seed}-"


@pytest.mark.parametrize("seed", spread(SEEDS, extended=EXTENDED_SEEDS, name=named))
@pytest.mark.timeout(600)
def test_a_pipeline_killed_at_random_times_ends_with_nothing_lost_and_nothing_doubled(
    world: World, oracle: Oracle, seed: int
) -> None:
    plan = draw(seed)
    ended = Passage(world, oracle, plan).play()
    assert ended.faults == [], (plan, ended.hits)
    assert len(ended.hits) >= KILLS, "the passage was over before its kills were due"
