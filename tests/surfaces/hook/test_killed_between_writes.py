"""A hook that is killed just before one of the files it writes: what comes after is kept all the same.

The kill is exact, where test_kills.py kills at random: a moment between two files is short.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from tests.support.sets import spread
from tests.surfaces.hook.conftest import PROGRAM

pytestmark = pytest.mark.extended

KILLED = """
import os, runpy, signal, sys
before, program = int(sys.argv[1]), sys.argv[2]
replace, written = os.replace, []
def counted(*words):
    if len(written) == before:
        os.kill(os.getpid(), signal.SIGKILL)
    written.append(words)
    replace(*words)
os.replace = counted
sys.argv = sys.argv[2:]
runpy.run_path(program, run_name="__main__")
"""
WRITES_MAX = 8
"""More than any hook of a delegation writes."""

DRAIN = (sys.executable, "-m", "upthread", "drain")


def killed(place, request, before):
    """Run a hook and kill it before its nth file; returns whether it came so far."""
    words = (sys.executable, "-I", "-S", "-c", KILLED, str(before), str(PROGRAM), "opencode")
    done = subprocess.run(
        [*words, str(place.home)],
        cwd=place.project,
        env=place.environment,
        input=json.dumps(request).encode(),
        capture_output=True,
        check=False,
    )
    return done.returncode == -signal.SIGKILL


@pytest.fixture
def planned(place):
    (place.project / "upthread.toml").write_text('[roles.planner]\ncontinuity = "resume"\n')
    place.upthread("use", "spec-42")
    place.start_drains_by_words(DRAIN)
    return place


@pytest.mark.parametrize("role", spread(["planner", "stranger"], extended=0))
@pytest.mark.parametrize("dies", spread(["before", "started"], extended=0))
def test_a_hook_killed_before_any_of_its_files_costs_no_word_of_what_follows(planned, dies, role):
    words = {"prompt": "Make KIWI.", "reply": "Made MANGO.", "outcome": "ok"}
    calls = []
    for before in range(WRITES_MAX):
        call = f"c{before}"
        requests = {
            "before": planned.request("before", call, prompt=words["prompt"], role=role),
            "started": planned.request("started", call, child=f"ses_{call}", role=role),
            "ended": planned.request("ended", call, child=f"ses_{call}", role=role, **words),
        }
        was_killed = killed(planned, requests.pop(dies), before)
        if dies == "started":
            assert planned.hook(requests.pop("before")).code == 0
        for request in requests.values():
            assert planned.hook(request).code == 0
        planned.wait_for_words()
        calls.append(call)
        if not was_killed:
            break
    assert 2 <= len(calls) < WRITES_MAX, "it was killed at least once, and once not at all"
    planned.upthread("drain")
    conversations = planned.upthread("audit", "spec-42")["conversations"]
    turns = [turn for each in conversations for turn in each["turns"]]
    for call in calls:
        told = [each for each in turns if each["events"][0]["inputs"]["call_id"] == call]
        said = json.dumps(told)
        assert (len(told), said.count("KIWI"), said.count("MANGO")) == (1, 1, 1), (call, told)
