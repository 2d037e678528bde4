"""One upstream session has one conversation, whatever an agent says."""

import sys
from typing import Any

import pytest
from tests.support.hostile_agents import PROGRAM
from tests.support.sets import EXTENDED
from tests.support.world import World

import upthread
from upthread.errors import UsageError

pytestmark = pytest.mark.anyio
HOLDER = "spec-42/planner"
OTHER = "spec-42/constructor"


def agent(new_id: str) -> str:
    return f"acp:{sys.executable} -I {PROGRAM} acp {new_id}"


async def told(world: World, address: str, text: str, new_id: str) -> Any:
    async with world.open() as project:
        return await project.tell(address, text, upthread.TellOptions(agent=agent(new_id)))


@pytest.fixture
async def held(world: World) -> World:
    """A world in which the planner holds `ses_held`."""
    result = await told(world, HOLDER, "hello", "ses_held")
    assert result.outcome == "ok"
    return world


async def test_an_agent_that_answers_with_anothers_session_is_not_believed(held: World) -> None:
    result = await told(held, OTHER, "hello", "ses_held")
    assert result.outcome == "unknown"
    assert "named 'ses_held' as a new session" in result.detail
    assert f"and {HOLDER} holds that session" in result.detail
    assert result.upstream_session_id is None
    assert (await told(held, HOLDER, "hello", "ses_held")).outcome == "ok"
    assert (await told(held, OTHER, "hello", "ses_other")).outcome == "ok"
    held.check_histories()


async def test_a_session_of_anothers_is_no_sub_agent(held: World) -> None:
    result = await told(held, OTHER, "[[hostile: claims]]", "ses_other")
    assert "named 'ses_held' as a sub-agent's" in result.parked.detail
    assert {each.key.address for each in held.conversations()} == {HOLDER, OTHER}
    assert held.messages(OTHER)[-1].text == "before "
    assert (await told(held, OTHER, "[[sound]]", "ses_other")).outcome == "ok"
    held.check_histories()


@EXTENDED
async def test_words_stamped_with_anothers_session_reach_neither(held: World) -> None:
    before = held.messages(HOLDER)
    result = await told(held, OTHER, "[[hostile: stamps]]", "ses_other")
    assert (result.outcome, result.reply) == ("ok", "own words")
    assert held.messages(HOLDER) == before


@EXTENDED
async def test_a_held_session_is_not_adopted_and_its_holder_is_named(held: World) -> None:
    async with held.open() as project:
        with pytest.raises(UsageError, match=f"belongs to {HOLDER}"):
            await project.adopt(OTHER, "ses_held", agent=agent("ses_held"))
