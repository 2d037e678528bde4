"""Hostile clones in the real agents, set up with upthread: hooks, plug-in and MCP server run there.

What an agent loads of a repository by itself is its own trust, and is only counted. What a process
of ours runs or imports is judged by the parents of each run: the nearest one that is an agent, or
ours, has caused it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live import claude_code, codex, opencode
from tests.live.acp_process import AcpProcess
from tests.support.hostile_clones import (
    CLONES,
    Canary,
    make_ordinary_repository,
    runs_of_ours,
)

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300), pytest.mark.xdist_group("hostile")]

SELECTED = (
    *("python_module", "python_package", "python_standard_library", "python_libraries"),
    *("python_bytecode", "clean_filter", "fsmonitor_of_a_worktree", "ssh_command"),
    *("missing_commit", "embedded_bare_repository", "embedded_partial_clone", "git_file"),
    *("submodule", "nested_repository", "executables_in_the_root", "node_packages"),
    *("agents_commands", "hooks", "waiting_head", "endless_role"),
)
SOME = ("python_module", "ssh_command", "embedded_partial_clone")
"""In every run; the others are for `make soak`."""

TIMEOUT_S = 120
PATIENCE_S = 60
CODEX_ROLE = (
    'name = "planner"\ndescription = "plans"\ndeveloper_instructions = "You are the planner."\n'
)
CLAUDE_ROLE = "---\nname: planner\ndescription: plans\n---\nYou are the planner.\n"


class Person:
    """Somebody with one agent, upthread set up for it, and one place for clones."""

    def __init__(self, folder: Path, agent: str, environment: dict[str, str]) -> None:
        self.folder = folder
        self.clone = folder / "clone"
        self.home = Path(environment["HOME"])
        self.environment = {**environment, "UPTHREAD_HOME": str(folder / "upthread")}
        make_ordinary_repository(self.clone)
        self.upthread("setup", agent, "--yes")

    def upthread(self, *words: str) -> Any:
        """A verb while nothing is hostile; isolated, so that it is not the verb that is tested."""
        done = subprocess.run(
            [sys.executable, "-I", "-m", "upthread", *words, "--json"],
            cwd=self.clone,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    def enter(self, name: str) -> tuple[Path, Canary]:
        """Clone anew, and have it become hostile once upthread knows it."""
        shutil.rmtree(self.clone)
        shutil.rmtree(self.folder / "outside", ignore_errors=True)
        make_ordinary_repository(self.clone)
        self.upthread("use", "spec-1")
        canary = Canary(self.folder / "outside")
        CLONES[name].build(self.clone, canary)
        return self.clone / CLONES[name].within, canary

    def settled(self) -> None:
        """Wait until nothing that was started here is left."""
        until = time.monotonic() + PATIENCE_S
        while left := self._left():
            assert time.monotonic() < until, left
            time.sleep(0.1)

    def _left(self) -> list[str]:
        found: list[str] = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes()
                is_dead = b") Z " in (process / "stat").read_bytes()
                words = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if not is_dead and os.fsencode(self.folder / "upthread") in environment:
                found.append(os.fsdecode(words.replace(b"\0", b" ")))
        return found


Play = Callable[[Path], None]


def run(command: list[str], person: Person, directory: Path, *, given: str = "") -> None:
    """Run an agent; in a clone like this it may well fail, and must not hang."""
    subprocess.run(
        command,
        cwd=directory,
        env=person.environment,
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def model() -> Iterator[RehearsalModel]:
    with RehearsalModel() as model:
        yield model


@pytest.fixture(scope="module")
def with_codex(
    codex_binary: Path, model: RehearsalModel, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Person, Play]:
    folder = tmp_path_factory.mktemp("codex")
    environment = codex.codex_environment(folder / "home", model)
    on_path = folder / "bin"
    on_path.mkdir()
    (on_path / "codex").symlink_to(codex_binary)
    environment["PATH"] = f"{on_path}:{environment['PATH']}"
    person = Person(folder, "codex", environment)
    agents = person.home / ".codex" / "agents"
    agents.mkdir()
    (agents / "planner.toml").write_text(CODEX_ROLE)
    asked = codex.call("spawn_agent", message="Plan it.", agent_type="planner")
    words = ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"]

    def play(directory: Path) -> None:
        run([str(codex_binary), *words, f"Go. {asked}"], person, directory)

    return person, play


@pytest.fixture(scope="module")
def with_claude(
    claude_binary: Path, model: RehearsalModel, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Person, Play]:
    folder = tmp_path_factory.mktemp("claude")
    environment = claude_code.claude_environment(folder / "home", model)
    environment["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] = "1"
    person = Person(folder, "claude", environment)
    agents = person.home / ".claude" / "agents"
    agents.mkdir()
    (agents / "planner.md").write_text(CLAUDE_ROLE)
    delegation = claude_code.call(
        "Agent", description="plan", prompt="Plan it.", subagent_type="planner"
    )
    words = ["-p", "--allowedTools", "Agent", "--output-format", "stream-json", "--verbose"]

    def play(directory: Path) -> None:
        run([str(claude_binary), *words], person, directory, given=f"Go.\n\n{delegation}")

    return person, play


@pytest.fixture(scope="module")
def with_opencode(
    opencode_binary: Path, model: RehearsalModel, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Person, Play]:
    folder = tmp_path_factory.mktemp("opencode")
    role = {"mode": "subagent", "description": "plans", "prompt": "You are the planner."}
    environment = opencode.opencode_environment(
        folder / "home", model, more_config={"agent": {"planner": role}}
    )
    person = Person(folder, "opencode", environment)
    asked = {"description": "work", "prompt": "Plan it.", "subagent_type": "planner"}

    def play(directory: Path) -> None:
        command = [str(opencode_binary), "acp"]
        with AcpProcess(command, environment=person.environment, cwd=directory) as agent:
            made = agent.call("session/new", cwd=str(directory), mcpServers=[])
            if "result" in made:
                agent.prompt(
                    made["result"]["sessionId"], f"Go.\n\n[[CALL task {json.dumps(asked)}]]"
                )

    return person, play


def selected() -> list[Any]:
    return [
        pytest.param(name, marks=() if name in SOME else (pytest.mark.soak,)) for name in SELECTED
    ]


@pytest.mark.parametrize("name", selected())
@pytest.mark.parametrize("agent", ["with_codex", "with_claude", "with_opencode"])
def test_a_real_agent_in_it_has_us_run_nothing_of_it(agent, name, request, record_property):
    person, play = request.getfixturevalue(agent)
    directory, canary = person.enter(name)
    play(directory)
    person.settled()
    runs = canary.runs()
    ours = runs_of_ours(runs)
    record_property("run by the agent itself", len(runs) - len(ours))
    assert ours == ()


@pytest.mark.parametrize("agent", ["with_codex", "with_claude", "with_opencode"])
def test_in_an_ordinary_clone_its_delegation_is_on_record(agent, request):
    """Else the test above would prove nothing: hooks that never run cannot run anything."""
    person, play = request.getfixturevalue(agent)
    shutil.rmtree(person.clone)
    make_ordinary_repository(person.clone)
    person.upthread("use", "spec-2")
    play(person.clone)
    person.settled()
    person.upthread("drain")
    roles = [role for each in person.upthread("ls")["workstreams"] for role in each["roles"]]
    assert "spec-2/planner" in [role["address"] for role in roles]
