"""Each framework's store under kills at every commit, and under sixteen processes at one thread."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.integrations.steps import EACH, FRAMEWORKS, PROCESSES, STEPS

LANGGRAPH_COMMITS_MIN = 2 * STEPS


def steps(what, framework, place):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.integrations.steps",
            what,
            framework,
            str(place.directory),
            place.database,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_run_killed_at_any_commit_goes_on_and_no_finished_step_is_done_again(framework, place):
    found = steps("kills", framework, place)
    assert found["faults"] == []
    assert found["kills"] >= 2 * STEPS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_of_sixteen_processes_at_one_thread_each_word_is_kept_once_and_in_order(framework, place):
    found = steps("crowd", framework, place)
    assert found["failed"] == 0
    assert found["written"] == list(range(PROCESSES * EACH))
    assert found["is_ordered"]
