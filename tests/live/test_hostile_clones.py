"""Hostile clones in the real agents, set up with upthread: hooks, plug-in and MCP server run there.

An agent loads some of a repository by itself: that is the agent's own trust, and is only counted. A
program that a process of ours runs or imports is judged by the parents of each run: the nearest
parent that is an agent, or ours, has caused the run.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live.hooked import SET_UPS, SetUp
from tests.live.shell import processes_with, wait_until
from tests.support.decoys import Decoys
from tests.support.hostile_clones import CLONES, Canary, make_ordinary_repository, runs_of_ours
from tests.support.sets import EXTENDED, SOAK, spread

from upthread.boundary.programs import own_module
from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

HOSTILE = (
    *("python_module", "python_package", "python_standard_library", "python_libraries"),
    *("python_bytecode", "clean_filter", "fsmonitor_of_a_worktree", "ssh_command"),
    *("missing_commit", "embedded_bare_repository", "embedded_partial_clone", "git_file"),
    *("submodule", "nested_repository", "executables_in_the_root", "node_packages"),
    *("agents_commands", "hooks", "waiting_head", "endless_role"),
)
PAIRWISE = {
    ("codex", "python_module"),
    ("claude-code", "ssh_command"),
}


@pytest.fixture(scope="module")
def people(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], SetUp]]:
    """Make a person of each agent once, with upthread set up for it and one place for clones."""
    made: dict[str, SetUp] = {}
    with RehearsalModel() as model:

        def person(name: str) -> SetUp:
            if name not in made:
                kind = SET_UPS[name]
                binary = request.getfixturevalue(kind.agent.fixture)
                made[name] = kind(binary, model, tmp_path_factory.mktemp(name))
                # The test's own verbs are isolated, so that only the agent's are tested.
                made[name].program = list(own_module("upthread"))
            return made[name]

        yield person


@pytest.fixture
def person(name: str, people: Callable[[str], SetUp]) -> SetUp:
    return people(name)


def clone(person: SetUp, workstream: str) -> None:
    """Clone an ordinary repository anew, which upthread then knows."""
    shutil.rmtree(person.project)
    shutil.rmtree(person.project.with_name("outside"), ignore_errors=True)
    make_ordinary_repository(person.project)
    person.use(workstream)


def play(person: SetUp, directory: Path) -> None:
    """Let the agent delegate in a clone. It may well fail there, and must not hang."""
    person.play(f"Go. {person.delegate('Plan it.')}", directory)
    wait_until(lambda: not processes_with(str(person.own)), "end of all processes")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=EXTENDED if (name, kind) in PAIRWISE else SOAK)
        for name in SET_UPS
        for kind in HOSTILE
    ],
)
def test_a_real_agent_in_it_has_us_run_nothing_of_it(kind, person, record_property):
    clone(person, "spec-1")
    canary = Canary(person.project.with_name("outside"))
    CLONES[kind].build(person.project, canary)
    play(person, person.project / CLONES[kind].within)
    runs = canary.runs()
    ours = runs_of_ours(runs)
    record_property("run by the agent itself", len(runs) - len(ours))
    assert ours == ()


@pytest.mark.parametrize("name", spread(SET_UPS, first=0, extended=["claude-code", "codex"]))
def test_in_an_ordinary_clone_and_among_decoys_its_delegation_is_on_record(person, tmp_path):
    """Without this the test above proves nothing: hooks that never run cannot run anything.

    Decoys stand for every module and program that ours might import or start.
    """
    clone(person, "spec-2")
    decoys = Decoys(person.project, tmp_path / "canary")
    play(person, person.project)
    assert person.planner("spec-2", turns=1)["turns"] == 1
    decoys.assert_nothing_ran()
