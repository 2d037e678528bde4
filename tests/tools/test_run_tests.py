"""The three sets of tests: each contains the one before, and the first has every promise."""

import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache

from tests.support.sets import EXTENDED
from tools.run_tests import EXPRESSIONS, REPOSITORY

from upthread.core.agents import AGENTS
from upthread.surfaces.cli.program import VERBS
from upthread.testing import agent_conformance, store_conformance

FIRST = EXPRESSIONS["test"]


@cache
def first_set_of(*places: str) -> list[str]:
    """Return the ids of the first set's tests in some files."""
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", FIRST, *places],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout
    return [line for line in listed.stdout.splitlines() if "::" in line]


def test_ci_runs_the_checks_the_readmes_command_and_all_the_rest():
    lines = (REPOSITORY / ".ci/run").read_text().splitlines()
    (targets,) = [line for line in lines if line.startswith("for what in")]
    assert targets == "for what in check test test-rest; do"
    assert "make test " in (REPOSITORY / "README.md").read_text()


def test_the_rest_is_what_the_first_set_leaves_out():
    assert FIRST == "not extended and not soak"
    assert EXPRESSIONS["rest"] == "extended and not soak"


def numbers_in(tests: Iterable[str]) -> set[str]:
    return set(re.findall(r"(?<![A-Za-z])[AS]\d+(?=_)", "\n".join(tests)))


@EXTENDED
def test_the_first_set_has_every_promise_of_the_store():
    tests = first_set_of("tests/store/test_store_conformance.py")
    assert {each.number for each in store_conformance.PROMISES} <= numbers_in(tests)


@EXTENDED
def test_the_first_set_has_every_promise_of_the_agents():
    tests = first_set_of("tests/agents/test_agent_conformance.py")
    assert {each.number for each in agent_conformance.PROMISES} <= numbers_in(tests)


def adapter_tests() -> set[str]:
    """Return how the ids of the tests begin that each agent needs in the first set.

    Each folder of an agent has the promises on its real agent, and tests with a stand-in. The
    folder of ACP has the promises on OpenCode. An agent without a folder has a file of its own.
    """
    folders = {path.parent.name for path in (REPOSITORY / "src/upthread/agents").glob("*/*.py")}
    starts = {"tests/agents/test_agent_conformance.py::test_agent_keeps_promise[A"}
    for folder in folders - {"rehearsal"}:
        name = "opencode-acp" if folder == "acp" else folder.replace("_", "-")
        starts.add(f"tests/live/test_conformance.py::test_a_real_agent_keeps_promise[{name}-A")
        starts.add(f"tests/agents/{folder}/test_adapter.py::")
    starts |= {f"tests/live/test_{row.name}.py::" for row in AGENTS.values() if not row.folder}
    return starts


@EXTENDED
def test_the_first_set_has_every_adapter_with_its_real_agent():
    tests = first_set_of("tests/live", "tests/agents")
    starts = adapter_tests()
    assert len(starts) > 2 * len(AGENTS)
    assert not [start for start in starts if not any(test.startswith(start) for test in tests)]


@EXTENDED
def test_the_first_set_has_every_verb_with_its_effect():
    file = "tests/surfaces/cli/test_every_verb.py"
    test = f"{file}::test_each_verb_does_its_work_as_a_real_process"
    assert not {f"{test}[{verb}]" for verb in VERBS}.difference(first_set_of(file))
