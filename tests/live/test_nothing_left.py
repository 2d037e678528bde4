"""Whoever ends upthread while the real OpenCode runs a command: no process, no port is left."""

from __future__ import annotations

import signal

import pytest
from tests.live.agents import ADDRESS, OPENCODE
from tests.live.shell import processes_with, wait_until
from tests.support.ports import listening, listening_of
from tests.support.sets import SOAK

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

STUBBORN = """\
import signal, socket, time
for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
server = socket.create_server(("127.0.0.1", 0))
open("serving", "w").close()
time.sleep(600)
"""


@pytest.mark.parametrize("name", ["opencode"])
@pytest.mark.parametrize(
    "signal_number",
    [pytest.param(signal.SIGKILL, marks=SOAK), pytest.param(signal.SIGINT, marks=SOAK)],
)
def test_no_process_and_no_port_is_left(shell, signal_number):
    (shell.project / "serve.py").write_text(STUBBORN)
    running = shell.start("tell", ADDRESS, OPENCODE.command("setsid python3 serve.py"))
    assert running.stdout is not None
    wait_until((shell.project / "serving").exists, "server of the command")
    ours = processes_with(str(shell.home)).keys() - {running.pid}
    sockets = listening_of(ours)
    assert len(sockets) == 2, "OpenCode's own and the command's"
    running.send_signal(signal_number)
    running.stdout.close()
    running.wait()
    wait_until(lambda: not processes_with(str(shell.home)), "end of all processes")
    assert not sockets.keys() & listening().keys()
