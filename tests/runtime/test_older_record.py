"""A record older than the agent's session is noticed before a prompt leaves, and caught up."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.sets import EXTENDED, spread
from tests.support.world import ALLOW, World

import upthread
from upthread.core.types import Speaker, ToolCallPart
from upthread.runtime.turns.delegation import Listener

pytestmark = pytest.mark.anyio
ADDRESS = "spec-42/constructor"
OPTIONS = upthread.TellOptions(agent="rehearsal")
DEPLOY = "[[rehearse: execute sh deploy.sh]]"
OLDER = "older_record"
OVER_ACP = f"acp:{sys.executable} -m upthread.agents.rehearsal"
"""The rehearsal agent as one whose store nobody reads."""


@pytest.fixture
def world(world: World) -> World:
    world.configure(ALLOW)
    (world.project / "deploy.sh").write_text("echo deploy >> done.log\n")
    return world


async def tell(world: World, text: str, *, agent: str = "rehearsal", **heard: Any) -> Any:
    async with world.open() as project:
        options = upthread.TellOptions(agent=agent, listener=Listener(**heard))
        return await project.tell(ADDRESS, text, options)


def say(word: str) -> str:
    return f"Say it. [[rehearse: say {word}]]"


def copy_of_record(world: World) -> Path:
    """Copy the database as `cp` would, once nobody has it open."""
    copy = world.directory / "copy.db"
    shutil.copyfile(world.home / "upthread.db", copy)
    return copy


def put_back(world: World, copy: Path) -> None:
    for suffix in ("-wal", "-shm"):
        world.home.joinpath(f"upthread.db{suffix}").unlink(missing_ok=True)
    shutil.copyfile(copy, world.home / "upthread.db")


def said(world: World) -> list[tuple[str, str]]:
    """What is on record, in order: each prompt as it was written, each reply."""
    return [
        (str(message.speaker), message.text)
        for message in world.messages(ADDRESS)
        if message.speaker in {Speaker.USER, Speaker.ASSISTANT} and message.text
    ]


async def why(world: World) -> upthread.Why:
    async with world.open() as project:
        return await project.why(ADDRESS)


async def turns(world: World) -> int:
    async with world.open() as project:
        return (await project.role(ADDRESS)).turns


async def test_turns_that_the_record_lacks_are_said_and_read_back_before_the_prompt_is_numbered(
    world: World,
) -> None:
    await tell(world, say("one"))
    copy = copy_of_record(world)
    await tell(world, say("two"))
    await tell(world, say("three"))
    whole = said(world)
    put_back(world, copy)
    before = await why(world)
    assert (before.now.decision, before.now.reasons[0]) == ("resume", OLDER)
    assert before.now.inputs["turns_lacking"] == 2
    assert await turns(world) == 1, "`why` changes nothing"
    started: list[Any] = []
    notices: list[Any] = []
    done = await tell(world, say("four"), started=started.append, notice=notices.append)
    assert (done.decision, done.reasons[0], done.turn_number) == ("resume", OLDER, 4)
    assert "turns that this record lacks" in started[0].line
    assert [each.text for each in notices if each.kind == OLDER] == [
        "the agent's session has 2 turns that this record lacks; they are read back"
    ]
    assert said(world)[: len(whole)] == whole
    assert await turns(world) == 4
    assert (await why(world)).now.reasons == ("unchanged",)
    world.check_histories()


async def test_a_prompt_that_was_refused_is_told_also_after_turns_were_read_back(world, tmp_path):
    await tell(world, say("one"))
    (session,) = world.session_files()
    away = session.rename(tmp_path / "away")
    refuses = {"UPTHREAD_REHEARSAL_CAPABILITIES": "opaque_errors,no_list"}
    async with world.open(environment=refuses) as project:
        assert (await project.tell(ADDRESS, "Remember PLUM.")).outcome == "unknown"
    away.rename(session)
    copy = copy_of_record(world)
    await tell(world, say("two"))
    put_back(world, copy)
    assert (await tell(world, say("three"))).reasons[0] == OLDER
    assert "PLUM" in world.prompts()[-1]


@EXTENDED
async def test_an_outward_action_that_is_read_back_is_held_back(world: World) -> None:
    await tell(world, say("one"))
    copy = copy_of_record(world)
    assert (await tell(world, DEPLOY)).outcome == "ok"
    put_back(world, copy)
    again = await tell(world, DEPLOY)
    assert again.parked.reason == "held_back"
    assert (world.project / "done.log").read_text().split() == ["deploy"]
    calls = [p for m in world.messages(ADDRESS) for p in m.parts if isinstance(p, ToolCallPart)]
    assert calls, "the call is on record"


@EXTENDED
async def test_a_session_that_cannot_be_compared_is_not_resumed_without_a_word(world):
    await tell(world, say("one"))
    copy = copy_of_record(world)
    await tell(world, say("two"))
    put_back(world, copy)
    (session,) = world.session_files()
    lines = session.read_text().splitlines(keepends=True)
    session.write_text("".join(line.replace("one", "uno") for line in lines))
    assert (await why(world)).now.reasons[0] == "not_compared"
    notices: list[Any] = []
    done = await tell(world, say("three"), notice=notices.append)
    assert done.reasons[0] == "not_compared"
    assert any(each.kind == "not_compared" for each in notices)


@pytest.mark.parametrize("agent", ["rehearsal", OVER_ACP], ids=["read", "loaded"])
@pytest.mark.parametrize("lost", spread(["turn", "reply", "two turns", "all"], first=2))
async def test_a_session_that_was_put_back_is_told_what_it_no_longer_holds(world, lost, agent):
    for word in ("one", "two", "three"):
        await tell(world, say(word), agent=agent)
    (session,) = world.session_files()
    lines = session.read_text().splitlines(keepends=True)
    end = {"turn": "say three", "reply": "say three", "two turns": "say two", "all": "say one"}
    (at,) = (at for at, line in enumerate(lines) if end[lost] in line)
    session.write_text("".join(lines[: at + (lost == "reply")]))
    if agent == "rehearsal":
        assert "older_session" in (await why(world)).now.reasons
    notices: list[Any] = []
    done = await tell(world, say("four"), agent=agent, notice=notices.append)
    which = {"two turns": "turns 2 to 3", "all": "turns 1 to 3"}.get(lost, "turn 3")
    assert [each.text for each in notices if each.kind == "older_session"] == [
        f"the agent's session lacks {which}, which this record has; it is told of that"
    ]
    assert done.reasons[0] == "older_session"
    assert "> Say it. [[rehearse: say three]]" in world.messages(ADDRESS)[-2].sent_text
    session.touch()  # so that it is read
    assert (await tell(world, say("five"), agent=agent)).reasons == ("unchanged",)


async def test_a_turn_that_the_agent_answered_and_did_not_store_is_told_to_it_again(world):
    await tell(world, say("one"))
    world.configure(
        '[agents.rehearsal]\nenvironment = { UPTHREAD_REHEARSAL_CAPABILITIES = "read_only" }'
    )
    assert (await tell(world, say("two"))).reply == "two"
    assert (await tell(world, say("three"))).reasons[0] == "older_session"
    world.configure("")
    assert (await why(world)).now.reasons[0] == "older_session"
    assert (await tell(world, say("four"))).reasons[0] == "older_session", "told is not held"
    assert "> Say it. [[rehearse: say two]]" in world.messages(ADDRESS)[-2].sent_text
    assert (await tell(world, say("five"))).reasons == ("unchanged",)


@pytest.mark.soak
@pytest.mark.parametrize(
    "disturbance", spread(["twice", "fork", "hang", "fail", "none", "fresh"], first=2)
)
async def test_what_is_on_record_is_never_taken_for_missing(world: World, disturbance: str) -> None:
    prompts = {
        "hang": ["[[rehearse: rate_limit]]", say("two")],
        "fail": ["[[rehearse: crash]]", say("two")],
        "none": [say("two"), say("three")],
        "twice": [say("one"), say("one")],
        "fork": [say("two")],
        "fresh": [f"fresh: {say('two')}", say("two")],
    }[disturbance]
    await tell(world, say("one"))
    for prompt in prompts:
        await tell(world, prompt)
    if disturbance == "fork":
        async with world.open() as project:
            await project.fork(ADDRESS, "spec-43/constructor")
            done = await project.tell("spec-43/constructor", say("three"), OPTIONS)
            assert OLDER not in done.reasons
    for session in world.session_files():
        session.touch()  # so that it is read
    found = await why(world)
    assert not {OLDER, "not_compared", "older_session"} & {*found.now.reasons}
