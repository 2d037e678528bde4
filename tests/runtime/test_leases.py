"""One writer at a time: told who holds, taken over from the dead and the stopped, fenced after."""

import signal
from typing import Any

import anyio
import apsw
import pytest
from tests.support.sets import EXTENDED, spread
from tests.support.upthread_process import QUICK, AtCommit
from tests.support.world import SAY_REPORT, SMALL_SPECIFICATION, UpthreadProcess, World, eventually

import upthread
from upthread.errors import LeaseHeldError
from upthread.runtime.lease import LeaseRequest, Leases, LeaseTimes
from upthread.runtime.system import System, started_at_ticks

pytestmark = pytest.mark.anyio
RUN = upthread.RunOptions(agent="rehearsal")
WAITING_RUN = upthread.RunOptions(agent="rehearsal", is_waiting=True)
REHEARSAL = upthread.TellOptions(agent="rehearsal")
WAITING = upthread.TellOptions(agent="rehearsal", when_busy="wait")
NEVER_STALE = LeaseTimes(stale_after_s=3_600)
"""With these only a holder that is seen to be dead is taken over."""

HANGING = """\
[[pipeline.steps]]
role = "planner"
task = "[[rehearse: hang]]"
"""


def begin_run(world: World, **more: Any) -> UpthreadProcess:
    """Start a run whose agent hangs in its first prompt."""
    world.configure(HANGING)
    process = world.start("run", "spec-42", SMALL_SPECIFICATION, **more)
    eventually(world.prompts)
    return process


def dump(world: World) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the database."""
    database = apsw.Connection(str(world.home / "upthread.db"))
    try:
        names = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {
            str(name): database.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names
        }
    finally:
        database.close()


@EXTENDED
async def test_a_second_prompt_is_refused_told_who_holds_and_kept_as_a_refusal(world):
    first = world.start("tell", "spec-42/planner", "[[rehearse: hang]]")
    eventually(world.prompts)
    async with world.open() as project:
        with pytest.raises(LeaseHeldError, match=f"pid {first.pid}"):
            await project.tell("spec-42/planner", "me too", REHEARSAL)
        view = await project.role("spec-42/planner")
        assert view.state == "running"
        assert view.holder.pid == first.pid
        refusals = project.store.refusals(view.conversation.conversation_id)
    assert [each.reasons[0] for each in refusals] == ["busy"]


@EXTENDED
async def test_a_killed_run_is_taken_over_at_once(world: World) -> None:
    first = begin_run(world)
    first.kill()
    async with world.open(lease_times=NEVER_STALE) as project:
        assert (await project.show("spec-42")).roles[0].state == "interrupted"
        view = await project.run("spec-42", None, RUN)
    assert view.status == "done"
    assert len(world.session_files()) == 1


async def test_a_stopped_run_is_taken_over_when_stale_and_fenced_when_it_wakes(world):
    first = begin_run(world)
    first.send(signal.SIGSTOP)
    eventually(first.is_stopped)
    async with world.open() as project:
        with pytest.raises(LeaseHeldError):
            await project.run("spec-42", None, RUN)
        view = await project.run("spec-42", None, WAITING_RUN)
    assert view.status == "done"
    require_fenced(first, world)


def require_fenced(first: UpthreadProcess, world: World) -> None:
    kept = dump(world)
    first.send(signal.SIGCONT)
    assert first.exit_code == 6, first.stderr
    assert first.result["error"] == "FencedError"
    assert dump(world) == kept
    assert world.agents() == ()


@pytest.mark.parametrize("number", spread(range(2, 7)))
async def test_a_prompt_stopped_at_any_commit_is_fenced_there_when_it_wakes(world, number):
    at = AtCommit(number=number, when="before", signal_number=signal.SIGSTOP)
    first = world.start("tell", "spec-42/planner", SAY_REPORT, at_commit=at)
    eventually(first.is_stopped)
    async with world.open() as project:
        text = "[[rehearse: say mine]]"
        result = await project.tell("spec-42/planner", text, WAITING)
    assert result.outcome == "ok"
    assert result.reply.endswith("mine")
    require_fenced(first, world)
    world.check_histories()


@pytest.mark.soak
async def test_a_living_holder_that_beats_is_never_taken_over(world: World) -> None:
    begin_run(world)
    waiting = world.start("run", "spec-42", None, is_waiting=True)
    await anyio.sleep(3 * QUICK.stale_after_s)
    assert waiting.is_running
    assert len(world.prompts()) == 1


@pytest.mark.soak
async def test_an_agent_left_running_by_a_stopped_holder_is_ended_before_the_next_is_started(world):
    first = begin_run(world)
    (agent,) = [pid for pid in world.agents() if pid != first.pid]
    first.send(signal.SIGSTOP)
    async with world.open() as project:
        await project.run("spec-42", None, WAITING_RUN)
    assert started_at_ticks(agent) is None
    assert {each["pid"] for each in world.log("prompt")} != {agent}
    first.send(signal.SIGCONT)
    assert first.exit_code == 6


async def test_a_process_whose_release_could_not_be_written_can_take_its_lease_again(world):
    async with world.open() as project:
        leases = Leases(project.store, System())
        async with leases.held(LeaseRequest(name="one", doing="first")) as first:
            with pytest.raises(LeaseHeldError, match="first"):
                async with leases.held(LeaseRequest(name="one", doing="second")):
                    pass
        ours = System().this_process("never released")
        assert project.store.acquire_lease("one", ours) is not None
        async with leases.held(LeaseRequest(name="one", doing="third")) as third:
            assert third.token == first.token + 2
