"""Roles on different agents, and a conversation that moves between them with its context."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.claude_code import claude_environment
from tests.live.codex import codex_environment
from tests.live.opencode import opencode_environment
from tests.live.shell import Shell, agents_left, only

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ROLES = {"planner": "claude-code", "constructor": "opencode", "validator": "codex"}
PROTOCOLS = {"claude-code": "messages", "opencode": "chat_completions", "codex": "responses"}


@pytest.fixture
def shell(
    claude_binary, opencode_binary, codex_binary, model, project, tmp_path
) -> Iterator[Shell]:
    """All three are on PATH, each with the rehearsal model as its only provider."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    found: dict[str, Path] = {
        "claude": claude_binary,
        "opencode": opencode_binary,
        "codex": codex_binary,
    }
    for name, binary in found.items():
        (binaries / name).symlink_to(binary)
    home = tmp_path / "home"
    environment = {
        **claude_environment(home, model),
        **opencode_environment(home, model),
        **codex_environment(home, model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    yield Shell(project, environment)
    assert agents_left(tmp_path) == []


def test_the_pipeline_runs_to_approved_with_its_roles_on_three_agents(shell, model, project):
    (project / "spec.md").write_text("# Export\n\n- R1: write `export.txt`\n")
    chosen = [f"--agent={role}={agent}" for role, agent in ROLES.items()]
    words = ("run", "spec-42", "--spec", "spec.md", "--agent", "codex", *chosen)
    lines = shell.lines(*words, exit_code=4)
    question = only(lines, "waiting")["questions"][0]
    shell.lines("answer", "spec-42", question["id"], "Yes.")
    lines = shell.lines("run", "spec-42")
    assert only(lines, "result")["status"] == "approved"
    shown = shell.lines("show", "spec-42")[0]
    agents = {role["role"]: role["agent"] for role in shown["roles"]}
    assert agents.items() >= ROLES.items()
    assert {request.protocol for request in model.model_requests} == set(PROTOCOLS.values())


def test_a_conversation_moves_from_agent_to_agent_and_back_with_its_context(shell, model):
    told: list[str] = []
    for number, agent in enumerate(("codex", "claude-code", "opencode", "codex")):
        told.append(f"KIWI-{number}")
        ended = only(
            shell.lines("tell", "spec-42/planner", f"Remember {told[-1]}.", "--agent", agent),
            "turn_ended",
        )
        assert ended["outcome"] == "ok"
        shown = json.dumps(model.model_requests[-1].body)
        assert model.model_requests[-1].protocol == PROTOCOLS[agent]
        assert [word for word in told if word not in shown] == []
    chain = shell.lines("show", "spec-42")[0]["roles"][0]["chain"]
    assert [link["agent"] for link in chain] == ["codex", "claude-code", "opencode", "codex"]
    assert len({link["upstream_session_id"] for link in chain}) == len(chain)
