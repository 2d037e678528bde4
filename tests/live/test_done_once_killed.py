"""An outward action is done once, or stopped before it is done again: hundreds of kills.

Who is killed, at which moment, what the action was, and who goes on how, on each of the real agents
asking and not. Nothing of ours is asked: what arrived is counted at the far end.
"""

import itertools
import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live.agents import ADDRESS, WAYS, RealAgent, reporting, shell_of
from tests.live.far_ends import FarEnd, Posts, Publishes, Pushes
from tests.live.shell import (
    PATIENCE_S,
    Shell,
    agents_left,
    kill_all,
    kill_tree,
    tree_of,
    wait_until,
)

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.soak, pytest.mark.timeout(7200)]

KILLS_A_WAY = int(os.environ.get("UPTHREAD_KILLS", "72"))
"""Of 180 ways to be killed and go on; seven ways to have an agent make 504."""
AT_WORK_S = 0.6
TABLE = Path(__file__).resolve().parents[2] / "docs" / "agents" / "kills"
PIPELINE = """\
[[pipeline.steps]]
role = "planner"
task = "Do it."
"""

ACTIONS: dict[str, Callable[[Path, Path], FarEnd]] = {
    "push": Pushes,
    "publish": Publishes,
    "post": Posts,
}
MOMENTS = ("before it arrives", "under way", "done, not told", "told, not answered")
KILLED = ("agent", "upthread", "both")
AFTER = ("tell --continue", "new prompt", "run", "tell --fresh", "other agent")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kill. `after_s` is by chance how long after its moment it comes."""

    action: str
    moment: str
    killed: str
    after: str
    after_s: float

    def __str__(self) -> str:
        told = f"{self.action}, {self.killed} killed {self.moment} + {self.after_s:.2f} s"
        return f"{told}, then {self.after}"


def cases(seed: str) -> list[Case]:
    """Return cases by chance, each kind of each thing as often as the others."""
    chance = random.Random(seed)
    every = list(itertools.product(ACTIONS, MOMENTS, KILLED, AFTER))
    chance.shuffle(every)
    longest_s = dict(zip(MOMENTS, (0.4, AT_WORK_S, 0.1, 0.1), strict=True))
    return [
        Case(
            action=action,
            moment=moment,
            killed=killed,
            after=after,
            after_s=chance.uniform(0, longest_s[moment]),
        )
        for action, moment, killed, after in every[:KILLS_A_WAY]
    ]


@dataclass(kw_only=True)
class Kill:
    """One case as it is played: an agent acts, something is killed, somebody goes on."""

    case: Case
    way: RealAgent
    shell: Shell
    far_end: FarEnd
    model: RehearsalModel
    other: RealAgent

    def play(self) -> str:
        """Return how it ended: once, or stopped; AssertionError for twice, and for unsaid."""
        running = self._begin()
        try:
            self._await_moment(running)
            time.sleep(self.case.after_s)
            self._kill(running)
        finally:
            self.far_end.let_go()
            out = _end_of(running)
        if running.returncode == 0:  # upthread continued with another agent; nothing was in doubt
            assert (self.case.killed, self.far_end.count) == ("agent", 1), f"{self.case}\n{out}"
            return "once"
        self.far_end.prepare()
        code, told = self._go_on()
        return self._verdict(code, told, out)

    def _begin(self) -> subprocess.Popen[str]:
        self.model.answer_next(self.way.command(self.far_end.words))
        if self.case.after == "run":
            (self.shell.project / "spec.md").write_text("# Do it\n")
            words = ("run", "spec-42", "--spec", "spec.md", "--agent", self.way.name)
            return self.shell.start(*words)
        return self.shell.start("tell", ADDRESS, "Do it.", "--agent", self.way.name)

    def _await_moment(self, running: subprocess.Popen[str]) -> None:
        moment = MOMENTS.index(self.case.moment)
        self._await(running, lambda: self.model.model_requests)
        if moment == 0:
            return
        self._await(running, lambda: self.far_end.count)
        if moment == 1:
            return
        self.model.answer_next("[[HANG]]")  # so that the turn is under way when the kill comes
        self.far_end.let_go()
        if moment == 3:
            self._await(running, lambda: len(self.model.model_requests) > 1)

    def _await(self, running: subprocess.Popen[str], holds: Callable[[], object]) -> None:
        wait_until(
            lambda: holds() or running.poll() is not None, f"moment of {self.case}", every_s=0.02
        )
        assert holds(), running.stdout and running.stdout.read()

    def _kill(self, running: subprocess.Popen[str]) -> None:
        below = tree_of(running.pid) - {running.pid}
        self.model.forget_answers()
        if self.case.killed == "agent":  # upthread starts another one, which would act again
            self.model.answer_next(self._again(self.way))
        named = {"agent": below, "upthread": {running.pid}, "both": {running.pid, *below}}
        kill_all(named[self.case.killed])

    def _again(self, way: RealAgent) -> str:
        """Return how the model acts once more; a run ends with a report."""
        report = reporting() if self.case.after == "run" else ""
        return way.command(self.far_end.other_words) + report

    def _go_on(self) -> tuple[int, str]:
        way = self.other if self.case.after == "other agent" else self.way
        self.model.forget_answers()
        self.model.answer_next(self._again(way))
        words = {
            "tell --continue": ("tell", ADDRESS, "--continue"),
            "new prompt": ("tell", ADDRESS, "Go on."),
            "run": ("run", "spec-42"),
            "tell --fresh": ("tell", ADDRESS, "Go on.", "--fresh"),
            "other agent": ("tell", ADDRESS, "Go on.", "--agent", way.name),
        }[self.case.after]
        done = subprocess.run(
            [*self.shell.command(*words), "--json"],
            cwd=self.shell.project,
            env=self.shell.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def _verdict(self, code: int, told: str, told_first: str) -> str:
        count = self.far_end.count
        at_fault = f"{self.case}: exit {code}, {count} arrived\n{told_first}\n---\n{told}"
        assert count <= 1, f"TWICE: {at_fault}"
        assert count == 1 or code != 0, f"NEVER, AND UNSAID: {at_fault}"
        assert code in {0, 2, 4}, at_fault
        assert self.model.violations == [], at_fault
        return "once" if code == 0 else "stopped" if code == 4 else "nothing to go on with"


def _end_of(running: subprocess.Popen[str]) -> str:
    """Return what a process said, once it has ended; one that does not end is ended."""
    try:
        return running.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        kill_tree(running)
        raise


def other_than(way: RealAgent) -> RealAgent:
    """The agent that goes on where another was killed: one that never asks."""
    return WAYS["codex" if way.name != "codex" else "opencode"]


@pytest.mark.parametrize("name", WAYS)
def test_whatever_is_killed_an_outward_action_is_done_once(name, request, tmp_path):
    way, other = WAYS[name], other_than(WAYS[name])
    ended: Counter[tuple[str, str]] = Counter()
    faults: list[str] = []
    for number, case in enumerate(cases(name)):
        with RehearsalModel() as model:
            directory = tmp_path / str(number)
            shell = shell_of(way, request.getfixturevalue(way.fixture), model, directory)
            beside = shell_of(
                other, request.getfixturevalue(other.fixture), model, directory / "other"
            )
            shell.environment = both(shell.environment, beside.environment)
            shell.configure(PIPELINE)
            far_end = ACTIONS[case.action](directory, shell.project)
            kill = Kill(case=case, way=way, shell=shell, far_end=far_end, model=model, other=other)
            try:
                how = kill.play()
            except (AssertionError, subprocess.TimeoutExpired) as fault:
                how = "FAULT"
                faults.append(str(fault))
                print(fault, flush=True)  # noqa: T201  # half an hour long
            finally:
                far_end.close()
        assert agents_left(directory) == []
        ended[case.moment, how] += 1
        print(f"{number} {case}: {how}", flush=True)  # noqa: T201
    _write(name, way, ended)
    assert faults == []


def both(first: dict[str, str], second: dict[str, str]) -> dict[str, str]:
    """Two agents' environments as one person's: the first one's HOME, and both on PATH."""
    path = f"{second['PATH'].partition(':')[0]}:{first['PATH']}"
    return {**second, **first, "PATH": path}


def _write(name: str, way: RealAgent, ended: Counter[tuple[str, str]]) -> None:
    moments = {
        moment: {how: count for (at, how), count in sorted(ended.items()) if at == moment}
        for moment in MOMENTS
    }
    TABLE.mkdir(exist_ok=True)
    file = TABLE / f"{name.replace(', ', '-').replace(' ', '-')}.json"
    table = {"agent": way.name, "way": name, "moments": moments}
    file.write_text(json.dumps(table, indent=2) + "\n")
