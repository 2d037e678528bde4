"""One role at a time writes in a working tree; readers go on, and the dead are in nobody's way."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from tests.support.sets import EXTENDED
from tests.support.trusting import agree
from tests.support.world import REPOSITORY, UpthreadProcess, World, eventually, make_repository

import upthread
from upthread.errors import FencedError, LeaseHeldError
from upthread.runtime.lease import tree_lease
from upthread.runtime.system import System
from upthread.runtime.turns.delegation import Listener

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")

TWO_WRITERS = """\
[roles.writer]
is_writing = true

[permissions]
edit = "allow"
execute = "allow"
"""

CALLER = """\
import json, sys
import anyio
sys.path.insert(0, {source!r})
import upthread
from upthread.errors import UpthreadError


async def main():
    *addresses, out = sys.argv[1:]
    told = {{}}

    async def tell(address):
        options = upthread.TellOptions(agent="rehearsal")
        try:
            text = "[[rehearse: execute sleep 0.6]]"
            told[address] = (await up.tell(address, text, options)).outcome
        except UpthreadError as error:
            told[address] = error.message

    async with upthread.open_project({project!r}) as up, anyio.create_task_group() as tasks:
        for address in addresses:
            tasks.start_soon(tell, address)
            await anyio.sleep(0.2)
    with open(out, "w") as file:
        json.dump(told, file)

anyio.run(main)
"""


def start_writing(world: World) -> UpthreadProcess:
    """Start a turn of a writing role that hangs; returns when its prompt has arrived."""
    world.configure(TWO_WRITERS)
    process = world.start("tell", "spec-42/constructor", "[[rehearse: hang]]")
    eventually(world.prompts)
    return process


def calling(world: World, *addresses: str) -> tuple[str, Path]:
    """Return a prompt that makes the agent tell roles something, and where the outcome will be."""
    script, out = world.directory / "caller.py", world.directory / "told.json"
    script.write_text(CALLER.format(source=str(REPOSITORY / "src"), project=str(world.project)))
    return f"[[rehearse: execute {sys.executable} {script} {' '.join(addresses)} {out}]]", out


def lease_of(world: World) -> str:
    return tree_lease(System().this_process("").host, str(world.project))


async def test_a_second_writing_role_is_refused_and_told_who_holds_the_tree_and_the_cure(world):
    first = start_writing(world)
    async with world.open() as project:
        with pytest.raises(LeaseHeldError, match=f"held by pid {first.pid} ") as caught:
            await project.tell("other/writer", "me too", REHEARSAL)
    assert "another role is writing in this working tree" in caught.value.message
    assert "(tell spec-42/constructor)" in caught.value.holder
    assert "--wait" in caught.value.hint
    assert "--worktree" in caught.value.hint
    assert caught.value.ids["working_directory"] == str(world.project)
    assert len(world.prompts()) == 1


@EXTENDED
async def test_roles_that_only_read_go_on_beside_a_writing_one(world: World) -> None:
    start_writing(world)
    async with world.open() as project:
        for address in ("spec-42/planner", "other/validator"):
            assert (await project.tell(address, "look", REHEARSAL)).outcome == "ok"


@pytest.mark.soak
async def test_a_writing_role_that_waits_begins_when_the_tree_is_free(world: World) -> None:
    world.configure(TWO_WRITERS)
    first = world.start("tell", "spec-42/constructor", "[[rehearse: slow 10 50]]")
    eventually(world.prompts)
    waited_for: list[int] = []
    options = upthread.TellOptions(
        agent="rehearsal",
        when_busy="wait",
        listener=Listener(
            waiting=lambda lease: waited_for.append(lease.holder.pid if lease.holder else 0)
        ),
    )
    async with world.open() as project:
        assert (await project.tell("other/writer", "then me", options)).outcome == "ok"
    assert waited_for == [first.pid]
    assert first.result["outcome"] == "ok"


@EXTENDED
async def test_writing_roles_in_two_working_trees_go_on_at_once(world: World) -> None:
    start_writing(world)
    other = make_repository(world.directory / "elsewhere")
    shutil.copy(world.project / "upthread.toml", other)
    agree(other, world.home)
    async with world.open(other) as project:
        assert (await project.tell("other/writer", "here", REHEARSAL)).outcome == "ok"


@pytest.mark.soak
async def test_two_writing_roles_asked_at_once_from_inside_a_third_exclude_each_other(world):
    world.configure(TWO_WRITERS)
    text, out = calling(world, "spec-42/writer", "other/writer")
    async with world.open() as project:
        assert (await project.tell("spec-42/constructor", text, REHEARSAL)).outcome == "ok"
    told = json.loads(out.read_text())
    assert told["spec-42/writer"] == "ok"
    assert "another role is writing in this working tree" in told["other/writer"]


@EXTENDED
async def test_a_call_from_inside_ends_with_the_outer_ones_hold_on_the_tree(world: World) -> None:
    start_writing(world)
    async with world.open() as outside:
        store = outside.store
        outer = next(
            each
            for each in store.conversations(outside.project_id, "spec-42")
            if each.key.role == "constructor"
        )
        inner = {"UPTHREAD_CALLERS": outer.conversation_id}

        def take_over(_: object) -> None:
            name, taker = lease_of(world), System().this_process("takes over")
            # A heartbeat of the outer turn between the two refuses the lease once.
            eventually(lambda: store.acquire_lease(name, taker, seen=store.lease(name)))

        options = upthread.TellOptions(agent="rehearsal", listener=Listener(started=take_over))
        async with world.open(environment=inner) as project:
            with pytest.raises(FencedError):
                await project.tell("spec-42/writer", "inside", options)
