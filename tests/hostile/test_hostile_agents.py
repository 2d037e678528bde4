"""Every adapter bears every hostile agent: bounded, parked with the limit's name, and going on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.support import hostile_agents
from tests.support.hostile_agents import CASES, PROGRAM, WIRES, Case, attack, attack_run
from tests.support.world import SMALL_SPECIFICATION, World

import upthread
from upthread.core.agents import ACP, AGENTS, NATIVE

AGENT = f"acp:{sys.executable} -I {PROGRAM} acp"
ALL = [
    pytest.param(case, wire, id=f"{wire}-{index}-{case.act}")
    for index, case in enumerate(CASES)
    for wire in case.wires
]
IN_SHORT = {"acp": None, "claude-code": {"text", "number"}, "codex": {"nested", "wrong_types"}}
"""What the quick version runs: all of it on ACP, and of what the readers share a part on others."""


def is_in_short(case: Case, wire: str) -> bool:
    chosen = IN_SHORT.get(wire, {"text", "line"})
    return bool(case.short) and (chosen is None or case.act in chosen)


SHORT = [each for each in ALL if is_in_short(*each.values)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("case", "wire"), SHORT)
def test_a_hostile_agent_is_borne(case: Case, wire: str, tmp_path: Path) -> None:
    attack(case, wire, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("case", "wire"), ALL)
def test_a_hostile_agent_is_borne_in_full(case: Case, wire: str, tmp_path: Path) -> None:
    attack(case, wire, tmp_path, is_full=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("case", "wire"), [each for each in SHORT if each.values[1] == "acp"])
def test_a_run_parks_with_a_reason_and_a_sound_agent_brings_it_to_its_end(
    case: Case, wire: str, tmp_path: Path
) -> None:
    attack_run(case, wire, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("case", "wire"), ALL)
def test_a_run_parks_and_a_sound_agent_brings_it_to_its_end_in_full(
    case: Case, wire: str, tmp_path: Path
) -> None:
    attack_run(case, wire, tmp_path, is_full=True)


def pipeline(task: str) -> str:
    return f'[[pipeline.steps]]\nrole = "planner"\ntask = "{task}"\n'


@pytest.mark.anyio
async def test_a_run_parks_with_the_limit_and_goes_on_with_a_healthy_agent(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.configure(pipeline("[[hostile: nested 400]]"))
    options = upthread.RunOptions(agent=f"{AGENT} ses_run")
    async with world.open() as project:
        parked = await project.run("spec-42", SMALL_SPECIFICATION, options)
    assert parked.parked is not None
    assert "the nesting of one frame" in parked.parked.detail
    async with world.open() as project:
        view = await project.run("spec-42", None, upthread.RunOptions(agent="rehearsal"))
    assert view.parked is None or "past a limit" not in view.parked.detail
    world.check_histories()


def test_every_agent_with_an_interface_of_its_own_has_a_wire_to_be_hostile_on() -> None:
    kinds = {name: {way.kind for way in row.ways} for name, row in AGENTS.items()}
    assert set(WIRES) == {ACP, *(name for name in kinds if NATIVE in kinds[name])}


def test_what_the_suite_runs_is_what_its_program_can_do() -> None:
    source = (Path(hostile_agents.__file__).parent / "program.py").read_text()
    for case in CASES:
        assert case.act == "none" or f"def {case.act}(" in source
