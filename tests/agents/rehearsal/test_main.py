from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SOURCE = str(Path(__file__).parents[3] / "src")
COMMAND = [sys.executable, "-P", "-m", "upthread.agents.rehearsal"]
START_S_MAX = 0.5
"""Some ten times what it takes; a heavy import (asyncio, msgspec, acp) costs more than that."""

MODULES_OF_UPTHREAD = """
import runpy, sys, os
os._exit = lambda code: None
runpy.run_module("upthread.agents.rehearsal", run_name="__main__")
print(*sorted(sys.modules), file=sys.stderr)
"""


def _run(tmp_path: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": SOURCE,
        "UPTHREAD_REHEARSAL_HOME": str(tmp_path / "sessions"),
        **more,
    }
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=30,
    )  # fmt: skip


def test_bad_settings_end_it_at_once_with_a_line_that_says_what(tmp_path: Path) -> None:
    done = _run(tmp_path, *COMMAND, UPTHREAD_REHEARSAL_CAPABILITIES="no_such_word")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no_such_word" in done.stderr


def test_a_directory_that_cannot_be_made_ends_it_too(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file")
    done = _run(tmp_path, *COMMAND)
    assert done.returncode == 2
    assert "sessions" in done.stderr


def test_it_ends_with_its_input_and_starts_fast(tmp_path: Path) -> None:
    took_s: list[float] = []
    for _ in range(5):
        begun_s = time.monotonic()
        done = _run(tmp_path, *COMMAND)
        took_s.append(time.monotonic() - begun_s)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert min(took_s) < START_S_MAX


def test_it_imports_nothing_else_of_upthread_and_nothing_heavy(tmp_path: Path) -> None:
    modules = _run(tmp_path, sys.executable, "-P", "-c", MODULES_OF_UPTHREAD).stderr.split()
    ours = {name for name in modules if name.startswith("upthread")}
    others = {name for name in ours if not name.startswith("upthread.agents.rehearsal")}
    assert others == {"upthread", "upthread.agents"}
    assert "upthread.agents.rehearsal.roles" in ours
    assert not {"asyncio", "subprocess", "msgspec", "acp", "apsw", "dataclasses"} & set(modules)


def test_one_that_outlives_its_client_ends_its_turn_first_and_does_not_hear_sigterm(
    start: Any,
) -> None:
    agent = start(UPTHREAD_REHEARSAL_CAPABILITIES="outlives")
    agent.send_prompt(agent.new(), "[[rehearse: slow 10 30]] [[rehearse: say the end]]")
    agent.wait_for(lambda update: "chunk 1 of" in str(update))
    agent.process.send_signal(signal.SIGTERM)
    agent.process.stdin.close()
    assert agent.wait_until_gone() == 0
    assert agent.reply.endswith("chunk 10 of 10\nthe end")
