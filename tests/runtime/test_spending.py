"""`tokens_max`: no turn begins that would pass it, and what was spent is counted over processes."""

import pytest
from tests.support.sets import EXTENDED
from tests.support.world import ALLOW, SMALL_SPECIFICATION, World

import upthread
from upthread.core.decision.words import Tokens
from upthread.errors import RefusedError

pytestmark = pytest.mark.anyio

THREE_STEPS = ALLOW + "".join(
    f'[[pipeline.steps]]\nrole = "{role}"\ntask = "[[rehearse: tokens {tokens}]] '
    f'[[rehearse: say ```upthread\\n{{\\"status\\": \\"done\\"}}\\n```]]"\n'
    for role, tokens in (("clarifier", "900 100"), ("planner", "2000 500"), ("auditor", "10 1"))
)


def run(tokens_max: int | None) -> upthread.RunOptions:
    return upthread.RunOptions(agent="rehearsal", tokens_max=tokens_max)


def telling(tokens_max: int | None) -> upthread.TellOptions:
    return upthread.TellOptions(agent="rehearsal", tokens_max=tokens_max)


def counted(count: int) -> Tokens:
    return Tokens(count=count, is_estimate=False)


async def test_a_run_parks_before_the_turn_that_would_pass_and_says_how_much(world):
    world.configure(THREE_STEPS)
    async with world.open() as project:
        view = await project.run("spec-42", SMALL_SPECIFICATION, run(3000))
        assert (view.parked.reason, view.parked.role) == ("tokens_max", "auditor")
        assert view.parked.detail == "4k of at most 3000 tokens are used"
        assert await project.spent_on_run("spec-42") == counted(3500)
    assert len(world.prompts()) == 2


@EXTENDED
async def test_another_process_counts_what_the_run_has_spent_and_goes_on_when_more_is_allowed(
    world: World,
) -> None:
    world.configure(THREE_STEPS)
    async with world.open() as project:
        await project.run("spec-42", SMALL_SPECIFICATION, run(1000))
    assert len(world.prompts()) == 1
    async with world.open() as project:
        again = await project.run("spec-42", None, run(1000))
        assert again.parked.reason == "tokens_max"
    assert len(world.prompts()) == 1
    async with world.open() as project:
        assert (await project.run("spec-42", None, run(100_000))).status == "done"
        assert await project.spent_on_run("spec-42") == counted(3511)


@EXTENDED
async def test_a_prompt_that_would_pass_is_refused_before_anything_is_sent_and_kept(world):
    async with world.open() as project:
        first = await project.tell("a/planner", "[[rehearse: tokens 900 100]]", telling(2000))
        assert first.spent == counted(1000)
        await project.tell("a/planner", "[[rehearse: tokens 1400 100]]", telling(2000))
        with pytest.raises(RefusedError, match="2k of at most 2000 tokens") as caught:
            await project.tell("a/planner", "more", telling(2000))
        refusals = project.store.refusals(first.conversation.conversation_id)
        assert await project.spent(first.conversation) == counted(2500)
        assert (await project.tell("a/planner", "more", telling(None))).outcome == "ok"
    assert caught.value.reasons[0] == "tokens_max"
    assert "--tokens-max" in caught.value.hint
    assert [each.reasons[0] for each in refusals] == ["tokens_max"]
