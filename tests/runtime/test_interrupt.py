"""Ctrl-C: the turn ends as cancelled with what was said, nothing is left, and it goes on later."""

import asyncio
import signal
from os import kill as process_signal

import anyio
import anyio.from_thread
import pytest
from tests.support.sets import EXTENDED, spread
from tests.support.world import ALLOW, SMALL_SPECIFICATION, World, eventually

import upthread
from upthread.agents.rehearsal.sessions import SessionStore
from upthread.agents.rehearsal.turn import text_chunk
from upthread.core.types import Outcome, ToolResultPart
from upthread.errors import UsageError
from upthread.runtime.system import System
from upthread.runtime.turns import turns
from upthread.runtime.turns.delegation import Listener, TurnResult, TurnStarted
from upthread.runtime.turns.delivery import DRAIN_S, heard_out
from upthread.runtime.turns.recording import FLUSH_EVERY_S

pytestmark = pytest.mark.anyio
ADDRESS = "spec-42/planner"
REHEARSAL = upthread.TellOptions(agent="rehearsal")


@EXTENDED
async def test_an_interrupted_run_is_gone_on_with_by_running_again(world: World) -> None:
    world.configure('[[pipeline.steps]]\nrole = "planner"\ntask = "[[rehearse: once hang]]"\n')
    process = world.start("run", "spec-42", SMALL_SPECIFICATION)
    eventually(world.prompts)
    process.send(signal.SIGINT)
    assert process.exit_code == 130, process.stderr
    assert world.agents() == ()
    async with world.open() as project:
        shown = await project.show("spec-42")
        assert (shown.state, shown.status) == ("interrupted", "idle")
        assert shown.standing.command == "upthread run spec-42"
        view = await project.run("spec-42", None, upthread.RunOptions(agent="rehearsal"))
    assert view.status == "done"
    assert len(world.session_files()) == 1


@EXTENDED
async def test_a_caller_that_gives_a_turn_up_is_told_its_ids(world: World) -> None:
    """There is no result to hand back: whoever listens is told what it would have said."""
    started: list[TurnStarted] = []
    cancelled: list[TurnResult] = []
    async with world.open() as project:
        with anyio.CancelScope() as scope:

            def give_up(event: TurnStarted) -> None:
                started.append(event)
                scope.cancel()

            listener = Listener(started=give_up, cancelled=cancelled.append)
            options = upthread.TellOptions(agent="rehearsal", listener=listener)
            await project.tell(ADDRESS, "[[rehearse: hang]]", options)
        assert scope.cancelled_caught
        view = await project.role(ADDRESS)
    (begun,), (result,) = started, cancelled
    assert result.outcome is Outcome.CANCELLED
    assert (result.turn_id, result.turn_number) == (begun.turn_id, 1)
    assert result.upstream_session_id == begun.upstream_session_id == view.link.upstream_session_id
    assert result.conversation == begun.conversation
    assert (view.state, view.last_turn_id) == ("interrupted", begun.turn_id)


@EXTENDED
@pytest.mark.parametrize("after_ms", spread([20, 100, 0, 60, 140, 180], extended=1))
async def test_an_interrupt_at_any_moment_leaves_a_whole_store_and_no_agent(world, after_ms):
    process = world.start("tell", ADDRESS, "[[rehearse: slow 20 5]]")
    eventually(world.home.exists)
    await anyio.sleep(after_ms / 1000)
    process.send(signal.SIGINT)
    # Before it is in its stride Python itself ends it, saying so.
    assert process.exit_code in {0, 130} or "KeyboardInterrupt" in process.stderr
    assert world.agents() == ()
    async with world.open() as project:
        result = await project.tell(ADDRESS, "[[rehearse: say here]]", REHEARSAL)
    assert result.outcome == "ok"
    assert result.reply.endswith("here")
    world.check_histories()


async def test_a_turn_that_a_signal_ended_is_gone_on_with(world: World) -> None:
    world.configure(ALLOW)
    text = "[[rehearse: execute sh -c 'echo > effects']] [[rehearse: if_resumed say done]]"
    process = world.start("tell", ADDRESS, f"{text} [[rehearse: hang]]")
    eventually((world.project / "effects").exists)
    process.send(signal.SIGINT)
    assert process.exit_code == 130, process.stderr
    async with world.open() as project:
        result = await project.go_on(ADDRESS, REHEARSAL)
        assert (result.decision, result.turn_number) == ("resume", 2)
        assert world.prompts()[-1].count("Your last turn was interrupted") == 1
        assert "echo > effects" in world.prompts()[-1]
        with pytest.raises(UsageError, match="the last one has ended"):
            await project.go_on(ADDRESS, REHEARSAL)


def results(world: World) -> list[tuple[str, str]]:
    """The calls' results on record, as (status, text)."""
    parts = [part for message in world.messages(ADDRESS) for part in message.parts]
    return [(part.status, part.text) for part in parts if isinstance(part, ToolResultPart)]


async def test_what_an_agent_does_until_it_has_ended_is_recorded(world: World) -> None:
    world.configure(ALLOW)
    process = world.start("tell", ADDRESS, "[[rehearse: execute sh -c 'echo > effects; sleep 9']]")
    eventually((world.project / "effects").exists)
    process.send(signal.SIGINT)
    assert process.exit_code == 130, process.stderr
    assert world.agents() == ()
    assert results(world) == [("failed", "cancelled, and the command was ended")]


@EXTENDED
async def test_an_agent_that_does_not_hear_the_cancel_is_waited_for_and_its_call_closed(world):
    world.configure(ALLOW)
    process = world.start("tell", ADDRESS, "[[rehearse: execute sh -c 'echo > effects; sleep 60']]")
    eventually((world.project / "effects").exists)
    eventually(lambda: "in_progress" in world.session_files()[0].read_text())
    await anyio.sleep(2 * FLUSH_EVERY_S)  # so that the call is on record, and its message begun
    for pid in world.agents():
        if pid != process.pid:
            process_signal(pid, signal.SIGSTOP)
    process.send(signal.SIGINT)
    assert process.exit_code == 130, process.stderr
    assert [status for status, _ in results(world)] == ["unknown"]
    world.check_histories()


async def test_what_only_the_agents_session_has_of_a_cancelled_turn_is_read_before_the_next(
    world: World,
) -> None:
    """As where the agent outlives the process that cancelled it."""
    prompt = "[[rehearse: slow 2 60000]]"
    process = world.start("tell", ADDRESS, prompt)
    eventually(lambda: any("chunk 1" in each.read_text() for each in world.session_files()))
    process.send(signal.SIGINT)
    assert process.exit_code == 130, process.stderr
    (session,) = world.session_files()
    store = SessionStore(world.sessions)
    call = {"sessionUpdate": "tool_call", "toolCallId": "late", "title": "Run git push"}
    call |= {"kind": "execute", "status": "pending", "rawInput": {"command": "git push"}}
    end = {"sessionUpdate": "tool_call_update", "toolCallId": "late", "status": "completed"}
    said = text_chunk("and this", message_id="late")
    for update in (call, end, said):
        store.append(session.stem, {"entry": "update", "update": update})
    async with world.open() as project:
        result = await project.tell(ADDRESS, "[[rehearse: execute git push]]", REHEARSAL)
        (effect,) = await project.effects_held("spec-42")
    assert (result.decision, result.reasons) == ("resume", ("interrupted", "unchanged"))
    assert (result.parked.reason, str(effect.effect.state)) == ("held_back", "done")
    told = [message.text for message in world.messages(ADDRESS)]
    assert told[0] == prompt
    assert ("completed", "") in results(world)
    assert "and this" in "".join(told)
    assert "- Run git push: done" in world.prompts()[-1], "what was done goes along"
    world.check_histories()


async def test_a_caller_that_gives_up_waits_for_the_call_under_way() -> None:
    """Two calls must never be in one store at once, not even after the task was cancelled."""
    import threading

    system = System()
    begun, may_end = threading.Event(), threading.Event()
    ended: list[str] = []

    def slow() -> None:
        begun.set()
        may_end.wait()
        ended.append("slow")

    async def caller() -> None:
        await system.in_thread(slow)

    task = asyncio.ensure_future(caller())
    await anyio.to_thread.run_sync(begun.wait)
    task.cancel()
    following = asyncio.ensure_future(system.in_thread(lambda: ended.append("next")))
    await asyncio.sleep(0)
    may_end.set()
    await following
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["slow", "next"]


async def test_a_reply_that_waits_for_a_suspended_process_ends_the_turn_that_is_cancelled(world):
    options = upthread.TellOptions(agent="rehearsal", key="step 1")
    async with world.open() as project:
        text = "[[rehearse: slow 5 100]]"
        task = asyncio.ensure_future(project.tell(ADDRESS, text, options))
        await anyio.to_thread.run_sync(eventually, world.prompts)
        # Blocks the loop as a stop does: nothing is read until the agent is done.
        eventually(lambda: world.log("reply"))
        task.cancel()
        await asyncio.wait([task])
        view = await project.role(ADDRESS)
    assert view.last_turn.stopped_by == ("ok", "")


async def test_cancelled_before_its_end_is_committed_a_turn_has_its_reply(world, monkeypatch):
    conclude, given_up = turns._conclude, anyio.CancelScope()

    async def conclude_cancelled(live, answer):
        given_up.cancel()
        return await conclude(live, answer)

    monkeypatch.setattr(turns, "_conclude", conclude_cancelled)
    async with world.open() as project:
        with given_up:
            await project.tell(ADDRESS, "[[rehearse: tokens 7 5]]", REHEARSAL)
        view = await project.role(ADDRESS)
        spent = await project.spent(view.conversation)
    assert (view.last_turn.ended.outcome, spent.count) == (Outcome.OK, 12)


def test_an_agent_is_asked_to_stop_by_a_program_that_ends_with_all_its_tasks(world) -> None:
    async def told() -> None:
        async with world.open() as project:
            await project.tell(ADDRESS, "[[rehearse: hang]]", REHEARSAL)

    async def program() -> list[asyncio.Future[None]]:
        tasks = [asyncio.ensure_future(told())]
        await anyio.to_thread.run_sync(eventually, world.prompts)
        return tasks  # `asyncio.run` cancels all that is left, as at Ctrl-C

    asyncio.run(program())
    assert [each["stop_reason"] for each in world.log("reply")] == ["cancelled"]


async def test_a_second_cancel_ends_an_agent_that_does_not_hear_the_first_at_once() -> None:
    async def is_deaf() -> None:
        await asyncio.sleep(0)

    task = asyncio.ensure_future(heard_out(anyio.sleep_forever, is_deaf))
    for _ in range(2):
        await asyncio.sleep(0.05)
        task.cancel()
    done, _ = await asyncio.wait([task], timeout=DRAIN_S / 2)
    assert done == {task}


def forget_prompts(world: World) -> None:
    """Leave the agent's sessions as they were before their first prompt was stored."""
    for file in world.session_files():
        lines = file.read_text().splitlines(keepends=True)
        first = next((at for at, line in enumerate(lines) if '"prompt"' in line), len(lines))
        file.write_text("".join(lines[:first]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_a_first_prompt_that_the_agent_never_stored_is_followed_by_a_first_turn(
    world: World, number: int
) -> None:
    process = world.start("tell", ADDRESS, "my number is seven [[rehearse: hang]]")
    eventually(world.prompts)
    process.send(number)
    assert process.exit_code in {130, -signal.SIGKILL}
    forget_prompts(world)
    async with world.open() as project:
        now = await project.why(ADDRESS)
        result = await project.tell(ADDRESS, "[[rehearse: say here]]", REHEARSAL)
        view = await project.role(ADDRESS)
    assert (result.decision, result.reasons, result.outcome) == ("first", ("session_empty",), "ok")
    assert "my number is seven" in world.prompts()[-1]
    assert "<role name=" in world.prompts()[-1]
    assert len(view.chain) == 2
    assert (now.now.decision, now.now.reasons) == ("first", ("session_empty",))


async def test_an_agent_that_stores_no_turn_before_its_end_is_told_what_is_done(
    world: World,
) -> None:
    world.configure(ALLOW)
    text = "my number is seven [[rehearse: write a.txt x]] [[rehearse: hang]]"
    process = world.start("tell", ADDRESS, text)
    eventually(lambda: world.log("write"))
    await anyio.sleep(1)  # an action is on record a moment later
    process.send(signal.SIGKILL)
    assert process.exit_code == -signal.SIGKILL
    for sent in range(2):
        forget_prompts(world)
        process = world.start("go_on", ADDRESS)
        eventually(lambda sent=sent: len(world.prompts()) == sent + 2)
        process.send(signal.SIGKILL)
        assert process.exit_code == -signal.SIGKILL
        again = world.prompts()[-1]
        assert "do not repeat them:\n- Write a.txt: done" in again
        assert again.count("my number is seven") == again.count("do not repeat") == 1
        assert again.count("<role name=") == 1
