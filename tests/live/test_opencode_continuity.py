"""The promise itself, on the real OpenCode: the same session, whatever was killed in between."""

from __future__ import annotations

import json
import time

import pytest
from tests.live.shell import Shell, kill_tree, only

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


@pytest.fixture
def shell(opencode_shell: Shell) -> Shell:
    return opencode_shell


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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("iterations", [3, pytest.param(7, marks=pytest.mark.soak)])
def test_iterations_keep_one_session_for_each_of_five_resuming_roles(
    shell, model, project, iterations
):
    for iteration in range(1, iterations + 1):
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
