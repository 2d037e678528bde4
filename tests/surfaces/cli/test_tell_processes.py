"""Which processes a turn starts beside git: the agent, its guard, and nothing that was tried before."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.extended

STARTING = """
import json, sys
started = []

def note(event, arguments):
    if event == "subprocess.Popen":
        started.append([str(word) for word in arguments[1]])
    elif event in {{"os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}}:
        started.append([event])

sys.addaudithook(note)
from upthread.surfaces.cli.program import main
code = main({arguments!r})
sys.stderr.write("\\nstarted:" + json.dumps(started))
sys.exit(code)
"""


def started(up, *arguments: str) -> list[list[str]]:
    """The command lines that upthread itself starts, those of git left out."""
    child = subprocess.run(
        [sys.executable, "-c", STARTING.format(arguments=arguments)],
        cwd=up.directory,
        env=up.environment,
        capture_output=True,
        timeout=60,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    every: list[list[str]] = json.loads(child.stderr.partition("\nstarted:")[2])
    return [words for words in every if not words[0].endswith("/git")]


@pytest.mark.soak
def test_a_second_turn_starts_the_agent_and_its_guard_alone(shared):
    tell = ("tell", "w/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    started(shared, *tell)
    guard, agent = started(shared, *tell)
    assert any(word.endswith("_guard.py") for word in guard)
    assert agent[-1] == "upthread.agents.rehearsal"
