"""Which session a prompt goes to, and that the person is always told when it is a new one."""

import signal
from typing import Any

import pytest
from tests.support.sets import EXTENDED, spread
from tests.support.upthread_process import AtCommit
from tests.support.world import ALLOW, World, eventually

import upthread
from upthread.core.turns.turn import EFFECTS_DONE_HEADING
from upthread.integrations.durable_tell import NotToldError, Told, tell_once

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")
SAY = "[[rehearse: say noted]]"
CAPABILITIES = "UPTHREAD_REHEARSAL_CAPABILITIES"


async def tell(
    world: World, text: str = SAY, *, address: str = "spec-42/planner", can: str = "", **more: Any
) -> Any:
    async with world.open(environment={CAPABILITIES: can}) as project:
        options = upthread.TellOptions(agent=more.pop("agent", "rehearsal"), **more)
        return await project.tell(address, text, options)


async def chain(world: World, address: str = "spec-42/planner") -> Any:
    async with world.open() as project:
        return (await project.role(address)).chain


def last_prompt(world: World) -> str:
    return world.prompts()[-1]


@pytest.mark.soak
@pytest.mark.parametrize(
    "can", spread(["no_resume,opaque_errors", "", "opaque_errors", "no_resume"])
)
async def test_a_missing_session_is_told_and_rolled_over_with_what_was_said(world, can):
    first = await tell(world, "Remember the colour is blue. " + SAY)
    for file in world.session_files():
        file.unlink()
    async with world.open() as project:
        hint = (await project.why("spec-42/planner")).now.hint
    assert hint.startswith("rehearsal may have lost the session")
    second = await tell(world, can=can)
    assert (second.decision, second.reasons[0]) == ("resume_with_replay", "missing")
    assert second.outcome == "ok"
    assert last_prompt(world).count("[end of prior context ") == 1
    assert "The user said:\n> Remember the colour is blue." in last_prompt(world)
    assert '<role name="planner">' in last_prompt(world)
    old, new = await chain(world)
    assert old.upstream_session_id == first.upstream_session_id
    assert old.ended_because == "missing"
    assert new.upstream_session_id == second.upstream_session_id
    assert (new.opened_because, new.ended_because) == ("missing", None)
    assert (await tell(world)).upstream_session_id == second.upstream_session_id


async def test_a_step_that_was_killed_goes_to_a_new_session_if_its_own_is_refused_again(world):
    await tell(world, "Remember the colour is blue. " + SAY)

    async def step(**environment: str) -> Told:
        async with world.open(environment=environment) as project:
            return await tell_once(project, "step-1", "spec-42/planner", SAY, REHEARSAL)

    with pytest.raises(NotToldError, match="interrupted"):
        await step(UPTHREAD_REHEARSAL_ALWAYS="[[rehearse: crash]]")
    for file in world.session_files():
        file.unlink()
    refuses = {CAPABILITIES: "opaque_errors,no_list"}
    with pytest.raises(NotToldError, match="interrupted") as caught:
        await step(**refuses)
    assert caught.value.is_retried
    told = await step(**refuses)
    assert (told["decision"], told["reasons"][0]) == ("resume_with_replay", "refused")
    assert "The user said:\n> Remember the colour is blue." in last_prompt(world)


@EXTENDED
async def test_an_opaque_error_of_an_agent_that_cannot_list_is_no_proof_of_a_missing_session(world):
    await tell(world)
    for file in world.session_files():
        file.unlink()
    second = await tell(world, can="opaque_errors,no_list")
    assert second.outcome == "unknown"
    assert len(await chain(world)) == 1
    assert world.session_files() == []


@EXTENDED
async def test_a_session_lost_under_a_running_prompt_is_sent_once_more_to_a_new_one(world):
    first = await tell(world)
    effect = "[[rehearse: write once.txt done]] [[rehearse: if_resumed lose_session]]"
    world.configure(ALLOW)
    async with world.open() as project:
        second = await project.tell("spec-42/planner", effect, REHEARSAL)
    assert second.outcome == "ok"
    assert (second.decision, second.reasons[0]) == ("resume_with_replay", "missing")
    assert second.upstream_session_id != first.upstream_session_id
    assert f"{EFFECTS_DONE_HEADING}\n- Write once.txt: done" in last_prompt(world)
    assert [each.ended_because for each in await chain(world)] == ["missing", None]
    assert len(world.prompts()) == 3
    world.check_histories()


@EXTENDED
async def test_an_agent_that_can_only_load_is_loaded_and_its_replay_is_not_stored_again(world):
    await tell(world, can="no_resume")
    before = len(world.messages("spec-42/planner"))
    second = await tell(world, can="no_resume")
    assert second.decision == "resume"
    assert len(world.log("session_load")) == 1
    assert len(world.messages("spec-42/planner")) == before + 2
    assert second.reply == "noted"


async def test_an_agent_that_can_neither_load_nor_resume_goes_on_in_new_sessions_and_says_so(
    world: World,
) -> None:
    await tell(world, can="no_resume,no_load")
    for number in (2, 3):
        again = await tell(world, can="no_resume,no_load")
        assert (again.outcome, again.decision) == ("ok", "resume_with_replay")
        assert again.reasons[0] == "cannot_resume"
        assert "[prior context" in world.prompts()[-1]
        assert len(await chain(world)) == len(world.session_files()) == number


@pytest.mark.soak
async def test_the_auditor_is_resumed_only_on_the_same_plan(world: World) -> None:
    specification = world.take_example()
    options = upthread.RunOptions(agent="rehearsal")
    async with world.open() as project:
        view = await project.run("spec-42", specification, options)
        for question in view.open_questions:
            view = await project.answer("spec-42", "Hello", question_id=question.question_id)
        assert (await project.run("spec-42", None, options)).status == "approved"
        links = (await project.role("spec-42/auditor")).chain
        assert [each.opened_because for each in links] == ["none_yet", "input_changed"]
        again = await project.tell("spec-42/auditor", SAY, REHEARSAL)
    assert again.decision == "resume"
    assert again.upstream_session_id == links[-1].upstream_session_id


async def test_a_session_that_was_made_and_never_prompted_is_still_told_who_it_is(world):
    """Its role's instructions are in the first prompt it gets, whichever turn that is."""
    at = AtCommit(number=5, when="after")
    victim = world.start("tell", "spec-42/planner", SAY, at_commit=at)
    assert victim.exit_code == -signal.SIGKILL
    assert len(world.session_files()) == 1
    assert world.prompts() == []
    second = await tell(world)
    assert len(world.session_files()) == 2
    assert second.reasons[0] == "session_empty"
    assert '<role name="planner">' in last_prompt(world)
    third = await tell(world)
    assert third.decision == "resume"
    assert "<role" not in last_prompt(world)


@pytest.mark.soak
async def test_a_new_prompt_closes_the_calls_that_a_crash_left_open(world: World) -> None:
    world.configure(ALLOW)
    slow = "[[rehearse: execute sleep 30]]"
    victim = world.start("tell", "spec-42/planner", slow)
    eventually(lambda: any(p.parts for p in _tools(world)))
    victim.kill()
    await tell(world)
    parts = [part for message in world.messages("spec-42/planner") for part in message.parts]
    (result,) = [part for part in parts if type(part).__name__ == "ToolResultPart"]
    assert (result.status, result.text) == ("unknown", "interrupted; outcome unknown")  # type: ignore[union-attr]
    world.check_histories()


def _tools(world: World) -> list[Any]:
    try:
        messages = world.messages("spec-42/planner")
    except StopIteration:
        return []
    return [m for m in messages if any(type(p).__name__ == "ToolCallPart" for p in m.parts)]
