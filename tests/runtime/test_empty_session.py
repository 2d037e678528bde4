"""A session that never got its first prompt is not resumed: the next turn is a first one."""

import signal
import sys
from typing import Any

import anyio
import pytest
from msgspec import structs
from tests.support.sets import spread
from tests.support.upthread_process import AtCommit
from tests.support.world import ALLOW, SMALL_PIPELINE, SMALL_SPECIFICATION, World

import upthread
from upthread.runtime.turns.delegation import Listener, TurnStarted

pytestmark = pytest.mark.anyio
ADDRESS = "spec-42/planner"
REHEARSAL = upthread.TellOptions(agent="rehearsal")
LOST = "[[rehearse: say lost]]"
ROLE = '<role name="planner">'
TURNS_MAX = 3


def stopped(world: World, *order: Any, event: str, number: int) -> None:
    """Start upthread and stop it once it has committed an event, before the prompt leaves."""
    at = AtCommit(event=event, when="after", signal_number=number)
    code = world.start(*order, at_commit=at).exit_code
    assert code == (130 if number == signal.SIGINT else -number)
    assert world.prompts() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize(
    "event", spread(["PromptSent", "SessionAttached"], name=lambda event: event)
)
async def test_the_turn_after_one_whose_prompt_never_arrived_is_a_first_one(world, number, event):
    stopped(world, "tell", ADDRESS, LOST, event=event, number=number)
    started: list[TurnStarted] = []
    options = upthread.TellOptions(agent="rehearsal", listener=Listener(started=started.append))
    async with world.open() as project:
        why = await project.why(ADDRESS)
        done = await project.tell(ADDRESS, "[[rehearse: say on]]", options)
        role = await project.role(ADDRESS)
        following = await project.tell(ADDRESS, "[[rehearse: say and now]]", REHEARSAL)
    assert (why.now.decision, why.now.reasons[0]) == ("first", "session_empty")
    assert (done.decision, done.reasons[0]) == ("first", "session_empty")
    assert [each.decision for each in started] == ["first"]
    first, second = role.chain
    assert (first.ended_because, second.opened_because) == ("session_empty", "none_yet")
    assert done.upstream_session_id == second.upstream_session_id
    prompt = world.prompts()[0]
    assert ROLE in prompt
    assert f"> {LOST}" in prompt, "what the person said before is told"
    assert (following.decision, following.reasons) == ("resume", ("unchanged",))
    world.check_histories()


async def test_a_fresh_session_that_never_got_its_briefing_gets_it(world: World) -> None:
    async with world.open() as project:
        await project.tell(ADDRESS, "[[rehearse: say one]]", REHEARSAL)
    at = AtCommit(event="PromptSent", when="after", signal_number=signal.SIGINT)
    assert world.start("tell", ADDRESS, f"fresh: {LOST}", at_commit=at).exit_code == 130
    async with world.open() as project:
        done = await project.tell(ADDRESS, "[[rehearse: say on]]", REHEARSAL)
        links = (await project.role(ADDRESS)).chain
    assert (done.decision, done.reasons[0]) == ("first", "session_empty")
    assert [each.opened_because for each in links] == ["none_yet", "asked", "asked"]
    assert "# Briefing" in world.prompts()[-1]
    assert "[prior context" not in world.prompts()[-1]


async def test_an_empty_session_that_replaced_a_lost_one_is_itself_replaced_as_lost(world) -> None:
    """Of a prompt with a secret too little is kept to send it, so the new session stays empty."""
    text = "[[rehearse: say on]] with AKIAQ7RX2JZ5KMWN4TPL"
    async with world.open() as project:
        await project.tell(ADDRESS, "my number is seven", REHEARSAL)
    for file in world.session_files():
        file.unlink()
    stopped_at = AtCommit(event="SessionAttached", when="after", signal_number=signal.SIGKILL)
    assert world.start("tell", ADDRESS, text, at_commit=stopped_at).exit_code == -signal.SIGKILL
    async with world.open() as project:
        assert (await project.go_on(ADDRESS, REHEARSAL)).outcome == "unknown"
        why = await project.why(ADDRESS)
        done = await project.tell(ADDRESS, text, REHEARSAL)
        links = (await project.role(ADDRESS)).chain
    for decided in (why.now, done):
        assert (decided.decision, decided.reasons[0]) == ("resume_with_replay", "missing")
    assert [each.opened_because for each in links] == ["none_yet", "missing", "missing"]
    assert [each.ended_because for each in links] == ["missing", "session_empty", None]
    assert "my number is seven" in world.prompts()[-1]
    assert (world.check_histories(), done.outcome) == (None, "ok")


async def test_an_agent_whose_store_nobody_reads_is_asked_what_its_session_holds(world) -> None:
    options = upthread.TellOptions(agent=f"acp:{sys.executable} -m upthread.agents.rehearsal")
    async with world.open() as project:
        with anyio.CancelScope() as scope:
            given_up = Listener(started=lambda _: scope.cancel())
            cancelled = structs.replace(options, listener=given_up)
            await project.tell(ADDRESS, LOST, cancelled)
        assert scope.cancelled_caught
        assert world.prompts() == []
        done = await project.tell(ADDRESS, "[[rehearse: say on]]", options)
    assert (done.decision, done.reasons[0]) == ("first", "session_empty")
    assert ROLE in world.prompts()[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_a_pipeline_whose_first_prompt_was_stopped_ends(world: World, number: int) -> None:
    world.configure(SMALL_PIPELINE + ALLOW)
    stopped(world, "run", "spec-42", SMALL_SPECIFICATION, event="PromptSent", number=number)
    async with world.open() as project:
        view = await project.run("spec-42", None, upthread.RunOptions(agent="rehearsal"))
        roles = (await project.show("spec-42")).roles
    assert view.status == "approved"
    assert max(each.turns for each in roles) <= TURNS_MAX
