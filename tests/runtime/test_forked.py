"""A process that is forked beside an agent or an open project leaves its parent's alone."""

import os
import signal
import subprocess
import sys
import time

from upthread.runtime.system import started_at_ticks

AGENT = """
import os, signal, sys, time
import anyio
from upthread.agents._process import ChildStart, started_child
from upthread.errors import UpstreamError

async def main():
    start = ChildStart(command=["sh", "-c", "setsid sleep 600 & echo $!; cat"], stderr_path=None,
                       working_directory=os.getcwd(), redactor=None, environment=dict(os.environ))
    async with started_child(start) as child:
        print((await child.read_line()).decode(), flush=True)
        pid = os.fork()
        if pid == 0:
            in_child(child)
        await in_parent(child, pid)
"""

SPEAKS = """
def in_child(child):
    try:
        anyio.run(child.write_line, b"the child's")
    except UpstreamError as error:
        print(error, flush=True)
    anyio.run(child.stop)
    os._exit(3)

async def in_parent(child, pid):
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    await child.write_line(b"the parent's")
    print((await child.read_line()).decode())

anyio.run(main)
"""

LIVES_ON = """
def in_child(child):
    time.sleep(60)

async def in_parent(child, pid):
    print(pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""

PROJECT = """
import os, sys
import upthread

with upthread.open_blocking(database="upthread.db") as (up, wait):
    pid = os.fork()
    if pid == 0:
        try:
            wait(up.workstreams)
        except upthread.UsageError as error:
            print(error, flush=True)
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print(wait(up.workstreams))
"""


def ran(program: str, directory) -> list[str]:
    """Run it with files for its output: a child that lives on holds them open."""
    environment = {**os.environ, "UPTHREAD_HOME": str(directory), "HOME": str(directory)}
    words = [sys.executable, "-c", program]
    with (directory / "out").open("w+") as out, (directory / "err").open("w+") as err:
        subprocess.run(
            words, cwd=directory, env=environment, stdout=out, stderr=err, timeout=60, check=False
        )
        assert (directory / "err").read_text() == ""
        return (directory / "out").read_text().splitlines()


def test_a_child_does_not_speak_to_its_parents_agent_and_does_not_end_it(tmp_path):
    _, refused, code, echo = ran(AGENT + SPEAKS, tmp_path)
    assert "open the project again after the fork" in refused
    assert (code, echo) == ("3", "the parent's")


def test_an_agents_tools_end_with_its_parent_though_a_child_lives_on(tmp_path):
    tool, child = map(int, ran(AGENT + LIVES_ON, tmp_path))
    try:
        until_s = time.monotonic() + 10
        while started_at_ticks(tool) is not None:
            assert time.monotonic() < until_s, "nobody ended it"
            time.sleep(0.05)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_project_that_was_opened_before_the_fork_is_refused_in_the_child(tmp_path):
    refused, code, listed = ran(PROJECT, tmp_path)
    assert "opened before this process was forked" in refused
    assert (code, listed) == ("3", "()")
