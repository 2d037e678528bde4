"""Each framework's store under kills, crowds, cold openings and a clock that goes back."""

import json
import subprocess
import sys

import pytest
from tests.integrations.steps import EACH, FRAMEWORKS, OPENINGS, PROCESSES, STEPS
from tests.support.sets import SOAK

DATABASES = ("sqlite", "postgres")


def two_frameworks(*, first: int):
    """Return two frameworks, each on another database; all on both in `make soak`."""
    chosen = {(first + 2 * at, database) for at, database in enumerate(DATABASES)}
    cases = [
        pytest.param(
            framework,
            database,
            marks=() if (at, database) in chosen else SOAK,
        )
        for at, framework in enumerate(FRAMEWORKS)
        for database in DATABASES
    ]
    return pytest.mark.parametrize(("framework", "place"), cases, indirect=["place"])


def steps(what, framework, place):
    words = [what, framework, str(place.directory), place.database]
    done = subprocess.run(
        [sys.executable, "-m", "tests.integrations.steps", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(300)
@two_frameworks(first=0)
def test_a_run_killed_at_any_commit_goes_on_and_no_finished_step_is_done_again(framework, place):
    found = steps("kills", framework, place)
    assert found["faults"] == []
    assert found["kills"] >= 2 * STEPS


@pytest.mark.timeout(300)
@two_frameworks(first=1)
def test_of_sixteen_processes_at_one_thread_each_word_is_kept_once_and_in_order(framework, place):
    found = steps("crowd", framework, place)
    assert found["failed"] == 0
    assert found["written"] == list(range(PROCESSES * EACH))
    assert found["is_ordered"]


@pytest.mark.timeout(300)
@two_frameworks(first=1)
def test_of_processes_that_open_a_new_record_at_once_none_fails(framework, place):
    found = steps("cold", framework, place)
    assert found == {"failed": 0, "written": list(range(OPENINGS))}


@pytest.mark.timeout(300)
@two_frameworks(first=0)
def test_the_order_is_that_of_the_steps_whatever_the_clock_says(framework, place):
    found = steps("clock", framework, place)
    assert found["written"] == list(range(STEPS))
    assert found["looks"] > STEPS
