"""One stop: a deed, a turn that is stopped, the deed again; then what the far end has counted."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.live import claude_code, codex, opencode
from tests.live.agents import WAYS, RealAgent, reporting, shell_of
from tests.live.shell import Shell, kill_all, processes_with, tree_of
from tests.support import trusting
from tools.storm.far_end import FarEnd
from tools.storm.kinds import KINDS, Place

from upthread.testing.rehearsal_model import RehearsalModel

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 90.0
FROZEN_S = 30.0
ENDS_ALONE_S = 2.0
"""How long the agent of a turn that was killed may take to end by itself, before the count."""

SIGNALS = {
    "kill": signal.SIGKILL,
    "int": signal.SIGINT,
    "term": signal.SIGTERM,
    "hup": signal.SIGHUP,
    "cancel": signal.SIGUSR1,
    "freeze": signal.SIGSTOP,
}
STOPS = tuple(SIGNALS)
EXIT_CODES = {"int": 130, "term": 143, "hup": 129}
MOMENTS = ("any", "asked", "in the deed", "after the deed", "told", "replying")
AFTER_S = {
    "asked": (0.0, 0.9),
    "in the deed": (0.0, 0.3),
    "after the deed": (0.0, 0.5),
    "told": (0.0, 0.3),
    "replying": (0.0, 1.2),
}
"""How long after its moment a stop comes."""

TURN_S = {"claude-code": 2.5, "codex": 1.5, "opencode": 9.0}
"""How long a turn takes: a stop at any moment comes within it."""

SHARES = {"claude-code": 5, "codex": 5, "opencode": 2}
"""How often each agent is drawn: a turn of OpenCode takes five times as long as the others'."""

PIPELINE = '[[pipeline.steps]]\nrole = "planner"\ntask = "Do it."\n'
WORKSTREAM = "ws"
IS_OVER = threading.Event()
"""Set where the storm itself is interrupted: nothing is started any more."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One stop. `agent` is a key of WAYS, `again` says who repeats. `is_whole`: all processes."""

    number: int
    stop: str
    agent: str
    kind: str
    first: str
    second: str
    moment: str
    after_s: float
    again: str
    is_whole: bool
    is_named: bool
    harmless: str
    is_told_frozen: bool

    def __str__(self) -> str:
        whose = " (all processes)" if self.is_whole else ""
        between = f", {self.harmless} something harmless between" if self.harmless else ""
        frozen = ", told while frozen" if self.is_told_frozen else ""
        return (
            f"{self.agent}, {self.kind}: {self.stop}{whose} {self.moment} + {self.after_s:.2f} s,"
            f" then {self.again}{between}{frozen}"
        )


def draw(seed: int, number: int, agents: Sequence[str]) -> Case:
    """Return the case that a seed and a number stand for."""
    chance = random.Random(f"{seed}-{number}")
    name = chance.choices(agents, [SHARES[each] for each in agents])[0]
    kind = chance.choice(list(KINDS))
    first = chance.choice(KINDS[kind])
    others = [each for each in KINDS[kind] if each != first]
    stop = STOPS[number % len(STOPS)]
    choices = ["same role"] * 6 + ["other role", "fresh"]
    again = chance.choice([*choices, "run"] if stop not in {"cancel", "freeze"} else choices)
    has_harmless = (number // len(STOPS)) % 4 == 2 and again != "run"
    may_be_told = stop == "freeze" and again == "same role" and not has_harmless
    is_told_frozen = may_be_told and chance.random() < 0.5
    # What is told before the first turn has begun repeats nothing: it comes first.
    moment = chance.choice(MOMENTS[1:] if is_told_frozen else MOMENTS)
    return Case(
        number=number,
        stop=stop,
        agent=chance.choice([name, *(key for key, each in WAYS.items() if each.name == name)]),
        kind=kind,
        first=first,
        second=chance.choice(others) if chance.random() < 0.5 else first,
        moment=moment,
        after_s=chance.uniform(*AFTER_S.get(moment, (0.3, TURN_S[name]))),
        again=again,
        is_whole=chance.random() < 0.5 or (again == "run" and stop == "kill"),
        is_named=chance.random() < 0.5,
        harmless=chance.choice(["planner", "planner", "auditor"]) if has_harmless else "",
        is_told_frozen=is_told_frozen,
    )


@dataclass(kw_only=True)
class Said:
    """What a process of upthread's said, and how it ended."""

    code: int
    lines: list[dict[str, Any]] = field(default_factory=list)
    stderr: str = ""

    def one(self, kind: str) -> dict[str, Any]:
        """Return its last line of a type, an empty one if there is none."""
        return next((line for line in reversed(self.lines) if line.get("type") == kind), {})

    @property
    def parked(self) -> str:
        """Why a person is waited for, empty if nobody is."""
        if self.code == 6:
            return "busy"
        parked = self.one("turn_ended").get("parked") or self.one("result").get("parked")
        waits = "waits for a person" if self.code in {4, 5} else ""
        return str(parked["reason"]) if parked else waits

    @property
    def has_replied(self) -> bool:
        """Whether any of a reply was shown."""
        return any(line.get("kind") == "text" for line in self.lines)

    @property
    def has_ended_well(self) -> bool:
        return self.one("turn_ended").get("outcome") == "ok"

    def __str__(self) -> str:
        told = [
            line.get("line") or line.get("text") or line.get("error") or line.get("parked")
            for line in self.lines
            if line.get("type") in {"turn_started", "notice", "turn_ended", "result"}
        ]
        words = dict.fromkeys(str(each) for each in told if each)
        return f"exit {self.code}: {' | '.join(words)}{self.stderr}"


@dataclass(kw_only=True)
class Ending:
    """How a case ended. `count` is what the far end counted, `before` what it had at the stop."""

    case: Case
    before: int = 0
    count: int = 0
    held: str = ""
    was_stopped: bool = True
    has_ended_well: bool = False
    seconds: float = 0.0
    faults: list[tuple[str, str]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


@cache
def binary_of(agent: str) -> Path:
    """Return where an agent is. Raises FileNotFoundError where it is not installed."""
    found = {
        "claude-code": claude_code.find_claude,
        "codex": codex.find_codex,
        "opencode": opencode.find_opencode,
    }[agent]()
    if found is None:
        raise FileNotFoundError(f"{agent} is not installed: run `make agents`")
    return found


def play(case: Case, far_end: FarEnd, directory: Path, slots: threading.Semaphore) -> Ending:
    """Play a case in a directory of its own; no process of it is left."""
    ending = Ending(case=case)
    with slots, RehearsalModel(strict=False) as model:
        started_s = time.monotonic()
        try:
            _Trial(ending, far_end, directory, model, slots).play()
        finally:
            far_end.deeds[case.number].let_go()
            end_all(directory)
        ending.seconds = time.monotonic() - started_s
    return ending


def make_shell(
    way: RealAgent, place: Place, far_end: FarEnd, model: RehearsalModel, directory: Path
) -> Shell:
    """Make a project whose deeds reach the far end, also from a login shell."""
    proxy = {"http_proxy": f"http://127.0.0.1:{far_end.port}", "no_proxy": "127.0.0.1,localhost"}
    more = {**proxy, "SHELL": "/bin/bash", "PYTHONPATH": str(REPOSITORY / "src")}
    shell = shell_of(way, binary_of(way.name), model, directory, environment=more)
    (shell.home / ".bash_profile").write_text(f"PATH={shell.environment['PATH']}\n")
    place.prepare()
    return shell


class _Trial:
    """A case while it is played."""

    def __init__(
        self,
        ending: Ending,
        far_end: FarEnd,
        directory: Path,
        model: RehearsalModel,
        slots: threading.Semaphore,
    ) -> None:
        case = ending.case
        self._ending, self._case, self._model, self._slots = ending, case, model, slots
        self._directory = directory
        self._said: dict[int, Path] = {}
        self._way = WAYS[case.agent]
        self._deeds = far_end.deeds[case.number]
        self._place = Place(
            case.number, port=far_end.port, is_named=case.is_named, directory=directory
        )
        self._shell = make_shell(self._way, self._place, far_end, model, directory)
        self._first = self._place.fill(case.first)
        self._second = self._place.fill(case.second)

    def play(self) -> None:
        case, ending = self._case, self._ending
        self._deeds.is_slow = case.moment == "in the deed"
        running = self._begin()
        self._await_moment(running)
        first = self._freeze(running) if case.stop == "freeze" else self._stop(running)
        ending.has_ended_well = first.has_ended_well or self._is_end_recorded(first)
        ending.seen.append(f"first {first}")
        if case.is_told_frozen:
            return  # it was repeated while the first was frozen
        if case.harmless:
            address = f"{WORKSTREAM}/{case.harmless}"
            looks = random.Random(case.number).random() < 0.5
            script = self._way.command("git status") if looks else "[[SAY All is well.]]"
            harmless = self._tell("Look.", script, address=address)
            if not harmless.has_ended_well:
                self._fault("false hold", f"of {script}: {harmless}")
            ending.seen.append(f"harmless {harmless}")
        self._repeat(first)
        self._count()

    def _begin(self) -> subprocess.Popen[bytes]:
        case = self._case
        slow = "\nsleep 15" if "\n" in self._first else "; sleep 15"
        words = self._first + (slow if case.moment == "after the deed" else "")
        call = self._way.command(words)
        script = {
            "asked": f"[[SLEEP 0.6]] {call} [[SAY done]]",
            "told": f"{call} [[SLEEP 6]] [[SAY done]]",
            "replying": f"{call} [[PACE 0.3]] [[SAY {'It is done. ' * 60}]]",
        }.get(case.moment, f"{call} [[SAY done]]")
        if case.again == "run":
            trusting.configure(self._shell.project, self._shell.own, PIPELINE)
            self._model.answer_next(script)
            return self._start("run", WORKSTREAM, "# Do it first-time", "--agent", self._way.name)
        prompt = f"Do it first-time.\n\n{script}"
        if case.stop == "cancel":
            file = Path(__file__).with_name("cancelled.py")
            words_of_library = (f"{WORKSTREAM}/planner", prompt, self._way.name)
            return self._popen([sys.executable, str(file), *words_of_library])
        return self._start("tell", f"{WORKSTREAM}/planner", prompt, "--agent", self._way.name)

    # --- the stop

    def _await_moment(self, running: subprocess.Popen[bytes]) -> None:
        case = self._case
        asked = 2 if case.moment in {"told", "replying"} else int(case.moment == "asked")
        deeds = int(case.moment in {"in the deed", "after the deed"})

        def has_come() -> bool:
            return len(self._model.model_requests) >= asked and self._deeds.count >= deeds

        until_s = time.monotonic() + PATIENCE_S
        while not has_come() and running.poll() is None:
            if time.monotonic() > until_s:
                self._fault("no moment", f"{case.moment} did not come; {self._model.requests[-1:]}")
                break
            time.sleep(0.02)
        with suppress(subprocess.TimeoutExpired):
            running.wait(case.after_s)
            self._ending.was_stopped = False

    def _stop(self, running: subprocess.Popen[bytes]) -> Said:
        case = self._case
        self._model.forget_answers()
        if case.is_whole and case.stop in EXIT_CODES:
            with suppress(ProcessLookupError):  # as a terminal does
                os.killpg(running.pid, SIGNALS[case.stop])
        else:
            is_whole = case.is_whole and case.stop == "kill"
            _send(tree_of(running.pid) if is_whole else {running.pid}, SIGNALS[case.stop])
        said = self._end(running)
        self._deeds.let_go()
        # Without a line it had not begun to listen. 0 and 4: it had ended by itself.
        if said.lines and said.code not in {0, 4, EXIT_CODES.get(case.stop, said.code)}:
            self._fault("exit code", str(said))
        return said

    def _freeze(self, running: subprocess.Popen[bytes]) -> Said:
        """Stop it for half a minute, while another workstream goes on beside it."""
        frozen = tree_of(running.pid) if self._case.is_whole else {running.pid}
        _send(frozen, signal.SIGSTOP)
        until_s = time.monotonic() + FROZEN_S
        beside = self._tell("Look around.", "[[SAY nothing]]", address="beside/planner")
        if beside.code or not beside.has_ended_well:
            self._fault("beside", str(beside))
        with self._idle():
            IS_OVER.wait(max(0.0, until_s - time.monotonic()))
        if self._case.is_told_frozen:
            self._repeat(Said(code=0))
        self._deeds.let_go()
        _send(frozen, signal.SIGCONT)
        said = self._end(running)
        if self._case.is_told_frozen:
            self._count()
        return said

    def _is_end_recorded(self, first: Said) -> bool:
        """Whether it was stopped when its reply had been shown and its end was on record."""
        if not first.has_replied or self._case.is_told_frozen:
            return False
        (audit,) = self._read("audit", WORKSTREAM)
        turns = [turn for each in audit["conversations"] for turn in each["turns"]]
        return all(turn["outcome"] == "ok" for turn in turns)

    @contextmanager
    def _idle(self) -> Iterator[None]:
        self._slots.release()
        try:
            yield
        finally:
            self._slots.acquire()

    # --- what comes after it

    def _repeat(self, first: Said) -> None:
        case = self._case
        self._ending.before = self._deeds.count
        is_named = self._ending.before == 0 or self._is_named()
        self._place.commit()
        asked_before = len(self._model.requests)
        call = self._way.command(self._second)
        if case.again == "run":
            self._model.answer_next(call + reporting())
            again = self._end(self._start("run", WORKSTREAM))
        else:
            role = "auditor" if case.again == "other role" else "planner"
            options = ("--fresh",) if case.again == "fresh" else ()
            address = f"{WORKSTREAM}/{role}"
            again = self._tell("Do it second-time.", call, *options, address=address)
        self._ending.held = again.parked
        self._ending.seen.append(f"again {again}")
        if not is_named and not self._is_named():
            self._fault("lost", "the deed is in no effect and in no history")
        if case.again == "same role" and not case.is_told_frozen:
            self._look_for_prompt(first, again, asked_before)

    def _is_named(self) -> bool:
        """Whether upthread knows of the first deed's call, in any of its records."""
        sought = _letters(self._first.partition("\n")[0])[:30]
        for words in (("audit", WORKSTREAM), ("show", WORKSTREAM, "--effects")):
            calls = [line for each in self._read(*words) for line in _calls_in(each)]
            if any(sought in _letters(json.dumps(call)) for call in calls):
                return True
        return bool(self._read("effects", WORKSTREAM)[0].get("in_doubt"))

    def _look_for_prompt(self, first: Said, again: Said, asked_before: int) -> None:
        requests = self._model.requests
        was_sent = any("first-time" in json.dumps(each.body) for each in requests[:asked_before])
        bodies = [json.dumps(each.body) for each in requests[asked_before:]]
        shown = [body for body in bodies if "second-time" in body]
        if not was_sent or not shown or any("first-time" in body for body in shown):
            return
        if not set(again.one("turn_started").get("reasons", [])) - {"none_yet"}:
            self._fault("lost", f"the first prompt: {again}, first {first}")

    def _count(self) -> None:
        end_all(self._directory, within_s=ENDS_ALONE_S)
        ending = self._ending
        ending.count = self._deeds.count
        expected = 2 if ending.has_ended_well and ending.before == 1 else 1
        if ending.count > expected:
            effects = json.dumps(self._read("effects", WORKSTREAM))
            self._fault("twice", f"{'; '.join(self._deeds.said)}; effects now: {effects}")

    # --- upthread's processes

    def _tell(
        self, words: str, script: str, *options: str, address: str = f"{WORKSTREAM}/planner"
    ) -> Said:
        name = self._way.name
        prompt = f"{words}\n\n{script}"
        return self._end(self._start("tell", address, prompt, "--agent", name, *options))

    def _read(self, *words: str) -> list[dict[str, Any]]:
        return self._end(self._start(*words)).lines

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        return self._popen([*self._shell.command(*words), "--json"])

    def _popen(self, words: list[str]) -> subprocess.Popen[bytes]:
        if IS_OVER.is_set():
            raise InterruptedError
        said = self._directory / f"said-{time.monotonic_ns()}"
        with said.open("wb") as out, said.with_suffix(".err").open("wb") as err:
            running = subprocess.Popen(
                words,
                cwd=self._shell.project,
                env=self._shell.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._said[running.pid] = said
        return running

    def _end(self, running: subprocess.Popen[bytes]) -> Said:
        """Wait for its end; returns what it said. A process that broke or hangs is a fault."""
        try:
            code = running.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._fault("no end", f"within {PATIENCE_S:g} s: {running.args!r}")
            kill_all(tree_of(running.pid))
            code = running.wait()
        file = self._said[running.pid]
        lines = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
        stderr = file.with_suffix(".err").read_text()
        said = Said(code=code, lines=lines, stderr=f" [{stderr[-900:]}]" if stderr else "")
        kind = (said.one("result").get("error") or {}).get("kind")
        # Python itself may be stopped before any of upthread runs.
        if kind in {"bug", "store"} or ("Traceback" in stderr and "/upthread/" in stderr):
            self._fault("broken", str(said))
        return said

    def _fault(self, kind: str, what: str) -> None:
        self._ending.faults.append((kind, what))


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def end_all(directory: Path, *, within_s: float = 0.0) -> None:
    """Give a case's processes a while to end by themselves, then end them."""
    until_s = time.monotonic() + within_s
    while left := set(processes_with(str(directory))):
        if time.monotonic() >= until_s:
            kill_all(left)
        time.sleep(0.05)


def _letters(text: str) -> str:
    return re.sub(r"\\[nrt]|[^A-Za-z0-9]", "", text)


def _calls_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield what is a tool call or an effect, anywhere in an answer."""
    if isinstance(value, list):
        for each in value:
            yield from _calls_in(each)
    if isinstance(value, dict):
        if value.get("kind") == "tool_call" or "effect_id" in value:
            yield value
        for each in value.values():
            yield from _calls_in(each)
