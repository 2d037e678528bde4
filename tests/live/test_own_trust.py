"""What the real agents trust is what their person said, before and after upthread drove them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.live.agents import ADDRESS, AGENTS, CODEX, shell_of
from tests.live.codex import codex_environment
from tests.support.sets import EXTENDED

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SETTINGS = ("config.toml", "settings.json", "settings.local.json", "opencode.json", "hooks.json")
TRUST = ("hasTrustDialogAccepted", "allowedTools", "mcpServers", "enabledMcpjsonServers")


def said_by_the_person(home: Path) -> dict[str, str]:
    """All settings of the agents below a home, and of Claude Code's state what it trusts."""
    found = {str(file): file.read_text() for file in home.rglob("*") if file.name in SETTINGS}
    for file in home.rglob(".claude.json"):
        projects = json.loads(file.read_text()).get("projects", {})
        trusted = {
            place: {name: value for name, value in each.items() if name in TRUST and value}
            for place, each in projects.items()
        }
        found[str(file)] = json.dumps({place: each for place, each in trusted.items() if each})
    return found


@pytest.mark.parametrize(
    ("name", "sandbox"),
    [
        ("codex", "workspace-write"),
        pytest.param("codex", "danger-full-access", marks=EXTENDED),
        pytest.param("claude-code", "", marks=EXTENDED),
        pytest.param("opencode", "", marks=EXTENDED),
    ],
)
def test_in_a_new_clone_an_agent_trusts_what_it_did_before(
    name: str, sandbox: str, tmp_path: Path, model: RehearsalModel, request
) -> None:
    agent = AGENTS[name]
    shell = shell_of(agent, request.getfixturevalue(agent.fixture), model, tmp_path)
    if agent is CODEX:
        codex_environment(shell.home, model, settings={"sandbox_mode": sandbox})
    (shell.home / ".claude.json").write_text("{}")
    before = said_by_the_person(shell.home)
    assert before
    assert shell.tell("Do it.", address=ADDRESS)["decision"] == "first"
    assert shell.tell("And now?", address=ADDRESS)["decision"] == "resume"
    after = said_by_the_person(shell.home)
    assert {name: text for name, text in after.items() if name in before or text != "{}"} == before
