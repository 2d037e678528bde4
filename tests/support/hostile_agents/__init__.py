"""Agents that mean harm, and what must come of it: a suite for everything that drives an agent.

Each case is a real process of upthread that tells a real process of a hostile agent one prompt,
over the agent's own wire, and then a second one. What must hold: upthread ends in time, with little
memory and a database that has grown by no more than is named here; the turn has an end, or is
parked with a reason that names the limit which was passed; and the next prompt gets its answer.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.hostile_agents.wires import WIRES
from tests.support.world import ALLOW, SMALL_PIPELINE

from upthread.core.agents import ACP, AGENTS
from upthread.core.quotas import (
    CALLS_AT_ONCE,
    CALLS_OF_TURN,
    FRAME,
    IDENTITY,
    NESTING,
    OPTIONS,
    PARTS_OF_TURN,
    TEXT_OF_TURN,
    VALUES,
    WHOLE_NUMBER,
)

MEMORY_MIB_MAX = 220
"""What upthread's process may hold at most, whatever an agent sends."""

DATABASE_MIB_MAX = 64
"""How much one hostile turn of this suite may add to the database."""

LOGS_MIB_MAX = 9
"""How much of the stderr of one process of an agent is kept, and a line that says so."""

CASE_S_MAX = 300.0
"""How long one prompt may take, on a machine that does much else."""
NEW_ID = "ses_hostile"
PROGRAM = Path(__file__).parent / "program.py"
LOOK_EVERY_S = 0.01
_KIB_OF_MIB = 1024
SOUND_AGENT = "rehearsal"
"""Who goes on with a run that a hostile agent has parked; it heeds no act of that one's."""

SPECIFICATION = "# Greeter\n\n- R1 `hello.txt`: it says hello.\n  ```\n  hello\n  ```\n"
_SETTINGS = ALLOW + SMALL_PIPELINE.replace("Plan it.", "Plan it. [[hostile: {act}]]")
_HIGH_WATER = re.compile(r"VmHWM:\s+(\d+) kB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One misbehaviour, named as the act of `program.py` that does it.

    `says` is what the detail of the parked turn must hold; empty where the turn ends by itself, in
    whatever way. `short` is the number that the act is given in the quick version of the suite,
    `full` in the long one; a `short` of 0 leaves it to the long one. `new_id` is what a new session
    is answered with; an agent whose ids are none never comes to be prompted. `wires` are those that
    can do this at all.
    """

    act: str
    short: int = 1
    full: int = 1
    says: str = ""
    new_id: str = NEW_ID
    wires: Sequence[str] = tuple(WIRES)

    @property
    def name(self) -> str:
        """What the case is called in a report."""
        return self.act if self.new_id == NEW_ID else f"{self.act}-{self.new_id[:12]!a}"


_NAMING = tuple(name for name, wire in WIRES.items() if wire.names_sessions)
_NO_NAME = "an id is one line that can be printed"

CASES = (
    Case(act="text", short=9_000, full=72_000, says=TEXT_OF_TURN.what),
    Case(act="updates", short=0, full=1_000_000, says=PARTS_OF_TURN.what),
    Case(act="silent", short=500, full=1_000_100, says=""),
    Case(act="calls", short=1_001, full=20_000, says=CALLS_AT_ONCE.what),
    Case(act="prints", short=12, full=40, says=CALLS_OF_TURN.what, wires=("acp",)),
    Case(act="stderr", short=9_000, full=60_000),
    Case(act="nested", short=400, full=100_000, says=NESTING.what),
    Case(act="number", short=400, full=4_000, says=WHOLE_NUMBER.what),
    Case(act="odd_numbers"),
    Case(act="line", short=17 * 2**20, full=256 * 2**20, says=FRAME.what),
    Case(act="frame", short=0, full=15 * 2**20, says=TEXT_OF_TURN.what),
    Case(act="nodes", short=200_001, full=3_500_000, says=VALUES.what),
    Case(act="long_id", short=10_000, full=10_000_000, says=IDENTITY.what),
    Case(act="asks", short=5_001, full=200_000, wires=("acp",)),  # the first one parks it
    Case(act="options", short=65, full=20_000, says=OPTIONS.what, wires=("acp",)),
    Case(act="client_methods", wires=("acp",)),
    Case(act="garbage", short=100, full=50_000),
    Case(act="wrong_types"),
    Case(act="replies", short=100, full=100_000),
    Case(act="twice"),
    Case(act="forks"),
    Case(act="closes"),
    Case(act="none", says=_NO_NAME, new_id="ses_1\nspec-9: approved", wires=_NAMING),
    Case(act="none", says=_NO_NAME, new_id="ses_\x1b[2J", wires=_NAMING),
    Case(act="none", says=IDENTITY.what, new_id="s" * 100_000, wires=_NAMING),
)
"""All misbehaviours that every adapter has to bear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a process of upthread did with one prompt."""

    outcome: str
    parked: str
    detail: str
    reply: str
    status: str
    exit_code: int
    stderr: str
    memory_mib: float


class Place:
    """A project of its own, in which one hostile agent of one wire is told things."""

    def __init__(self, directory: Path, wire: str, *, new_id: str = NEW_ID) -> None:
        self.project = directory / "project"
        self.project.mkdir()
        self._home = directory / "home"
        self._commands = directory / "commands"
        self._commands.mkdir()
        self.agent = self._install(wire, new_id)

    def _install(self, wire: str, new_id: str) -> str:
        """Put the agent where its name is looked for, and return that name."""
        own_id = new_id if WIRES[wire].takes_any_id or new_id != NEW_ID else ""
        words = (sys.executable, "-I", str(PROGRAM), wire, own_id)
        name = "hostile" if wire == ACP else AGENTS[wire].program
        command = self._commands / name
        command.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        command.chmod(0o700)
        return f"acp:{command}" if wire == ACP else wire

    @property
    def database_mib(self) -> float:
        """How large the database is, with what it has not taken in yet."""
        return sum(each.stat().st_size for each in self._home.rglob("upthread.db*")) / 2**20

    @property
    def logs_mib(self) -> float:
        """How much of the agents' stderr is kept."""
        return sum(each.stat().st_size for each in self._home.rglob("*.log")) / 2**20

    def tell(self, address: str, prompt: str) -> Told:
        """Tell the agent something from a process of upthread, and return what came of it."""
        return self._run("tell", address, prompt, "--agent", self.agent)

    def go_on(self, address: str) -> Told:
        """Go on with a parked turn."""
        return self._run("tell", address, "--continue", "--agent", self.agent)

    def settle_pipeline(self, act: str) -> None:
        """Have the person's own settings ask for an act in the first step of a run."""
        settings = self._home / "upthread" / "config.toml"
        settings.parent.mkdir(mode=0o700, parents=True)
        settings.write_text(_SETTINGS.format(act=act))

    def run(self, workstream: str, specification: str = "", *, agent: str = "") -> Told:
        """Begin a run with the hostile agent, or go on with one with another agent."""
        told = (specification,) if specification else ()
        return self._run("run", workstream, *told, "--agent", agent or self.agent)

    def _run(self, *words: str) -> Told:
        environment = {
            "HOME": str(self._home),
            "UPTHREAD_HOME": str(self._home / "upthread"),
            "PATH": f"{self._commands}:{os.environ['PATH']}",
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        }
        out, err = self._home.parent / "out", self._home.parent / "err"
        self._home.mkdir(exist_ok=True)
        with out.open("wb") as said, err.open("wb") as complained:
            process = subprocess.Popen(
                [sys.executable, "-m", "upthread", *words, "--json"],
                cwd=self.project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=complained,
            )
            memory_mib = _watched(process)
        return Told(
            **_read(out.read_text()),
            exit_code=process.returncode,
            stderr=err.read_text(errors="replace"),
            memory_mib=memory_mib,
        )


def attack(case: Case, wire: str, directory: Path, *, is_full: bool = False) -> None:
    """Run one case on one wire in an empty directory. AssertionError for what did not hold."""
    place = Place(directory, wire, new_id=case.new_id)
    number = case.full if is_full else case.short
    told = place.tell("spec-1/planner", f"[[hostile: {case.act} {number}]]")
    _require_bounded(told, place)
    if case.says:
        assert case.says in told.detail, told
    if case.new_id != NEW_ID:
        return
    again = place.tell("spec-1/planner", "[[sound]]")
    _require_bounded(again, place)
    assert "a sound answer" in again.reply, again


def attack_run(case: Case, wire: str, directory: Path, *, is_full: bool = False) -> None:
    """Attack a run: it parks with a reason, and with a sound agent goes on to its end.

    In an empty directory. AssertionError for what did not hold.
    """
    place = Place(directory, wire, new_id=case.new_id)
    place.settle_pipeline(f"{case.act} {case.full if is_full else case.short}")
    parked = place.run("spec-1", SPECIFICATION)
    _require_bounded(parked, place)
    assert parked.status == "parked", parked
    assert parked.parked, parked
    assert case.says in parked.detail, parked
    went_on = place.run("spec-1", agent=SOUND_AGENT)
    _require_bounded(went_on, place)
    assert (went_on.status, went_on.exit_code) == ("approved", 0), went_on


def _require_bounded(told: Told, place: Place) -> None:
    assert told.outcome or told.parked or told.status, told
    assert "Traceback" not in told.stderr, told.stderr
    assert told.memory_mib <= MEMORY_MIB_MAX, told
    assert place.database_mib <= DATABASE_MIB_MAX, place.database_mib
    assert place.logs_mib <= LOGS_MIB_MAX, place.logs_mib


def _watched(process: subprocess.Popen[bytes]) -> float:
    """Wait for a process and return the most memory it held, as the kernel keeps it (Linux).

    Its own alone: what the kernel tells of an ended one counts what it started too.
    """
    status, most_kib = Path(f"/proc/{process.pid}/status"), 0
    until_s = time.monotonic() + CASE_S_MAX
    while process.poll() is None:
        found = _HIGH_WATER.search(status.read_text()) if status.exists() else None
        most_kib = max(most_kib, int(found[1]) if found else 0)
        if time.monotonic() > until_s:
            process.kill()
        time.sleep(LOOK_EVERY_S)
    return most_kib / _KIB_OF_MIB


def _read(said: str) -> dict[str, str]:
    """Return what the verb's JSON says of the turn."""
    found: dict[str, Any] = {}
    for line in said.splitlines() if said.count("\n{") else [said]:
        try:
            found = {**found, **json.loads(line)}
        except ValueError:
            continue
    parked: dict[str, Any] = found.get("parked") or {}
    return {
        "outcome": str(found.get("outcome", "")),
        "parked": str(parked.get("reason", "")),
        "detail": str(parked.get("detail") or found.get("detail") or found.get("message") or ""),
        "reply": str(found.get("reply", "")),
        "status": str(found.get("status", "")),
    }
