"""The promise itself, on the real Codex: the same session, whatever was killed in between."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.live.codex import (
    ASKS,
    codex_environment,
    command,
    delegation,
    permission,
    rollouts,
)
from tests.live.shell import Shell, agents_left, kill_tree, only

from upthread.testing.rehearsal_model import RehearsalModel
from upthread.testing.rehearsal_model.responses import RESPONSES

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]


@pytest.fixture
def shell(
    codex_binary: Path, model: RehearsalModel, project: Path, tmp_path: Path
) -> Iterator[Shell]:
    """Codex is the only agent on PATH, so upthread chooses it without being told."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "codex").symlink_to(codex_binary)
    environment = {
        **codex_environment(tmp_path / "home", model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    yield Shell(project, environment)
    assert agents_left(tmp_path) == []


def started_call(running) -> None:
    """Wait until a tool call of the running turn is on record."""
    assert running.stdout is not None
    for line in running.stdout:
        if json.loads(line).get("kind") == "tool_call":
            return
    raise AssertionError("it ended without a call")


def agents_running(tmp_path: Path) -> set[str]:
    """The words of all commands that run below this test's directory."""
    mine = str(tmp_path / "home").encode()
    words: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mine in (process / "environ").read_bytes():
                words |= set((process / "cmdline").read_text().split("\0"))
    return words


def told_last(model: RehearsalModel) -> str:
    return json.dumps(model.model_requests[-1].body["input"])


def user_texts(model: RehearsalModel) -> tuple[str, ...]:
    return RESPONSES.read(model.model_requests[-1].body).user_texts


def thread_of(request) -> str:
    return request.body["client_metadata"]["thread_id"]


def test_a_second_tell_is_the_same_session_with_its_history(shell, model):
    first = shell.lines("tell", "spec-42/planner", "Remember KIWI-42.")
    assert only(first, "turn_ended")["outcome"] == "ok"
    second = shell.lines("tell", "spec-42/planner", "What was it?")
    assert only(second, "turn_started")["decision"] == "resume"
    session = only(first, "turn_started")["upstream_session_id"]
    assert only(second, "turn_started")["upstream_session_id"] == session
    assert thread_of(model.model_requests[-1]) == session
    assert "KIWI-42" in told_last(model)


def test_after_sigkill_of_agent_and_upthread_the_next_turn_holds_the_earlier_history(shell, model):
    first = shell.lines("tell", "spec-42/planner", "Remember KIWI-42.")
    session = only(first, "turn_started")["upstream_session_id"]
    running = shell.start("tell", "spec-42/planner", f"Wait a while.\n\n{command('sleep 60')}")
    started_call(running)
    kill_tree(running)
    lines = shell.lines("tell", "spec-42/planner", "What was it?")
    assert only(lines, "turn_started")["upstream_session_id"] == session
    assert "interrupted" in only(lines, "turn_started")["reasons"]
    assert "KIWI-42" in told_last(model)
    assert "Wait a while." in told_last(model)


def test_sigkill_of_upthread_alone_ends_codex_and_its_running_command(shell, tmp_path):
    """Its pipes close with upthread; the fixture looks for what is left, too."""
    running = shell.start("tell", "spec-42/planner", f"Wait a while.\n\n{command('sleep 60')}")
    started_call(running)
    assert agents_running(tmp_path) >= {"app-server", "sleep"}
    running.kill()
    running.communicate()
    assert agents_left(tmp_path) == []


def test_an_interrupted_turn_goes_on_in_the_same_session(shell, model):
    running = shell.start("tell", "spec-42/planner", "Think long.\n\n[[HANG]]")
    deadline = time.monotonic() + 60
    while not model.model_requests and time.monotonic() < deadline:
        time.sleep(0.1)
    kill_tree(running)
    lines = shell.lines("tell", "spec-42/planner", "--continue")
    assert only(lines, "turn_ended")["outcome"] == "ok"
    assert only(lines, "turn_started")["recognition"] == "incomplete"
    prompts = [text for text in user_texts(model) if "Think long.\n\n[[HANG]]" in text]
    assert len(prompts) == 1, "it is not sent again: one continuation is"
    assert "interrupted" in user_texts(model)[-1]


def test_a_deleted_rollout_is_rolled_over_in_the_open(shell, model, tmp_path):
    first = shell.lines("tell", "spec-42/planner", "Remember KIWI-42.")
    session = only(first, "turn_started")["upstream_session_id"]
    (rollout,) = rollouts(tmp_path / "home", session)
    rollout.unlink()
    lines = shell.lines("tell", "spec-42/planner", "What was it?")
    assert only(lines, "turn_ended")["outcome"] == "ok"
    chain = shell.lines("show", "spec-42")[0]["roles"][0]["chain"]
    assert [link["ended_because"] for link in chain][:1] == ["missing"]
    assert len(chain) == 2
    assert "KIWI-42" in told_last(model)


def test_a_sub_agents_work_is_recorded_as_its_own_to_its_end(shell):
    """Its parent's turn ends first, and nothing of it is lost."""
    child = delegation(f"{command('sleep 1; echo child-at-work')} [[SAY child says]]")
    shell.lines("tell", "spec-42/planner", f"Delegate.\n\n{child} [[SAY parent says]]")
    audit = shell.lines("audit", "spec-42", "--format", "json")[0]
    by_role = {each["role"]: json.dumps(each) for each in audit["conversations"]}
    assert set(by_role) == {"planner", "explorer"}
    assert "child-at-work" in by_role["explorer"]
    assert "child says" in by_role["explorer"]
    assert "parent says" in by_role["planner"]
    parent = next(each for each in audit["conversations"] if each["role"] == "planner")
    assert parent["turns"][0]["quarantined"] == []


def test_nobody_to_ask_parks_the_turn_and_nothing_is_done(shell, model, project, tmp_path):
    codex_environment(tmp_path / "home", model, settings=ASKS)
    asking = f"Do it.\n\n{permission('touch x')}"
    lines = shell.lines("tell", "spec-42/planner", asking, exit_code=4)
    assert only(lines, "result")["status"] == "parked"
    assert not (project / "x").exists()


def test_the_pipeline_runs_to_approved_in_new_processes(shell, model, project):
    (project / "spec.md").write_text("# Export\n\n- R1: write `export.txt`\n")
    lines = shell.lines("run", "spec-42", "--spec", "spec.md", exit_code=4)
    question = only(lines, "waiting")["questions"][0]
    shell.lines("answer", "spec-42", question["id"], "Yes.")
    lines = shell.lines("run", "spec-42")
    assert only(lines, "result")["status"] == "approved"
    shown = shell.lines("show", "spec-42")[0]
    sessions_seen = {thread_of(request) for request in model.model_requests}
    assert {
        link["upstream_session_id"] for role in shown["roles"] for link in role["chain"]
    } == sessions_seen
