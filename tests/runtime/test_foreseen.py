"""What an agent announces, and what it then asks for: the stricter of both is what is judged."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.test_permissions import answers_in
from tests.support import hostile_agents
from tests.support.sets import EXTENDED, spread
from tests.support.world import World

import upthread

pytestmark = pytest.mark.anyio
PROGRAM = Path(hostile_agents.__file__).parent / "program.py"
AGENT = f"acp:{sys.executable} -I {PROGRAM} acp ses_hostile"
ADDRESS = "spec-42/planner"
PUSHES = ["pushes", "pushes_unseen", "pushes_as_reading", "pushes_elsewhere"]
HIDDEN = [*(f"pushes_hidden {form}" for form in range(1, 6)), "shows_then_pushes", "pushes_again"]


async def told(world: World, act: str, rules: str) -> tuple[Any, Any]:
    world.configure(f"[permissions]\n{rules}\n")
    async with world.open() as project:
        options = upthread.TellOptions(agent=AGENT)
        result = await project.tell(ADDRESS, f"[[hostile: {act}]]", options)
        return result, await project.audit("spec-42")


@pytest.mark.soak
@pytest.mark.parametrize("act", spread([*PUSHES, *HIDDEN], first=["pushes", "pushes_hidden 3"]))
async def test_a_request_that_leaves_out_what_was_announced_is_judged_by_it(world, act):
    rules = 'execute = "deny"\nother = "allow"\nread = "allow"'
    result, audit = await told(world, act, rules)
    assert not (world.project / "pushed").exists(), result.reply
    assert [answer for answer, _ in answers_in(audit)] == ["reject_once"]


@EXTENDED
async def test_what_shows_a_diff_is_an_edit_whatever_it_calls_itself(world: World) -> None:
    result, audit = await told(world, "pushes_hidden 6", 'edit = "deny"\nread = "allow"')
    assert not (world.project / "pushed").exists(), result.reply
    assert answers_in(audit) == [("reject_once", "rule edit=deny")]


@EXTENDED
async def test_an_answer_never_selects_an_option_that_says_two_things(world: World) -> None:
    result, audit = await told(world, "lying_options", 'execute = "deny"')
    assert answers_in(audit) == [("cancelled", "rule execute=deny")]
    assert "yes" not in result.reply


@EXTENDED
async def test_a_rule_never_selects_a_yes_that_holds_for_ever(world: World) -> None:
    result, audit = await told(world, "only_for_ever", 'execute = "allow"')
    assert answers_in(audit) == [("cancelled", "nobody")]
    assert (result.parked.reason, "always" in result.reply) == ("permission", False)
