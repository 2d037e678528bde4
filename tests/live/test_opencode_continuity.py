"""The promise itself, on the real OpenCode: the same session, whatever was killed in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from tests.live.opencode import opencode_environment

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


class Shell:
    """Runs `upthread` in the project as a person would, each call a process of its own."""

    def __init__(self, project: Path, environment: Mapping[str, str]) -> None:
        self.project = project
        self.environment = environment

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "upthread", *words]

    def lines(self, *words: str, exit_code: int | None = 0) -> list[dict]:
        done = subprocess.run(
            [*self.command(*words), "--json"],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        ended = (done.returncode, done.stdout, done.stderr)
        assert exit_code in {None, done.returncode}, ended
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command(*words), "--json"],
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


@pytest.fixture
def shell(
    opencode_binary: Path, model: RehearsalModel, project: Path, tmp_path: Path
) -> Iterator[Shell]:
    """OpenCode is the only agent on PATH, so upthread chooses it without being told."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "opencode").symlink_to(opencode_binary)
    environment = {
        **opencode_environment(tmp_path / "home", model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    yield Shell(project, environment)
    assert agents_left(tmp_path) == []


def agents_left(tmp_path: Path) -> list[str]:
    """Processes that still have this test's directory in their environment."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        left = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes()
                is_dead = b") Z " in (process / "stat").read_bytes()
            except OSError:
                continue
            if str(tmp_path / "home").encode() in environment and not is_dead:
                left.append((process / "cmdline").read_text().replace("\0", " "))
        if not left:
            return []
        time.sleep(0.1)
    return left


def only(lines: list[dict], kind: str) -> dict:
    found = [line for line in lines if line.get("type") == kind]
    assert len(found) == 1, lines
    return found[0]


def test_a_second_tell_is_the_same_session_with_its_history(shell, model):
    first = only(shell.lines("tell", "spec-42/notes-1/planner", "Remember KIWI-42."), "turn_ended")
    assert first["outcome"] == "ok"
    started = only(shell.lines("tell", "spec-42/notes-1/planner", "What was it?"), "turn_started")
    assert started["decision"] == "resume"
    told = json.dumps(model.model_requests[-1].body["messages"])
    assert "KIWI-42" in told
    assert "What was it?" in told


def test_after_sigkill_of_agent_and_upthread_the_next_turn_holds_the_earlier_history(shell, model):
    first = shell.lines("tell", "spec-42/planner", "Remember KIWI-42.")
    session = only(first, "turn_started")["upstream_session_id"]
    pause = json.dumps({"command": "echo started; sleep 60", "description": "wait"})
    running = shell.start("tell", "spec-42/planner", f"Wait a while.\n\n[[CALL bash {pause}]]")
    assert running.stdout is not None
    for line in running.stdout:
        part = json.loads(line)
        if part.get("type") == "part" and part.get("kind") == "tool_call":
            break
    kill_tree(running)
    lines = shell.lines("tell", "spec-42/planner", "What was it?")
    assert only(lines, "turn_started")["upstream_session_id"] == session
    assert "interrupted" in only(lines, "turn_started")["reasons"]
    told = json.dumps(model.model_requests[-1].body["messages"])
    assert "KIWI-42" in told
    assert "Wait a while." in told


def test_an_interrupted_turn_goes_on_in_the_same_session(shell, model):
    running = shell.start("tell", "spec-42/planner", "Think long.\n\n[[HANG]]")
    deadline = time.monotonic() + 60
    while not model.model_requests and time.monotonic() < deadline:
        time.sleep(0.1)
    kill_tree(running)
    lines = shell.lines("tell", "spec-42/planner", "--continue")
    assert only(lines, "turn_ended")["outcome"] == "ok"
    told = model.model_requests[-1].body["messages"]
    users = [message for message in told if message["role"] == "user"]
    assert len(users) == 2  # the prompt, and one continuation
    assert "interrupted" in json.dumps(users[-1])


def test_the_pipeline_runs_to_approved_in_new_processes(shell, model, project):
    (project / "spec.md").write_text("# Export\n\n- R1: write `export.txt`\n")
    lines = shell.lines("run", "spec-42", "--spec", "spec.md", exit_code=4)
    question = only(lines, "waiting")["questions"][0]
    shell.lines("answer", "spec-42", question["id"], "Yes.")
    lines = shell.lines("run", "spec-42")
    assert only(lines, "result")["status"] == "approved"
    shown = shell.lines("show", "spec-42")[0]
    chains = {role["role"]: len(role["chain"]) for role in shown["roles"]}
    assert chains["clarifier"] == chains["planner"] == chains["constructor"] == 1
    sessions_seen = {request.session_id for request in model.model_requests}
    assert {
        link["upstream_session_id"] for role in shown["roles"] for link in role["chain"]
    } == sessions_seen


def kill_tree(process: subprocess.Popen[str]) -> None:
    """SIGKILL a process and all below it at once: nothing of them can tidy up."""
    assert process.stdout is not None
    below = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.split()
    pairs = zip(below[::2], below[1::2], strict=True)
    parents = {int(child): int(parent) for child, parent in pairs}
    tree = {process.pid}
    while more := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= more
    for member in tree:
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    process.stdout.close()
    process.wait()


@pytest.mark.timeout(900)
def test_seven_iterations_keep_one_session_for_each_of_five_resuming_roles(shell, model, project):
    for iteration in range(1, 8):
        (project / "spec.md").write_text(f"# Export\n\n- R{iteration}: write `export.txt`\n")
        lines = shell.lines(
            "run", "spec-42", "--spec", "spec.md", "--continuity", "resume", exit_code=None
        )
        for question in [
            q for line in lines if line.get("type") == "waiting" for q in line["questions"]
        ]:
            shell.lines("answer", "spec-42", question["id"], "Yes.", exit_code=None)
            lines = shell.lines("run", "spec-42", "--continuity", "resume")
        assert only(lines, "result")["status"] == "approved", iteration
    audit = shell.lines("audit", "spec-42", "--format", "json")[0]
    chains = {
        c["role"]: [link["upstream_session_id"] for link in c["chain"]]
        for c in audit["conversations"]
    }
    assert {role: len(chain) for role, chain in chains.items()} == dict.fromkeys(
        ("clarifier", "planner", "auditor", "constructor", "validator"), 1
    )
    sessions = {request.session_id for request in model.model_requests}
    assert sessions == {chain[0] for chain in chains.values()}
