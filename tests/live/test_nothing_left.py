"""Whoever ends upthread while the real OpenCode runs a command: no process, no port is left."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.live.shell import Shell
from tests.support.ports import listening, listening_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

STUBBORN = """\
import signal, socket, time
for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
server = socket.create_server(("127.0.0.1", 0))
open("serving", "w").close()
time.sleep(600)
"""
WITHIN_S = 12.0


def processes_of(place: Path) -> set[int]:
    """The processes that have a test's directory in their environment."""
    found: set[int] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(place / "home").encode() in (process / "environ").read_bytes():
                found.add(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT])
def test_no_process_and_no_port_is_left(opencode_shell: Shell, project, tmp_path, signal_number):
    (project / "serve.py").write_text(STUBBORN)
    command = {"command": "setsid python3 serve.py", "description": "serve"}
    running = opencode_shell.start(
        "tell", "spec-42/constructor", f"[[CALL bash {json.dumps(command)}]]"
    )
    assert running.stdout is not None
    until_s = time.monotonic() + 90
    while not (project / "serving").exists() and time.monotonic() < until_s:
        time.sleep(0.05)
    ours = processes_of(tmp_path) - {running.pid}
    sockets = listening_of(ours)
    assert len(sockets) == 2, "OpenCode's own and the command's"
    running.send_signal(signal_number)
    running.stdout.close()
    running.wait()
    until_s = time.monotonic() + WITHIN_S
    while time.monotonic() < until_s and processes_of(tmp_path):
        time.sleep(0.1)
    left = processes_of(tmp_path)
    assert [subprocess.getoutput(f"ps -o args= -p {pid}") for pid in left] == []
    assert not sockets.keys() & listening().keys()
