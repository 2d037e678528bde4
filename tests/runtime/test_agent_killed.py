"""A conversation whose agent is killed at work: in a model call, in a tool, in a sub-agent.

Whoever is killed, the agent alone, upthread alone or both: one continuation in the same session
takes the turn on, says what is known of the actions, and the conversation has all that was said.
Where upthread lives, it sends the continuation by itself.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from tests.support.sets import EXTENDED, spread
from tests.support.world import ALLOW, World, eventually

import upthread
from upthread.core.types import ToolResultPart

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")
ADDRESS = "spec-42/translator"
TRANSLATOR = '[roles.translator]\ncontinuity = "resume"\n'
"""A role the rehearsal does not play: it tells what it remembers."""

VICTIMS = ("both", "agent", "upthread")

IN_MODEL_CALL = "[[rehearse: think about it]] [[rehearse: hang]]"
IN_TOOL = "[[rehearse: execute sh -c 'echo done >> effects; sleep 60']]"
IN_SUB_AGENT = "[[rehearse: child_hang explorer look\n\naround]]"


def kill(world: World, text: str, is_time: Callable[[], Any], *, victim: str) -> None:
    """Tell the role something and kill somebody when it is time."""
    telling = world.start("tell", ADDRESS, text)
    eventually(is_time)
    if victim != "upthread":
        pids = set(world.agents()) - {telling.pid}
        # Stopped first: an agent whose tool is killed a moment earlier would still tell of it.
        for number, pid in product((signal.SIGSTOP, signal.SIGKILL), pids):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    if victim != "agent":
        telling.kill()
        return
    assert telling.result["outcome"] == "ok"


async def converse(world: World, text: str, is_time: Callable[[], Any], *, victim: str) -> str:
    """Say something, say `text` and kill somebody, go on, say something more.

    Returns the continuation that was sent.
    """
    world.configure(ALLOW + TRANSLATOR)
    async with world.open() as project:
        await project.tell(ADDRESS, "my number is seven", REHEARSAL)
    kill(world, text, is_time, victim=victim)
    async with world.open() as project:
        if victim != "agent":
            assert (await project.go_on(ADDRESS, REHEARSAL)).outcome == "ok"
        last = await project.tell(ADDRESS, "which number?", REHEARSAL)
        assert [each.ended_because for each in (await project.role(ADDRESS)).chain] == [None]
    assert last.decision == "resume"
    assert "I remember 3 earlier prompts" in last.reply
    assert "my number is seven" in last.reply
    original, continuation = world.prompts()[1:3]
    assert original == text
    assert len(world.prompts()) == 4
    assert world.agents() == ()
    world.check_histories()
    return continuation


@pytest.mark.soak
@pytest.mark.parametrize("victim", VICTIMS)
async def test_killed_in_a_model_call_the_conversation_goes_on_with_one_continuation(world, victim):
    def is_time() -> bool:
        return any("about it" in file.read_text() for file in world.session_files())

    continuation = await converse(world, IN_MODEL_CALL, is_time, victim=victim)
    assert f"> {IN_MODEL_CALL}" in continuation
    assert "These actions" not in continuation
    assert "changed" not in continuation


async def test_what_has_changed_after_the_kill_is_told_with_the_continuation(world: World) -> None:
    """A clean checkout comes before the next attempt; a deploy brings another specification."""
    spec, made = world.project / "spec.md", world.project / "step.txt"
    spec.write_text("old")
    world.configure(f'{ALLOW}{TRANSLATOR}instructions = "Speak French."')
    text = "[[rehearse: read spec.md]] [[rehearse: write step.txt hello]] [[rehearse: hang]]"

    def is_time() -> bool:
        with world.store() as store:
            known = [
                each.path
                for c in world.conversations()
                for each in store.examined(c.conversation_id)
            ]
        return made.exists() and "step.txt" in known

    kill(world, text, is_time, victim="both")
    made.unlink()
    spec.write_text("another")
    world.configure(f'{ALLOW}{TRANSLATOR}instructions = "Speak English."')
    async with world.open() as project:
        await project.go_on(ADDRESS, REHEARSAL)
    original, continuation = world.prompts()
    assert original.endswith(text)
    assert f"> {text}" in continuation
    assert "From now on these hold:\n\n" in continuation
    assert "Speak English." in continuation
    assert "# What has changed since your last turn\n" in continuation
    assert "- `step.txt`: deleted" in continuation
    assert "- `spec.md`: changed" in continuation


@EXTENDED
@pytest.mark.parametrize("victim", spread(VICTIMS))
async def test_killed_in_a_tool_that_has_acted_the_action_is_told_as_unknown_and_not_done_again(
    world: World, victim: str
) -> None:
    effects = world.project / "effects"
    continuation = await converse(world, IN_TOOL, effects.exists, victim=victim)
    assert "- Run sh -c 'echo done >> effects; sleep 60': outcome unknown" in continuation
    assert effects.read_text() == "done\n"
    results = [p for m in world.messages(ADDRESS) for p in m.parts if isinstance(p, ToolResultPart)]
    assert [each.status for each in results] == ["unknown"]


@EXTENDED
@pytest.mark.parametrize("victim", spread(VICTIMS))
async def test_killed_in_a_sub_agent_its_conversation_is_kept_and_its_call_told_as_unknown(
    world: World, victim: str
) -> None:
    def child_has_spoken() -> bool:
        children = [each for each in world.conversations() if each.parent_conversation_id]
        with world.store() as store:
            return any(store.message_count(each.conversation_id) for each in children)

    continuation = await converse(world, IN_SUB_AGENT, child_has_spoken, victim=victim)
    assert "- Ask explorer: outcome unknown" in continuation
    parent, child = world.conversations()
    assert child.parent_conversation_id == parent.conversation_id
    with world.store() as store:
        (said,) = store.messages(child.conversation_id)
    # The last paragraph of a text that still runs may be half a secret, and waits for its end.
    assert said.text.startswith("I am explorer. I was asked: look")
