"""The long versions: a whole pipeline killed at every commit, a thousand rounds of a race."""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

import pytest
from tests.runtime.test_freshness import interleave
from tests.support.races import check_one_session_each, hold
from tests.support.upthread_process import AtCommit, race_for_addresses
from tests.support.world import World

import upthread

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.soak,
    pytest.mark.timeout(3600),
]
RUN = upthread.RunOptions(agent="rehearsal")
RUNS_MAX = 60
COMMITS_MAX = 100


async def answer_and_run_on(world: World, specification: str | None = None) -> Any:
    """Run again as a person would, answering what is asked, until the run is approved."""
    async with world.open() as project:
        for _ in range(RUNS_MAX):
            view = await project.run("spec-42", specification, RUN)
            for question in view.open_questions:
                await project.answer("spec-42", "Hello", question_id=question.question_id)
            if view.ended is not None:
                return view
    raise AssertionError("the run does not come to an end")


def check_all_was_done_once(world: World) -> None:
    written = Counter(each["path"] for each in world.log("write"))
    # The constructor mends nothing it has done; `greet.py` gets two requirements, one write each.
    assert max(written.values()) <= 2
    asked = [each["question"] for each in world.log("question")]
    assert len(asked) <= 2 * 2
    by_session: dict[str, list[str]] = {}
    for each in world.log("prompt"):
        by_session.setdefault(each["session_id"], []).append(each["text"])
    for prompts in by_session.values():
        assert len(prompts) == len(set(prompts)), "a prompt was sent twice"
    world.check_histories()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_whole_pipeline_killed_at_any_commit_is_approved(tmp_path, when):
    for number in range(1, COMMITS_MAX):
        world = World(tmp_path / f"{when}-{number}")
        specification = world.take_example()
        victim = world.start("run", "spec-42", specification)
        assert victim.exit_code == 0
        async with world.open() as project:
            for question in (await project.show("spec-42")).open_questions:
                await project.answer("spec-42", "Hello", question_id=question.question_id)
        second = world.start("run", "spec-42", None, at_commit=AtCommit(number=number, when=when))
        was_killed = second.exit_code == -signal.SIGKILL
        if was_killed and not await has_ended(world):
            assert (await answer_and_run_on(world)).status == "approved", number
        check_all_was_done_once(world)
        world.close()
        if not was_killed:
            return
    raise AssertionError("the run never got to its end")


async def has_ended(world: World) -> bool:
    async with world.open() as project:
        known = {each.workstream.workstream: each for each in await project.workstreams()}
        run = known["spec-42"].run if "spec-42" in known else None
        return run is not None and run.ended is not None


async def test_sixteen_processes_at_one_address_make_one_session_each_of_1000_rounds(world):
    hold(world, race_for_addresses, rounds=1000)
    check_one_session_each(world, conversations=1000)


async def test_a_thousand_turns_on_two_workstreams_never_mix_their_texts(world: World) -> None:
    await interleave(world, turns=1_000, seed=4_200)
