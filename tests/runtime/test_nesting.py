"""Calls from inside a turn: own and ancestor conversations refused, a limit to the depth."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.sets import EXTENDED
from tests.support.world import ALLOW, REPOSITORY, World

import upthread
from upthread.errors import RefusedError

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")

CALLER = """\
import json, os, sys
import anyio
sys.path.insert(0, {source!r})
import upthread
from upthread.errors import UpthreadError


async def main():
    address, text, out = sys.argv[1:4]
    async with upthread.open_project({project!r}) as up:
        options = upthread.TellOptions(agent="rehearsal")
        try:
            result = await up.tell(address, text, options)
            told = {{"outcome": result.outcome, "reply": result.reply}}
        except UpthreadError as error:
            told = {{"error": type(error).__name__, "reasons": getattr(error, "reasons", ()),
                     "exit_code": error.exit_code}}
    with open(out, "w") as file:
        json.dump(told, file)

anyio.run(main)
"""


class Nest:
    """Writes prompts that make the agent call upthread from inside its own turn."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.configure(ALLOW)
        self.script = world.directory / "caller.py"
        text = CALLER.format(source=str(REPOSITORY / "src"), project=str(world.project))
        self.script.write_text(text)
        self.outs: list[Path] = []

    def calling(self, address: str, text: str) -> str:
        """Return a prompt that tells `address` something."""
        out = self.world.directory / f"told-{len(self.outs)}.json"
        self.outs.append(out)
        inner = self.world.directory / f"text-{len(self.outs)}"
        inner.write_text(text)
        line = f'"$(cat {inner})"'
        script = self.world.directory / f"call-{len(self.outs)}.sh"
        script.write_text(f"exec {sys.executable} {self.script} {address} {line} {out}\n")
        return f"[[rehearse: execute sh {script}]]"

    def told(self, number: int) -> Any:
        return json.loads(self.outs[number].read_text())


@EXTENDED
async def test_a_call_to_ones_own_conversation_is_refused_and_kept(world: World) -> None:
    nest = Nest(world)
    async with world.open() as project:
        text = nest.calling("spec-42/planner", "me")
        result = await project.tell("spec-42/planner", text, REHEARSAL)
        refusals = project.store.refusals(result.conversation.conversation_id)
    assert nest.told(0) == {
        "error": "RefusedError",
        "reasons": ["own_or_ancestor"],
        "exit_code": 5,
    }
    assert [each.reasons[0] for each in refusals] == ["own_or_ancestor"]


@pytest.mark.soak
async def test_a_call_to_a_conversation_that_waits_for_us_is_refused(world: World) -> None:
    nest = Nest(world)
    back = nest.calling("spec-42/planner", "and you?")
    over = nest.calling("spec-42/auditor", back)
    async with world.open() as project:
        await project.tell("spec-42/planner", over, REHEARSAL)
    assert nest.told(0)["reasons"] == ["own_or_ancestor"]
    assert nest.told(1)["outcome"] == "ok"


@EXTENDED
async def test_calls_nested_too_deeply_are_refused(world: World) -> None:
    nest = Nest(world)
    deepest = nest.calling("spec-42/validator", "too deep")
    third = nest.calling("spec-42/constructor", deepest)
    second = nest.calling("spec-42/auditor", third)
    async with world.open() as project:
        await project.tell("spec-42/planner", second, REHEARSAL)
    assert nest.told(0)["reasons"] == ["depth"]
    assert nest.told(1)["outcome"] == nest.told(2)["outcome"] == "ok"


async def test_the_callers_are_known_from_the_environment(world: World) -> None:
    async with world.open() as project:
        result = await project.tell("spec-42/planner", "[[rehearse: say here]]", REHEARSAL)
    own = result.conversation.conversation_id
    async with world.open(environment={"UPTHREAD_CALLERS": own}) as project:
        with pytest.raises(RefusedError) as refused:
            await project.tell("spec-42/planner", "again", REHEARSAL)
        assert refused.value.exit_code == 5
        await project.tell("spec-42/auditor", "[[rehearse: say here]]", REHEARSAL)
