"""What an agent reads before our words is in both prices: as it was seen, else near, else said."""

from typing import Any

import pytest
from tests.support.sets import EXTENDED
from tests.support.world import World

import upthread
from upthread.core.decision.words import Tokens
from upthread.errors import RefusedError
from upthread.runtime.turns.delegation import Listener

pytestmark = pytest.mark.anyio

OPTIONS = upthread.TellOptions(agent="rehearsal")


async def price(project: upthread.Project, address: str) -> Any:
    return (await project.why(address)).now.inputs["price"]


async def test_what_a_first_session_held_stays_the_agents_own_part_while_it_grows(world):
    async with world.open() as project:
        await project.tell("a/planner", "[[rehearse: usage 20000 200000]]", OPTIONS)
        await project.tell("a/planner", "[[rehearse: usage 90000 200000]]", OPTIONS)
        found = await price(project, "a/planner")
    assert 19_000 < found["fixed"]["count"] < 20_000
    assert found["fixed"]["is_estimate"]
    assert found["resume"]["count"] == 90_000
    assert found["fixed"]["count"] < found["briefing"]["count"] < 22_000


async def test_what_a_session_holds_is_known_after_attempts_that_failed_and_told_nothing(world):
    said = "[[rehearse: usage 90000 100000]] [[rehearse: fail overloaded]]"
    async with world.open() as project:
        await project.tell("a/planner", "[[rehearse: usage 60000 100000]]", OPTIONS)
        failed = await project.tell("a/planner", "[[rehearse: fail no such model]]", OPTIONS)
        held = await price(project, "a/planner")
        retried = await project.tell("a/planner", said, OPTIONS)
        now = (await project.why("a/planner")).now
    assert (failed.outcome, retried.outcome) == ("unknown", "ok")
    # What it was asked in vain is in it.
    assert held["resume"]["is_estimate"]
    assert 60_000 < held["resume"]["count"] < 60_200
    assert now.reasons == ("nearly_full",)


@pytest.mark.parametrize("told", ["", "[[rehearse: usage 30000 200000]]"])
@pytest.mark.parametrize("is_fresh", [False, True])
async def test_what_a_turn_said_before_it_was_cut_is_in_the_price_of_its_session(
    world, told, is_fresh
):
    said = f"{told} [[rehearse: big 200000]] [[rehearse: rate_limit 3600]]"
    cut = upthread.TellOptions(agent="rehearsal", is_fresh=is_fresh)
    async with world.open() as project:
        await project.tell("a/planner", "[[rehearse: usage 20000 200000]]", OPTIONS)
        for times in (1, 2):
            await project.tell("a/planner", said, cut)
            found = await price(project, "a/planner")
            most = 20_000 + 50_000 * (1 if is_fresh else times)
            assert most - 1_000 < found["resume"]["count"] < most + 2_000
            assert found["resume"]["is_estimate"]
        assert found["briefing"]["count"] < 25_000


async def test_the_line_of_a_turn_that_is_gone_on_with_tells_what_its_session_holds_by_now(world):
    said = "[[rehearse: usage 60000 200000]] [[rehearse: rate_limit 0]]"
    async with world.open() as project:
        await project.tell("a/planner", "[[rehearse: usage 20000 200000]]", OPTIONS)
        parked = await project.tell("a/planner", said, OPTIONS)
        told: list[Any] = []
        on = upthread.TellOptions(agent="rehearsal", listener=Listener(started=told.append))
        await project.go_on("a/planner", on)
    assert parked.parked is not None
    assert [each.price.resume.count in range(60_000, 60_300) for each in told] == [True], told


@pytest.mark.parametrize("is_fresh", [False, True])
@pytest.mark.parametrize("end", ["crash", "rate_limit 3600", "fail no such model"])
async def test_a_turn_that_was_cut_takes_the_agents_own_part_from_no_price(world, end, is_fresh):
    cut = upthread.TellOptions(agent="rehearsal", is_fresh=is_fresh)
    limited = upthread.TellOptions(agent="rehearsal", tokens_max=19_000)
    async with world.open() as project:
        await project.tell("a/planner", "[[rehearse: usage 20000 200000]]", OPTIONS)
        await project.tell("a/planner", f"[[rehearse: {end}]]", cut)
        found = await price(project, "a/planner")
        with pytest.raises(RefusedError, match="the next request would take ~20k or more"):
            await project.tell("b/planner", "Look.", limited)
    told = [found[name]["count"] for name in ("fixed", "resume", "briefing")]
    assert all(19_000 < each < 21_000 for each in told), found


@EXTENDED
async def test_a_new_workstream_knows_it_from_another_and_is_refused_what_it_cannot_afford(world):
    limited = upthread.TellOptions(agent="rehearsal", tokens_max=19_000)
    async with world.open() as project:
        await project.tell("a/planner", "[[rehearse: usage 20000 200000]]", OPTIONS)
        with pytest.raises(RefusedError, match="the next request would take ~20k or more"):
            await project.tell("b/auditor", "Look.", limited)
    assert len(world.prompts()) == 1


@EXTENDED
async def test_nobody_is_refused_for_what_nobody_knows(world: World) -> None:
    limited = upthread.TellOptions(agent="rehearsal", tokens_max=19_000)
    async with world.open() as project:
        await project.tell("a/planner", "[[rehearse: tokens 900 100]]", OPTIONS)
        found = await price(project, "a/planner")
        told = await project.tell("b/auditor", "[[rehearse: tokens 900 100]]", limited)
    assert "fixed" not in found or found["fixed"] is None
    assert told.spent == Tokens(count=1_000, is_estimate=False)
