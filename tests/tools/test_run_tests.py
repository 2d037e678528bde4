"""The three sets of tests: each contains the one before, and the first has every promise."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

from tools.run_tests import EXPRESSIONS, REPOSITORY

from upthread.testing import agent_conformance, store_conformance

FIRST = EXPRESSIONS["test"]


@cache
def first_set_of(*places: str) -> str:
    """Return the ids of the first set's tests in some files, one a line."""
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", FIRST, *places],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout
    return listed.stdout


def test_ci_runs_the_checks_the_readmes_command_and_all_the_rest():
    lines = (REPOSITORY / ".ci/run").read_text().splitlines()
    (targets,) = [line for line in lines if line.startswith("for what in")]
    assert targets == "for what in check test test-rest; do"
    assert "make test " in (REPOSITORY / "README.md").read_text()


def test_the_rest_is_what_the_first_set_leaves_out():
    assert FIRST == "not extended and not soak"
    assert EXPRESSIONS["rest"] == "extended and not soak"


def numbers_in(listed: str) -> set[str]:
    return set(re.findall(r"(?<![A-Za-z])[AS]\d+(?=_)", listed))


def test_the_first_set_has_every_promise_of_the_store():
    listed = first_set_of("tests/store/test_store_conformance.py")
    assert {each.number for each in store_conformance.PROMISES} <= numbers_in(listed)


def test_the_first_set_has_every_promise_of_the_agents():
    listed = first_set_of("tests/agents")
    assert {each.number for each in agent_conformance.PROMISES} <= numbers_in(listed)


def test_the_first_set_has_every_adapter_with_its_real_agent():
    listed = first_set_of("tests/live")
    missing = {
        agent
        for agent in ("claude_code", "codex", "opencode", "gemini", "acp")
        if agent not in listed
    }
    assert not missing
