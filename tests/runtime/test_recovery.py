"""What an interrupted turn comes to: adopted, gone on with once, sent once, or parked and told."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any

import pytest
from msgspec import structs
from tests.support.sets import EXTENDED
from tests.support.upthread_process import AtCommit
from tests.support.world import ALLOW, SAY_REPORT, SMALL_SPECIFICATION, World, eventually

import upthread
from upthread.core.turns import turn
from upthread.errors import RefusedError
from upthread.runtime.turns.delegation import Listener, Notice, TurnStarted

pytestmark = pytest.mark.anyio
CAPABILITIES = "UPTHREAD_REHEARSAL_CAPABILITIES"
ADDRESS = "spec-42/planner"
HANG = "[[rehearse: hang]]"
SENT = AtCommit(event="PromptSent", when="after")
"""The prompt is about to leave, and never does."""
UNRECORDED_END = AtCommit(event="TurnEnded", when="before")
"""The agent has answered, and nobody wrote down that it is the end."""


async def go_on(world: World, *, can: str = "") -> tuple[Any, list[str]]:
    told: list[TurnStarted] = []
    options = upthread.TellOptions(agent="rehearsal", listener=Listener(started=told.append))
    async with world.open(environment={CAPABILITIES: can}) as project:
        result = await project.go_on(ADDRESS, options)
    return result, [each.recognition for each in told]


async def tell(world: World, text: str, *, can: str = "") -> Any:
    async with world.open(environment={CAPABILITIES: can}) as project:
        return await project.tell(ADDRESS, text, upthread.TellOptions(agent="rehearsal"))


def kill_when(world: World, text: str, is_time: Callable[[], Any], *, agent_too: bool) -> None:
    victim = world.start("tell", ADDRESS, text)
    eventually(is_time)
    if agent_too:
        for pid in world.agents():
            if pid != victim.pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    victim.kill()


def killed(world: World, text: str, at: AtCommit) -> None:
    assert world.start("tell", ADDRESS, text, at_commit=at).exit_code == -signal.SIGKILL


async def test_a_prompt_that_never_arrived_is_sent_once(world: World) -> None:
    killed(world, SAY_REPORT, SENT)
    assert world.prompts() == []
    result, recognised = await go_on(world)
    assert (recognised, result.outcome) == (["absent"], "ok")
    assert len(world.prompts()) == 1


async def test_a_prompt_that_left_as_often_as_it_may_is_not_sent_again(world, monkeypatch):
    killed(world, SAY_REPORT, SENT)
    monkeypatch.setattr(turn, "SENDS_MAX", 1)
    result, recognised = await go_on(world)
    assert (recognised, result.parked.reason) == (["absent"], "undecidable")
    assert world.prompts() == []


@EXTENDED
async def test_a_reply_that_was_complete_is_adopted_and_nothing_is_sent(world: World) -> None:
    killed(world, SAY_REPORT, UNRECORDED_END)
    result, recognised = await go_on(world)
    assert (recognised, result.outcome) == (["complete"], "ok")
    assert result.report is not None
    assert len(world.prompts()) == 1
    assert world.messages(ADDRESS)[-1].text == result.reply
    async with world.open() as project:
        ended = (await project.role(ADDRESS)).last_turn.ended  # type: ignore[union-attr]
    assert ended.adopted


async def test_a_prompt_like_an_earlier_one_is_never_answered_with_the_earlier_reply(world):
    world.configure('[agents.rehearsal]\ninject = "never"\n')
    first = await tell(world, SAY_REPORT)
    assert first.outcome == "ok"
    killed(world, "lost", AtCommit(event="TurnIntended", when="after"))
    killed(world, SAY_REPORT, SENT)
    assert len(world.prompts()) == 1
    result, recognised = await go_on(world)
    # The session has its first prompt, which told the role, and nothing after that turn.
    assert recognised == ["absent"]
    assert (result.outcome, result.parked, len(world.prompts())) == ("ok", None, 2)
    assert world.prompts()[1] == SAY_REPORT


async def test_a_prompt_that_was_sent_again_does_not_make_a_later_one_undecidable(world: World):
    world.configure('[agents.rehearsal]\ninject = "never"\n')
    for times in (1, 2):
        killed(world, SAY_REPORT, SENT)
        result, recognised = await go_on(world)
        assert (recognised, result.outcome, len(world.prompts())) == (["absent"], "ok", times)


@pytest.mark.soak
async def test_a_foreign_prompt_in_the_session_makes_it_undecidable_and_parks(world):
    await tell(world, SAY_REPORT)
    killed(world, "mine", SENT)
    (session,) = world.session_files()
    with session.open("a") as file:
        file.write(json.dumps({"entry": "prompt", "text": "a person's", "messageId": "m"}) + "\n")
    result, recognised = await go_on(world)
    assert recognised == ["undecidable"]
    assert result.parked.reason == "undecidable"
    assert len(world.prompts()) == 1
    async with world.open() as project:
        assert (await project.role(ADDRESS)).state == "parked"
    again, _ = await go_on(world)
    assert again.outcome == "ok"
    assert world.prompts()[-1].startswith("Your last turn was interrupted")


@EXTENDED
async def test_an_agent_whose_history_cannot_be_read_parks_and_goes_on_when_a_person_says_so(world):
    killed(world, SAY_REPORT, UNRECORDED_END)
    result, _ = await go_on(world, can="no_load")
    assert result.parked.reason == "undecidable"
    assert len(world.prompts()) == 1
    again, _ = await go_on(world, can="no_load")
    assert again.outcome == "ok"
    assert len(world.prompts()) == 2
    assert len(world.session_files()) == 1


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("[[rehearse: crash_in_tool out.txt done]]", 1),
        pytest.param("[[rehearse: crash_before_tool out.txt done]]", 0, marks=EXTENDED),
        pytest.param("[[rehearse: crash]]", 0, marks=EXTENDED),
    ],
)
async def test_when_an_agent_dies_its_history_decides_how_its_turn_goes_on(world, text, written):
    world.configure(ALLOW)
    result = await tell(world, text)
    assert result.outcome == "ok"
    assert len(world.log("write")) == written
    assert world.prompts()[-1].startswith("Your last turn was interrupted")
    if written or "before" in text:
        assert "- Write out.txt: outcome unknown" in world.prompts()[-1]
    world.check_histories()


async def test_a_turn_that_is_interrupted_again_is_continued_again(world):
    kill_when(world, "[[rehearse: hang]]", world.prompts, agent_too=True)
    # The continuation is about to leave, and the agent never gets it.
    second = world.start("go_on", ADDRESS, at_commit=SENT)
    assert second.exit_code == -signal.SIGKILL
    third, recognised = await go_on(world)
    assert (recognised, third.outcome) == (["absent"], "ok")
    assert len(world.prompts()) == 2
    assert world.prompts()[-1].count("Your last turn was interrupted") == 1
    world.check_histories()


async def test_turns_that_were_gone_on_with_do_not_make_a_later_one_undecidable(world):
    """Told without ids, a prompt that was not answered and its continuation read as one."""
    for _ in range(2):
        assert (await tell(world, SAY_REPORT, can="no_message_ids")).outcome == "ok"
        kill_when(world, HANG, lambda: HANG in world.prompts()[-1], agent_too=True)
        result, recognised = await go_on(world, can="no_message_ids")
        assert (recognised, result.outcome) == (["incomplete"], "ok")
    world.check_histories()


async def test_a_reply_that_was_complete_is_taken_over_also_where_another_prompt_comes(world):
    await tell(world, "[[rehearse: say one]]")
    killed(world, SAY_REPORT, UNRECORDED_END)
    started: list[TurnStarted] = []
    notices: list[Any] = []
    listener = Listener(started=started.append, notice=notices.append)
    options = upthread.TellOptions(agent="rehearsal", listener=listener)
    async with world.open() as project:
        done = await project.tell(ADDRESS, "[[rehearse: say three]]", options)
        role = await project.role(ADDRESS)
    assert (done.decision, done.reasons, done.reply) == ("resume", ("unchanged",), "three")
    assert "reply_taken_over" in [each.kind for each in notices]
    prompt, reply = [each.text for each in world.messages(ADDRESS) if each.text][2:4]
    assert (prompt, bool(reply)) == (SAY_REPORT, True)
    assert role.turns == 3
    assert world.prompts()[-1] == "[[rehearse: say three]]", "its session needs no telling"
    world.check_histories()


@EXTENDED
async def test_what_an_agent_did_before_it_was_killed_is_on_record_where_another_prompt_comes(
    world: World,
) -> None:
    world.configure(ALLOW)

    def is_time() -> bool:
        return any("chunk 9 of" in file.read_text() for file in world.session_files())

    kill_when(world, "[[rehearse: slow 200 20]]", is_time, agent_too=True)
    await tell(world, "[[rehearse: say on]]")
    replies = [each.text for each in world.messages(ADDRESS) if "chunk" in each.text]
    assert "chunk 9 of" in "".join(replies)
    world.check_histories()


# --- in the profile that has the session ---------------------------------------------------------

OVER_ACP = f"acp:{sys.executable} -m upthread.agents.rehearsal"
PARKS = f"[[rehearse: once auth]] {SAY_REPORT}"


def elsewhere(world: World) -> AbstractAsyncContextManager[upthread.Project]:
    """Return the project opened under another profile of the agent."""
    other = str(world.directory / "other profile")
    return world.open(environment={"UPTHREAD_REHEARSAL_HOME": other})


@contextmanager
def refused(world: World, reason: str = "other_profile") -> Iterator[None]:
    """Expect a refusal with its cure, and that nothing becomes of it."""
    before = world.prompts()
    with pytest.raises(RefusedError) as caught:
        yield
    assert caught.value.reasons[0] == reason
    if reason == "other_profile":
        assert f"UPTHREAD_REHEARSAL_HOME={world.sessions}" in caught.value.hint
    assert world.prompts() == before
    assert not (world.directory / "other profile").exists()


@pytest.mark.parametrize(
    ("stop", "agent"), [("parked", "rehearsal"), ("killed", "rehearsal"), ("parked", OVER_ACP)]
)
async def test_a_stopped_turn_stays_as_it_is_where_another_prompt_or_its_end_is_refused(
    world, stop, agent
):
    options = upthread.TellOptions(agent=agent)
    async with world.open() as project:
        first = await project.tell(ADDRESS, "[[rehearse: tokens 900 100]]", options)
        if stop == "parked":
            assert (await project.tell(ADDRESS, PARKS, options)).parked
    if stop == "killed":
        killed(world, SAY_REPORT, SENT)
    async with elsewhere(world) as project:
        before = await project.role(ADDRESS)
        assert (await project.why(ADDRESS)).now.reasons == ("other_profile",)
        with refused(world):
            await project.go_on(ADDRESS, options)
        with refused(world):
            await project.tell(ADDRESS, "Another.", options)
        assert (await project.role(ADDRESS)).last_turn == before.last_turn
    async with world.open() as project:
        limited = structs.replace(options, tokens_max=1)
        with refused(world, "tokens_max"):
            await project.tell(ADDRESS, "Another.", limited)
        with refused(world, "tokens_max"):
            await project.go_on(ADDRESS, limited)
        result = await project.go_on(ADDRESS, options)
    assert (result.outcome, result.turn_number) == ("ok", 2)
    assert result.upstream_session_id == first.upstream_session_id


@EXTENDED
@pytest.mark.parametrize("call", ["a run", "a role that starts fresh", "another agent", "fresh"])
async def test_a_turn_continues_elsewhere_only_where_it_does_not_need_its_session(world, call):
    policy = '[roles.planner]\ncontinuity = "fresh"\n' if call == "a role that starts fresh" else ""
    step = f"[[pipeline.steps]]\nrole = 'planner'\ntask = '''{PARKS}'''\n"
    world.configure(f"{ALLOW}{policy}{step}")
    options = upthread.RunOptions(agent="rehearsal")
    async with world.open() as project:
        parked = await project.run("spec-42", SMALL_SPECIFICATION, options)
        session = (await project.role(ADDRESS)).link.upstream_session_id
    assert parked.parked.reason == "auth"
    other = upthread.TellOptions(agent=OVER_ACP if call == "another agent" else "rehearsal")
    async with elsewhere(world) as project:
        if call == "a run":
            with refused(world):
                await project.run("spec-42", None, options)
        elif call == "fresh":
            assert (await project.tell(ADDRESS, "fresh: hello", other)).outcome == "ok"
        elif call == "another agent":
            assert (await project.go_on(ADDRESS, other)).reasons[0] == "other_agent"
        else:
            with refused(world):
                await project.go_on(ADDRESS, other)
    if (world.directory / "other profile").exists():
        return
    async with world.open() as project:
        assert (await project.run("spec-42", None, options)).status == "done"
        assert (await project.role(ADDRESS)).link.upstream_session_id == session


async def test_a_profile_that_is_gone_is_named_when_its_session_is_replaced(world: World) -> None:
    async with world.open() as project:
        options = upthread.TellOptions(agent="rehearsal")
        await project.tell(ADDRESS, "[[rehearse: say one]]", options)
    shutil.rmtree(world.sessions)
    notices: list[Notice] = []
    listener = Listener(notice=notices.append)
    options = upthread.TellOptions(agent="rehearsal", listener=listener)
    async with elsewhere(world) as project:
        done = await project.tell(ADDRESS, "[[rehearse: say two]]", options)
    assert done.reasons[0] == "missing"
    (told,) = (each.text for each in notices if each.kind == "profile_lost")
    assert f"UPTHREAD_REHEARSAL_HOME={world.sessions}" in told


async def imported(world: World, way: str) -> tuple[str, str]:
    """Put a session on record by a way that sends no prompt; returns its address and its id."""
    options, address = upthread.TellOptions(agent="rehearsal"), "spec-43/planner"
    async with world.open() as project:
        session = (
            await project.tell(ADDRESS, "[[rehearse: say one]]", options)
        ).upstream_session_id
        (file,) = world.session_files()
        other = file.with_name("ses_other.jsonl")
        if way == "fork":
            return address, (await project.fork(ADDRESS, address)).link.upstream_session_id
        if way == "catch_up":
            record = {"UPTHREAD_HOME": str(world.directory / "other record")}
            async with world.open(environment=record) as stranger:
                await stranger.adopt(ADDRESS, session, agent="rehearsal")
                await stranger.tell(ADDRESS, "[[rehearse: say two]]", options)
            assert await project.catch_up(session) == 1
            return ADDRESS, session
        other.write_text(file.read_text().replace(session, other.stem))
        await getattr(project, way)(address, other.stem, agent="rehearsal")
        return address, other.stem


@pytest.mark.parametrize("way", ["adopt", "keep", "fork", "catch_up"])
async def test_an_imported_session_is_resumed_only_in_the_profile_it_was_found_in(world, way):
    address, session = await imported(world, way)
    options = upthread.TellOptions(agent="rehearsal")
    async with elsewhere(world) as project:
        assert (await project.why(address)).now.reasons == ("other_profile",)
        with refused(world):
            await project.tell(address, "Go on.", options)
    async with world.open() as project:
        done = await project.tell(address, "[[rehearse: say on]]", options)
    assert (done.decision, done.upstream_session_id) == ("resume", session)


async def test_an_imported_session_whose_file_is_gone_is_lost_and_never_called_empty(world):
    address, session = await imported(world, "adopt")
    world.session_files()[-1].unlink()
    async with world.open() as project:
        assert (await project.why(address)).now.decision == "resume"
        done = await project.tell(address, "Go on.", upthread.TellOptions(agent="rehearsal"))
    assert (done.reasons[0], done.upstream_session_id == session) == ("missing", False)
