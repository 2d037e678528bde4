"""The hooks in the real Codex: what its sub-agents know of the work before."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.live.codex import call, codex_environment, command
from tests.live.pricing import tokens_in
from tests.live.set_up import AgentSetUp

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ROLE = 'name = "planner"\ndescription = "plans"\ndeveloper_instructions = "You are the planner."\n'
HOOKS = '{\n    "hooks": {"Stop": [{"hooks": []}]} }'
"""A user's own, in a form nobody would write by program."""

TRUSTED = "--dangerously-bypass-hook-trust"
"""Stands for the person who has reviewed the hooks: Codex has no other way without a terminal."""


@dataclass(frozen=True)
class Ran:
    """One run of `codex exec`: what it wrote, and the requests it made."""

    session: str
    written: str
    requests: tuple[Any, ...]

    @property
    def by_children(self) -> list[str]:
        return [
            json.dumps(request.body["input"])
            for request in self.requests
            if not request.headers["x-codex-window-id"].startswith(self.session)
        ]

    @property
    def by_main(self) -> list[str]:
        return [
            json.dumps(request.body["input"])
            for request in self.requests
            if request.headers["x-codex-window-id"].startswith(self.session)
        ]


class Hooked(AgentSetUp):
    """Codex with the hooks, as `upthread setup` installs them."""

    def __init__(
        self, binary: Path, model: RehearsalModel, directory: Path, *, python: str = sys.executable
    ) -> None:
        self.binary = binary
        self.model = model
        home = directory / "home"
        on_path = directory / "bin"
        on_path.mkdir(parents=True)
        (on_path / "codex").symlink_to(binary)
        of_codex = codex_environment(home, model)
        environment = {
            **of_codex,
            "PATH": f"{on_path}:{of_codex['PATH']}",
            "UPTHREAD_HOME": str(directory / "upthread"),
        }
        super().__init__(directory / "project", environment, python=python)
        for place in (self.project, home):
            agents = place / ".codex" / "agents"
            agents.mkdir(parents=True)
            (agents / "planner.toml").write_text(ROLE)
        self.hooks = home / ".codex" / "hooks.json"
        self.hooks.write_text(HOOKS)
        self.upthread("setup", "codex", "--yes")

    def run(self, prompt: str, *more: str) -> Ran:
        before = len(self.model.model_requests)
        done = subprocess.run(
            [str(self.binary), "exec", "--json", "--skip-git-repo-check", *more, prompt],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        (session,) = (each["thread_id"] for each in events if each["type"] == "thread.started")
        return Ran(session, done.stdout, tuple(self.model.model_requests[before:]))


def spawn(prompt: str) -> str:
    return call("spawn_agent", message=prompt, agent_type="planner")


def write_to(child: str, message: str) -> str:
    return f"{call('resume_agent', id=child)} {call('send_input', target=child, message=message)}"


WAIT = call("exec_command", cmd="sleep 3", yield_time_ms=10_000)
"""A sub-agent works beside its main session, whose end would be its own."""


@pytest.fixture(scope="module")
def hooked(codex_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooked]:
    with RehearsalModel() as model:
        yield Hooked(codex_binary, model, tmp_path_factory.mktemp("hooked"))
    assert model.violations == []


def test_another_main_session_is_told_whom_to_open_and_finds_the_whole_history(hooked):
    hooked.upthread("use", "spec-1")
    hooked.run(f"Go. {spawn('Remember KIWI-1. [[SAY noted PEAR]]')} {WAIT}", TRUSTED)
    child = hooked.planner("spec-1", turns=1)["upstream_session_id"]
    second = hooked.run(f"Go on. {write_to(child, 'What was it?')} {WAIT}", TRUSTED)
    told = f"spec-1/planner: resume_agent with id '{child}', then send_input to it"
    assert told in second.by_main[0]
    assert "KIWI-1" in second.by_children[-1]
    assert "noted PEAR" in second.by_children[-1]
    view = hooked.planner("spec-1", turns=2)
    assert view["upstream_session_id"] == child
    assert len(view["chain"]) == 1
    assert view["last_turn"]["decision"] == "resume"
    assert "HIST n_user=2" in json.dumps(hooked.upthread("audit", "spec-1")), "its reply is kept"
    saved = hooked.upthread("savings", "spec-1")["delegations"]
    charged = [tokens_in(each) for each in hooked.model.requests]
    assert [each["tokens_first_read"] in charged for each in saved] == [True, True]


def test_one_that_spawns_anew_all_the_same_gets_the_briefing(hooked):
    hooked.upthread("use", "spec-2")
    (hooked.project / "a.txt").write_text("hello\n")
    prompt = f"Remember KIWI-2. {command('cat a.txt')} [[SAY noted PLUM]]"
    hooked.run(f"Go. {spawn(prompt)} {WAIT}", TRUSTED)
    hooked.planner("spec-2", turns=1)
    second = hooked.run(f"Go. {spawn('What was it?')} {WAIT}", TRUSTED)
    asked = second.by_children[0]
    assert "# Briefing" in asked
    assert "KIWI-2" in asked
    assert "noted PLUM" in asked
    assert "a.txt" in asked
    view = hooked.planner("spec-2", turns=2)
    assert view["last_turn"]["decision"] == "start_fresh_with_briefing"
    assert len(view["chain"]) == 2


def test_a_sub_agent_that_ends_with_its_main_session_is_known_as_interrupted(hooked):
    hooked.upthread("use", "spec-3")
    hooked.run(f"Go. {spawn(f'Remember KIWI-3. {WAIT} {WAIT}')}", TRUSTED)
    view = hooked.planner("spec-3", turns=1)
    assert view["last_turn"]["outcome"] == "process_died"


def test_hooks_that_nobody_has_trusted_change_nothing(hooked):
    hooked.upthread("use", "spec-4")
    ran = hooked.run(f"Go. {spawn('Plan.')} {WAIT}")
    assert "upthread:" not in ran.written
    known = [each["workstream"] for each in hooked.upthread("ls")["workstreams"]]
    assert "spec-4" not in known
    (finding,) = hooked.upthread("doctor")["findings"]
    assert finding["what"].startswith("6 hooks left out, not trusted: ")
    assert "/hooks" in finding["cure"]


def test_taking_it_back_restores_the_file_byte_for_byte(hooked):
    assert "hooks/upthread-launcher" in hooked.hooks.read_text()
    hooked.upthread("setup", "codex", "--remove", "--yes")
    assert hooked.hooks.read_text() == HOOKS
