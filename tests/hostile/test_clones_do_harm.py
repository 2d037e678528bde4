"""The corpus itself: each clone can be built, and a careless program does set its canary off."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.hostile_clones import CLONES, Canary, runs_of_ours
from tests.support.sets import spread

TIMEOUT_S = 60


def careless(line: str, directory: Path) -> None:
    """Run a line as somebody does who thinks of nothing; how it ends is of no interest."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory.parent),
        "PYTHONPATH": "",
        "GIT_TERMINAL_PROMPT": "0",
    }
    subprocess.run(
        ["sh", "-c", line],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_each_clone_says_what_it_attacks():
    assert all(clone.attacks for clone in CLONES.values())
    assert len({clone.attacks for clone in CLONES.values()}) == len(CLONES)


CARELESS = [name for name, clone in CLONES.items() if clone.careless]
ONE_OF_EACH_GROUP = list({CLONES[name].group: name for name in CARELESS}.values())


@pytest.mark.parametrize("name", spread(CARELESS, first=0, extended=ONE_OF_EACH_GROUP))
def test_its_canary_is_set_off_by_whoever_is_careless_there(name, tmp_path):
    clone = CLONES[name]
    directory = tmp_path / "clone"
    canary = Canary(tmp_path / "outside")
    clone.build(directory, canary)
    assert canary.runs() == (), "building it runs nothing"
    for line in clone.careless:
        canary.forget()
        careless(line, directory / clone.within)
        assert canary.runs(), f"nothing was run by: {line}"


@pytest.mark.extended
def test_a_canary_tells_who_ran_it(tmp_path):
    canary = Canary(tmp_path / "outside")
    program = canary.command("sung")
    started = f"import subprocess; subprocess.run([{program!r}])"
    ours = tmp_path / "upthread" / "surfaces" / "hook.py"
    ours.parent.mkdir(parents=True)
    ours.write_text(started)
    by_agent = f"import subprocess; subprocess.run([{str(tmp_path / 'codex')!r}])"
    (tmp_path / "codex").write_text(f"#!/bin/sh\n{program}; exit 0\n")
    (tmp_path / "codex").chmod(0o755)
    agents = tmp_path / "upthread" / "agents" / "process.py"
    agents.parent.mkdir(parents=True)
    agents.write_text(by_agent)
    for command in ([program, "x\ny"], [sys.executable, ours], [sys.executable, agents]):
        subprocess.run(command, check=True)
    nobodys, of_ours, agents_own = canary.runs()
    assert (nobodys.name, nobodys.arguments) == ("sung", ("x\ny",))
    assert str(ours) in of_ours.processes[1]
    assert "codex" in agents_own.processes[1]
    assert runs_of_ours(canary.runs()) == (of_ours,), "what an agent that we run runs is its own"


@pytest.mark.extended
def test_a_module_and_a_script_of_it_leave_the_same_trace(tmp_path):
    canary = Canary(tmp_path / "outside")
    (tmp_path / "decoy.py").write_text(canary.module("python"))
    (tmp_path / "decoy.cjs").write_text(canary.javascript("node"))
    (tmp_path / "decoy.mjs").write_text(canary.javascript("modules", is_module=True))
    subprocess.run([sys.executable, "-c", "import decoy"], cwd=tmp_path, check=True)
    for script in ("decoy.cjs", "decoy.mjs"):
        subprocess.run(["node", script], cwd=tmp_path, check=True)
    assert [run.name for run in canary.runs()] == ["python", "node", "modules"]
