"""Hooks, the agent that calls them and upthread, killed at random: nothing is lost, nothing doubled.

The oracle is the list of what the hooks confirmed, which is kept here.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.sets import EXTENDED
from tests.surfaces.hook.conftest import LIBRARIES, PROGRAM, HookPlace

from upthread.core.decision.words import UNDECIDED

pytestmark = EXTENDED

EVENTS = 90
EVENTS_SOAK = 1_000
ROLES = ("planner", "builder", "checker")
HOOK_S = 0.5
"""Within which a hook is killed; it takes about half of it."""

READER_S = 0.8
PYTHON = (sys.executable, "-I", "-S")


@dataclass
class Call:
    """A delegation as the agent saw it: which of its events were confirmed."""

    number: int
    role: str
    confirmed: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return f"c{self.number}"

    @property
    def prompt(self) -> str:
        return f"Make part {self.number}, KIWI-{self.number}-."

    @property
    def reply(self) -> str:
        return f"Made, MANGO-{self.number}-."


class Storm:
    """Delegations in a place, one after the other, and kills in between at random moments."""

    def __init__(self, place: HookPlace, seed: int) -> None:
        self.place = place
        self.random = random.Random(seed)
        self.calls: list[Call] = []
        self.events = self.kills = 0
        self.agent = self._new_agent()

    def _new_agent(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(3600)"])

    def close(self) -> None:
        self.agent.kill()
        self.agent.wait()

    def blow(self, events: int) -> None:
        while self.events < events:
            self._delegate()
            if self.random.random() < 0.25:
                self._read_and_kill()

    def _delegate(self) -> None:
        call = Call(len(self.calls), self.random.choice(ROLES))
        self.calls.append(call)
        child = f"ses_{call.number}"
        answer = self._event(call, "before", prompt=call.prompt)
        child = answer.get("task_id") or child
        if self.random.random() < 0.1:
            return self._kill_the_agent()
        self._event(call, "started", child=child, prompt=call.prompt)
        if self.random.random() < 0.1:
            return self._kill_the_agent()
        words = {"prompt": call.prompt, "reply": call.reply, "outcome": "ok"}
        self._event(call, "ended", child=child, **words)
        return None

    def _event(self, call: Call, event: str, **fields: Any) -> dict[str, Any]:
        self.events += 1
        request = self.place.request(event, call.id, **fields)
        request |= {"role": call.role, "pid": self.agent.pid}
        hook = subprocess.Popen(
            [*PYTHON, str(PROGRAM), "opencode", str(self.place.home), "", *LIBRARIES],
            cwd=self.place.project,
            env=self.place.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert hook.stdin
        assert hook.stdout
        try:
            hook.stdin.write(json.dumps(request).encode())
            hook.stdin.close()
        except BrokenPipeError:
            pass
        if self.random.random() < 0.3:
            self._kill(hook, HOOK_S)
        out = hook.stdout.read()
        hook.stdout.close()
        if hook.wait(60) != 0:
            return {}
        answer = json.loads(out) if out else {}
        if UNDECIDED not in str(answer.get("line", "")):
            call.confirmed.add(event)
        return answer

    def _kill(self, process: subprocess.Popen[Any], within_s: float) -> None:
        self.kills += 1
        try:
            process.wait(self.random.uniform(0, within_s))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)

    def _kill_the_agent(self) -> None:
        self.kills += 1
        self.close()
        self.agent = self._new_agent()

    def _read_and_kill(self) -> None:
        words = self.random.choice((("ls",), ("why", "spec-42/planner"), ("audit", "spec-42")))
        reader = subprocess.Popen(
            [sys.executable, "-m", "upthread", *words],
            cwd=self.place.project,
            env=self.place.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._kill(reader, READER_S)
        reader.wait(60)


@pytest.mark.parametrize(
    "events",
    [EVENTS, pytest.param(EVENTS_SOAK, marks=pytest.mark.soak)],
)
@pytest.mark.timeout(3_600)
def test_hooks_the_agent_and_upthread_are_killed_and_nothing_is_lost_or_doubled(place, events):
    roles = "".join(f'[roles.{role}]\ncontinuity = "resume"\n' for role in ROLES)
    (place.project / "upthread.toml").write_text(roles)
    place.upthread("use", "spec-42")
    seed = int(os.environ.get("UPTHREAD_SEED", 1 if events == EVENTS else time.time_ns() % 10**6))
    storm = Storm(place, seed)
    try:
        storm.blow(events)
    finally:
        storm.close()
    turns = [
        turn
        for conversation in place.upthread("audit", "spec-42")["conversations"]
        for turn in conversation["turns"]
    ]
    print(f"seed {seed}: {storm.events} events, {storm.kills} kills, {len(turns)} turns")  # noqa: T201
    for call in storm.calls:
        told = [turn for turn in turns if turn["events"][0]["call"]["call_id"] == call.id]
        assert len(told) == (1 if call.confirmed else len(told) and 1), (seed, call, told)
        if "ended" in call.confirmed:
            said = json.dumps(told)
            assert (said.count(call.prompt), said.count(call.reply)) == (1, 1), (seed, call, told)
