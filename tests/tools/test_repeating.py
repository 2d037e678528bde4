"""A failed test of the real agents is repeated once, and a second flaky test fails the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sets import EXTENDED

pytestmark = pytest.mark.timeout(600)

REPOSITORY = Path(__file__).resolve().parents[2]
SWITCHES = {"CI", "UPTHREAD_REPEAT_FAILED", "UPTHREAD_FLAKY_FILE"}
HOOKS = """
from tests.conftest import pytest_sessionfinish, pytest_terminal_summary
from tests.live.conftest import pytest_runtest_protocol
"""
PLANTED = """
import pytest
import threading
from pathlib import Path

def fail_once(name):
    file = Path(__file__).with_name(name)
    is_first = not file.exists()
    file.touch()
    assert not is_first, f"the first time of {name}"

@pytest.fixture(scope="module")
def place():
    fail_once("fixture")

@pytest.fixture
def left():
    yield
    fail_once("teardown")
"""
TESTS = {
    "good": "def test_good():\n    pass\n",
    "flaky": "def test_flaky():\n    fail_once('flaky')\n",
    "flaky fixture": "def test_place(place):\n    pass\n",
    "flaky teardown": "def test_left(left):\n    pass\n",
    "bad": "def test_bad():\n    assert False, 'always'\n",
    "hanging": "@pytest.mark.timeout(1)\ndef test_hanging():\n    threading.Event().wait()\n",
    "skipped": "def test_skipped():\n    fail_once('skipped') or pytest.skip('busy')\n",
}


def run(
    directory: Path, tests: list[str], *more: str, **variables: str
) -> tuple[int, list[str], str]:
    """Run planted tests; returns the exit code, the lines about flaky tests, and all lines."""
    (directory / "conftest.py").write_text(HOOKS)
    (directory / "test_planted.py").write_text("\n".join([PLANTED, *map(TESTS.get, tests)]))
    ours = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    options = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(directory))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *more, str(directory)],
        cwd=directory,
        env={**ours, "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    flaky = [line for line in done.stdout.splitlines() if line.startswith("flaky: ")]
    return done.returncode, flaky, done.stdout + done.stderr


@pytest.mark.extended
def test_one_flaky_test_passes_and_is_reported(tmp_path):
    code, flaky, text = run(tmp_path, ["good", "flaky"], CI="1")
    assert code == 0, text
    (line,) = flaky
    assert "test_planted.py::test_flaky: call: " in line
    assert "AssertionError: the first time of flaky" in line


@pytest.mark.soak
def test_two_flaky_tests_fail_the_run(tmp_path):
    """A fixture that fails once makes a flaky test, whether before the test or after it."""
    tests = ["flaky fixture", "good", "flaky teardown"]
    code, flaky, text = run(tmp_path, tests, "-n", "2", UPTHREAD_REPEAT_FAILED="1")
    assert code == 1, text
    assert flaky[-1] == "flaky: 2 tests; more than 1 fail the run"
    assert len(flaky) == 3


@pytest.mark.extended
def test_a_test_that_fails_twice_has_failed_and_is_not_flaky(tmp_path):
    code, flaky, text = run(tmp_path, ["good", "bad"], CI="1")
    assert (code, flaky) == (1, []), text
    assert "1 failed, 1 passed" in text


@EXTENDED
def test_a_test_that_hangs_twice_is_ended_twice(tmp_path):
    code, _, text = run(tmp_path, ["hanging"], CI="1")
    assert code == 1, text
    assert "Timeout (>1.0s)" in text


@EXTENDED
def test_one_flaky_test_in_each_of_two_sessions_fails_the_ci_run(tmp_path):
    """A test that failed and is then skipped is flaky too."""
    of_run = {"CI": "1", "UPTHREAD_FLAKY_FILE": str(tmp_path / "flaky tests")}
    assert run(tmp_path, ["flaky"], "-n", "2", **of_run)[0] == 0
    code, flaky, text = run(tmp_path, ["good", "skipped"], **of_run)
    assert code == 1, text
    assert flaky[-1] == "flaky: 2 tests; more than 1 fail the run"
    assert run(tmp_path, ["good"], **of_run)[0] == 0, "a session without a flaky test passes"
