"""Every adapter bears every hostile agent: bounded, parked with the limit's name, and going on."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.hostile_agents import CASES, PROGRAM, WIRES, Case, attack, attack_run
from tests.support.sets import EXTENDED, SOAK
from tests.support.world import SMALL_SPECIFICATION, World

import upthread
from upthread.core.agents import ACP, AGENTS, NATIVE

AGENT = f"acp:{sys.executable} -I {PROGRAM} acp"
FIRST = {
    ("acp", "nested"),
    ("claude-code", "number"),
    ("codex", "wrong_types"),
    ("opencode", "line"),
}
EXTENDED_ELSEWHERE = {
    "claude-code": {"text"},
    "codex": {"nested", "closes"},
    "opencode": {"garbage", "forks"},
}
"""What `make test-all` runs on the other wires; it runs every second act on ACP."""

RUNS_EXTENDED = {"text", "calls", "closes", "options", "wrong_types"}
"""Acts of which `make test-all` attacks a run too. On ACP."""


def sets(*, is_run: bool = False) -> list[Any]:
    """Return every case on every wire, in short and in full, each marked with its set."""
    return [
        pytest.param(
            case,
            wire,
            is_full,
            id=f"{wire}-{index}-{case.act}{'-full' if is_full else ''}",
            marks=_marks(case, wire, is_run=is_run) if not is_full else (SOAK,),
        )
        for index, case in enumerate(CASES)
        for wire in case.wires
        for is_full in (False, True)
        if is_full or case.short
    ]


def _marks(case: Case, wire: str, *, is_run: bool) -> tuple[pytest.MarkDecorator, ...]:
    if is_run:
        is_extended = wire == ACP and case.act in RUNS_EXTENDED
    elif (wire, case.act) in FIRST:
        return ()
    else:
        is_second = wire == ACP and CASES.index(case) % 2 == 0
        is_extended = is_second or case.act in EXTENDED_ELSEWHERE.get(wire, ())
    return (EXTENDED,) if is_extended else (SOAK,)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("case", "wire", "is_full"), sets())
def test_a_hostile_agent_is_borne(case: Case, wire: str, is_full: bool, tmp_path: Path) -> None:
    attack(case, wire, tmp_path, is_full=is_full)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("case", "wire", "is_full"), sets(is_run=True))
def test_a_run_parks_with_a_reason_and_a_sound_agent_brings_it_to_its_end(
    case: Case, wire: str, is_full: bool, tmp_path: Path
) -> None:
    attack_run(case, wire, tmp_path, is_full=is_full)


def pipeline(task: str) -> str:
    return f'[[pipeline.steps]]\nrole = "planner"\ntask = "{task}"\n'


@pytest.mark.anyio
async def test_a_run_parks_with_the_limit_and_goes_on_with_a_healthy_agent(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.configure(pipeline("[[hostile: nested 400]]"))
    options = upthread.RunOptions(agent=f"{AGENT} ses_run")
    async with world.open() as project:
        parked = await project.run("spec-42", SMALL_SPECIFICATION, options)
    assert "the nesting of one frame" in parked.parked.detail
    async with world.open() as project:
        view = await project.run("spec-42", None, upthread.RunOptions(agent="rehearsal"))
    assert view.parked is None or "past a limit" not in view.parked.detail
    world.check_histories()


def test_every_agent_with_an_interface_of_its_own_has_a_wire_to_be_hostile_on() -> None:
    kinds = {name: {way.kind for way in row.ways} for name, row in AGENTS.items()}
    assert set(WIRES) == {ACP, *(name for name in kinds if NATIVE in kinds[name])}
