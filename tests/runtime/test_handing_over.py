"""What a session is told that takes another's place: valid text, and any damage to the record."""

import pytest
from tests.support.sets import EXTENDED
from tests.support.world import World

import upthread

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")


async def replayed(world: World, first: str) -> str:
    """The context of a second turn whose session is lost, after a first one as given."""
    async with world.open() as project:
        await project.tell("spec-42/planner", first, REHEARSAL)
        lost = "[[rehearse: if_resumed lose_session]] [[rehearse: say here]]"
        result = await project.tell("spec-42/planner", lost, REHEARSAL)
    assert (result.outcome, result.decision) == ("ok", "resume_with_replay")
    return world.messages("spec-42/planner")[-2].sent_text


@EXTENDED
async def test_half_of_a_character_is_replayed_as_valid_text_and_the_session_is_told(world):
    told = await replayed(world, "[[rehearse: surrogate]]")
    assert told.encode()
    assert "half a pair \ufffd" in told
    assert "half of a character is shown as U+FFFD" in told
    kept = world.messages("spec-42/planner")[1].text
    assert "half a pair \ud83d" in kept, "the record keeps what was said"
