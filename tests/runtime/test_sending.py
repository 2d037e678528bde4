"""What is on record while a prompt runs, and what is left of it when nobody lives to end it."""

import apsw
import pytest
from tests.support.world import World, eventually

pytestmark = pytest.mark.anyio
ADDRESS = "spec-42/planner"


@pytest.mark.soak
async def test_what_an_agent_says_is_on_record_while_it_still_works(world: World) -> None:
    """Nothing but time makes it be written: the turn has no end, no call and no second message."""
    # The last word may go on, into a secret: it is kept back.
    victim = world.start("tell", ADDRESS, "[[rehearse: say so far and on]] [[rehearse: hang]]")

    def said() -> bool:
        try:
            return any("so far" in message.text for message in world.messages(ADDRESS)[1:])
        except (StopIteration, apsw.Error):  # it is not there yet
            return False

    eventually(said)
    victim.kill()
    assert said()
