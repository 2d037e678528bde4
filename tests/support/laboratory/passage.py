"""A passage: the whole pipeline over the example, by a person whose processes are killed.

The person does what anybody would: looks how things stand, answers what is asked, says go on. The
oracle hears what the person was told, and judges at the end.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.laboratory.command import Command, Invocation, Json
from tests.support.laboratory.killing import Hit, Killer
from tests.support.laboratory.oracle_process import Oracle
from tests.support.laboratory.plan import NO_LOAD, Plan
from tests.support.world import World

from upthread.agents._guard import MARK_VARIABLE
from upthread.core.turns.turn import HELD_BACK

WORKSTREAM = "spec-42"
COMMANDS_MAX = 60
UNFINISHED = frozenset({"running", "parked", "interrupted"})
PACE_MS = 20
"""How long the agent thinks before each tool call."""

RELEASE = """
## Release

```sh
python -I deploy.py staging
python -I deploy.py production
```
"""
ANSWERS = {"opening": "Hello", "stranger": "you"}
STEPS = (
    ("clarifier", "needs_input"),
    ("clarifier", "done"),
    ("planner", "done"),
    ("auditor", "rejected"),
    ("planner", "done"),
    ("auditor", "approved"),
    ("constructor", "done"),
    ("validator", "rejected"),
    ("constructor", "done"),
    ("validator", "approved"),
)
"""How the steps of the example end when nothing goes wrong."""

ACKNOWLEDGED = {"turn_started": "prompt", "turn_ended": "outcome", "waiting": "questions"}
NOT_FOUND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What became of a passage. `evidence` is what the oracle judged by."""

    plan: Plan
    hits: Sequence[Hit]
    faults: Sequence[str]
    counts: Json
    evidence: Json


def take_release(world: World, oracle: Oracle) -> Path:
    """Put the greeter with a release in place of the project; return its specification."""
    world.take_example()
    specification = world.project / "spec.md"
    specification.write_text(specification.read_text() + RELEASE)
    shutil.copy(Path(__file__).with_name("deploy.py"), world.project)
    (world.project / "oracle-port").write_text(str(oracle.port))
    return specification


class Passage:
    """One passage in a world of its own."""

    def __init__(self, world: World, oracle: Oracle, plan: Plan) -> None:
        self._world = world
        self._oracle = oracle
        self._plan = plan
        self._killer = Killer(plan.kills, oracle.journal)
        self._answer_kill_s = plan.answer_kill_s
        self._numbers = count(1)
        self._going_on = count()
        self._specification = take_release(world, oracle)
        world.environment["UPTHREAD_REHEARSAL_LOG"] = str(oracle.journal)
        world.environment["UPTHREAD_REHEARSAL_PACE_MS"] = str(PACE_MS)
        world.environment["UPTHREAD_REHEARSAL_CAPABILITIES"] = plan.agent

    def play(self) -> Ended:
        """Take the run to its end and have it judged. AssertionError when it never ends."""
        for _ in range(COMMANDS_MAX):
            seen = self._look()
            if seen is not None and seen["status"] == "approved":
                return self._ended(seen)
            self._act(seen)
        raise AssertionError(f"the run does not end; seed {self._plan.seed}: {self._look()}")

    # --- what a person does ----------------------------------------------------------------------

    def _look(self) -> Json | None:
        """Return how the workstream stands, None before there is one."""
        shown = self._upthread("show", WORKSTREAM)
        if shown.exit_code == NOT_FOUND:
            return None
        (line,) = shown.lines_at_end
        return line

    def _act(self, seen: Json | None) -> None:
        if seen is None or seen["status"] == "idle":
            self._watched("run", WORKSTREAM, "--spec", str(self._specification))
        elif seen["open_questions"]:
            self._answer(seen["open_questions"][0]["id"])
        else:
            if any(_is_held_back(each) for each in seen["roles"]):
                self._let_be_done()
            self._go_on([each for each in seen["roles"] if _is_open(each)])

    def _answer(self, question_id: str) -> None:
        text = ANSWERS[question_id]
        answering = self._upthread("answer", WORKSTREAM, question_id, text)
        delay_s, self._answer_kill_s = self._answer_kill_s, None
        if delay_s is not None:
            self._killer.kill_after(answering, delay_s)
        assert answering.exit_code is not None
        self._check(answering)
        if any("error" not in line for line in answering.lines):
            self._oracle.acknowledge("answer", {"question_id": question_id, "text": text})

    def _let_be_done(self) -> None:
        """Say of all that is held back that it may be done again."""
        (held,) = self._upthread("effects", WORKSTREAM).lines_at_end
        for each in (*held["in_doubt"], *held["done"]):
            said = self._upthread("effects", WORKSTREAM, "again", each["effect_id"])
            assert said.exit_code == 0, said.stderr

    def _go_on(self, interrupted: Sequence[Json]) -> None:
        if interrupted:
            self._oracle.note_go_on()
        if interrupted and self._plan.continues_by_tell(next(self._going_on)):
            self._watched("tell", interrupted[0]["address"], "--continue")
        else:
            self._watched("run", WORKSTREAM)

    # --- commands --------------------------------------------------------------------------------

    def _upthread(self, *words: str) -> Command:
        invocation = Invocation(
            words=(*words, "--json"),
            directory=str(self._world.project),
            environment=self._environment(words[0]),
            output=str(self._world.directory / f"command-{next(self._numbers)}"),
        )
        return Command(invocation)

    def _environment(self, verb: str) -> dict[str, str]:
        """What the world's processes are found by is a mark of agents: a person has none."""
        known = self._world.environment
        marked = known if verb not in {"answer", "effects"} else {**known, MARK_VARIABLE: ""}
        return dict(marked)

    def _watched(self, *words: str) -> None:
        """Run a command that may be killed, and tell the oracle what it said."""
        command = self._upthread(*words, "--agent", "rehearsal")
        self._killer.watch(command)
        self._check(command)
        for line in command.lines:
            if line.get("type") in ACKNOWLEDGED:
                self._oracle.acknowledge(ACKNOWLEDGED[line["type"]], line)
            elif words[0] == "run" and line.get("status") == "approved":
                self._oracle.acknowledge("end", line)

    def _check(self, command: Command) -> None:
        """AssertionError for what no kill excuses."""
        errors = [line["error"] for line in command.lines if "error" in line]
        assert all(each["kind"] == "agent" for each in errors), (self._plan, errors)
        assert "Traceback" not in command.stderr, (self._plan, command.stderr)

    # --- the end ---------------------------------------------------------------------------------

    def _ended(self, shown: Json) -> Ended:
        (audit,) = self._upthread("audit", WORKSTREAM).lines_at_end
        may_repeat = self._plan.agent == NO_LOAD
        evidence: Json = {"audit": audit, "show": shown, "steps": STEPS, "may_repeat": may_repeat}
        judged = self._oracle.judge(**evidence)
        return Ended(
            plan=self._plan,
            hits=self._killer.hits,
            faults=[*judged["faults"], *self._faults_of_work()],
            counts=judged["counts"],
            evidence=evidence,
        )

    def _faults_of_work(self) -> list[str]:
        """Look at the work itself, by no report."""
        words = [sys.executable, "-I", "check.py"]
        done = subprocess.run(words, cwd=self._world.project, capture_output=True, check=False)
        return [f"approved, and the check says {done.stderr!r}"] if done.returncode else []


def _is_held_back(role: Mapping[str, Any]) -> bool:
    parked = (role["last_turn"] or {}).get("parked") or {}
    return parked.get("reason") == HELD_BACK


def _is_open(role: Mapping[str, Any]) -> bool:
    """Whether a role's last turn can be gone on with: it was cut off, and nobody has ended it."""
    last = role["last_turn"] or {}
    return role["state"] in UNFINISHED and last.get("outcome") is None
