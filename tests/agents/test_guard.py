"""What an agent started beside its group ends too when upthread is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.ports import listening, listening_of
from tests.support.sets import spread

from upthread.agents._guard import MARK_VARIABLE, marked_processes, started_guard
from upthread.agents._process import ChildStart, started_at_ticks, started_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="marks are found in /proc")
SOURCE = str(Path(__file__).parents[2] / "src")
WITHIN_S = 30.0

TOOL = """\
import signal, socket, time
for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(600)
"""
AGENT = f"""\
import subprocess, sys, time
tool = subprocess.Popen(
    [sys.executable, "-I", "-c", {TOOL!r}], start_new_session=True, stdout=subprocess.PIPE
)
print(tool.pid, int(tool.stdout.readline()), flush=True)
time.sleep(600)
"""
HOLDER = f"""\
import sys
import anyio
sys.path.insert(0, {SOURCE!r})
from upthread.agents._process import ChildStart, started_child

async def main():
    start = ChildStart(
        command=(sys.executable, "-I", "-c", {AGENT!r}),
        working_directory="/", stderr_path=None, redactor=None, ends_at_eof=False,
    )
    async with started_child(start) as child:
        print(child.pid, (await child.read_line()).decode(), flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    "signal_number", spread([signal.SIGKILL, signal.SIGINT, signal.SIGTERM], name=str)
)
def test_no_process_and_no_port_is_left_when_we_are_ended(signal_number):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    agent, tool, port = map(int, holder.stdout.readline().split())
    sockets = listening_of([tool])
    assert set(sockets.values()) == {port}
    holder.send_signal(signal_number)
    holder.wait()
    holder.stdout.close()
    until_s = time.monotonic() + WITHIN_S
    while time.monotonic() < until_s and (started_at_ticks(tool) or started_at_ticks(agent)):
        time.sleep(0.02)
    assert (started_at_ticks(agent), started_at_ticks(tool)) == (None, None)
    assert not sockets.keys() & listening().keys()


@pytest.mark.anyio
async def test_the_guard_ends_with_its_agent_and_is_reaped(tmp_path):
    start = ChildStart(
        command=("cat",), working_directory=str(tmp_path), stderr_path=None, redactor=None
    )
    before = children()
    async with started_child(start) as child:
        (guard,) = children() - before - {child.pid}
        assert os.getpgid(guard) == guard
        assert kept_of(guard) == (b"", "/")
    assert children() <= before


def kept_of(pid: int) -> tuple[bytes, str]:
    """The environment and the working directory of a process."""
    place = Path(f"/proc/{pid}")
    return (place / "environ").read_bytes(), str((place / "cwd").readlink())


def test_a_guard_that_is_released_ends_nothing(no_process_is_left):
    mark = "0123456789abcdef"
    marks = f"{no_process_is_left}:{mark}"
    guard = started_guard(mark)
    assert guard is not None
    bystander = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK_VARIABLE: marks})
    try:
        guard.release()
        assert marked_processes(mark) == (bystander.pid,)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def children() -> set[int]:
    """Our own children."""
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))
