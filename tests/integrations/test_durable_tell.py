"""A step that tells: once for an activity, and gone on with after a kill."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from upthread.integrations.temporal import Tell, upthread_tell

WORKFLOW = """
import json, os, sys
from dbos import DBOS
from upthread.client.project_opener import open_project
from upthread.integrations.durable_tell import tell_once
from upthread.runtime.options import TellOptions

directory, system_database, database, killed_in = sys.argv[1:]
DBOS(config={"name": "steps", "system_database_url": f"sqlite:///{system_database}"})

@DBOS.step()
async def told(number: int) -> str:
    async with open_project(directory, database=database) as up:
        prompt = f"[[rehearse: say line-{number}]]"
        key = f"dbos:{DBOS.workflow_id}:{number}"
        result = await tell_once(up, key, "spec/planner", prompt, TellOptions(agent="rehearsal"))
    if number == int(killed_in):
        os.kill(os.getpid(), 9)
    return result["turn_id"]

@DBOS.workflow()
async def ten_steps() -> list:
    return [await told(number) for number in range(10)]

DBOS.launch()
from dbos import SetWorkflowID
import asyncio
async def main():
    with SetWorkflowID("one"):
        handle = await DBOS.start_workflow_async(ten_steps)
    print(json.dumps(await handle.get_result()))
asyncio.run(main())
"""


def tell_of(place, text, address="spec/planner"):
    return Tell(address, text, str(place.repository), place.database, "rehearsal")


def turns(place):
    shown = json.loads(place.upthread("show", "spec", "--json"))
    return shown["roles"][0]["turns"]


def test_an_activity_that_runs_again_gets_the_first_reply_and_tells_nobody(home):
    environment = ActivityEnvironment()
    tell = tell_of(home, "[[rehearse: say hello]]")
    first = asyncio.run(environment.run(upthread_tell, tell))
    again = asyncio.run(environment.run(upthread_tell, tell))
    assert first == again
    assert "hello" in first["reply"]
    assert turns(home) == 1


def test_it_heartbeats_while_the_role_works(home):
    beats, environment = [], ActivityEnvironment()
    environment.on_heartbeat = lambda *told: beats.append(told)
    asyncio.run(environment.run(upthread_tell, tell_of(home, "[[rehearse: say hello]]")))
    assert beats[0] == ("spec/planner",)


def test_an_address_that_is_none_is_not_tried_again(home):
    with pytest.raises(ApplicationError) as error:
        asyncio.run(ActivityEnvironment().run(upthread_tell, tell_of(home, "hi", "no-address")))
    assert error.value.non_retryable
    assert "WORKSTREAM/ROLE" in str(error.value)


def test_ten_steps_of_a_durable_engine_killed_in_the_fifth_are_told_once_each(home, tmp_path):
    program = tmp_path / "workflow.py"
    program.write_text(WORKFLOW)

    def run(killed_in):
        words = [home.repository, tmp_path / "dbos.db", home.database, killed_in]
        return subprocess.run(
            [sys.executable, program, *map(str, words)],
            capture_output=True,
            text=True,
            env={**os.environ, **home.environment},
            check=False,
        )

    killed = run(5)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    deadline = time.monotonic() + 60
    while (done := run(-1)).returncode != 0:
        assert time.monotonic() < deadline, done.stderr[-2000:]
    assert len(set(json.loads(done.stdout.splitlines()[-1]))) == 10
    assert turns(home) == 10


ACTIVITY = """
import asyncio, sys
from temporalio.testing import ActivityEnvironment
from upthread.integrations.temporal import Tell, upthread_tell
asyncio.run(ActivityEnvironment().run(upthread_tell, Tell(*sys.argv[1:5], "rehearsal")))
"""


def test_an_activity_whose_worker_is_killed_in_the_turn_is_gone_on_with_in_the_same_session(home):
    text = "[[rehearse: slow 40 100]] [[rehearse: say finished]]"
    words = ["spec/planner", text, str(home.repository), home.database]
    worker = subprocess.Popen(
        [sys.executable, "-c", ACTIVITY, *words],
        env={**os.environ, **home.environment},
        start_new_session=True,
    )
    deadline_s, session = time.monotonic() + 60, ""
    while not session:
        assert time.monotonic() < deadline_s
        with contextlib.suppress(AssertionError):  # there is none yet
            session = home.upthread("id", "spec/planner")
    worker.kill()
    worker.wait()
    tell = tell_of(home, text)
    told = asyncio.run(ActivityEnvironment().run(upthread_tell, tell))
    assert told["outcome"] == "ok"
    assert turns(home) == 1
    assert home.upthread("id", "spec/planner") == session
    assert asyncio.run(ActivityEnvironment().run(upthread_tell, tell)) == told
