"""`upthread doctor --probe` on the real agents: what it finds is what the docs say of them."""

from __future__ import annotations

import json

import pytest
from tests.live.claude_code import claude_environment
from tests.live.codex import codex_environment
from tests.live.opencode import opencode_environment
from tests.live.shell import Shell
from tests.support import trusting

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

LIMIT = "[[FAIL 429 retry-after=600 rate limit reached]]"


def probed(shell: Shell, agent: str) -> dict[str, dict[str, str]]:
    words = ("doctor", "--probe", agent, "--rate-limit-prompt", LIMIT, "--yes")
    (told,) = shell.lines(*words)
    return {each["check"]: each for each in told["findings"]}


def verdicts(found: dict[str, dict[str, str]]) -> dict[str, str]:
    return {check: each["verdict"] for check, each in found.items() if check != "remembers"}


def assert_history_arrived(model: RehearsalModel) -> None:
    """What the agent was told before the kill stands before the question after it."""
    bodies = [json.dumps(request.body) for request in model.model_requests]
    asked = [body for body in bodies if "Which word did I ask you" in body]
    assert asked
    assert all("Please remember the word heron-" in body for body in asked)


def test_opencode_over_acp_keeps_a_rate_limit_to_itself(opencode_binary, model, project, tmp_path):
    command = json.dumps([str(opencode_binary), "acp"])
    configured = f"[agents.oc]\ncommand = {command}\n"
    trusting.configure(project, tmp_path / "upthread", configured)
    environment = {
        **opencode_environment(tmp_path / "home", model),
        "PATH": "/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    found = probed(Shell(project, environment), "oc")
    quirks = {check for check, verdict in verdicts(found).items() if verdict == "quirk"}
    assert quirks == {"rate_limit"}, found
    assert found["rate_limit"]["seen"].startswith("timed_out")
    assert_history_arrived(model)


def test_claude_code_says_all_but_what_it_has(claude_binary, model, project, tmp_path):
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "claude").symlink_to(claude_binary)
    environment = {
        **claude_environment(tmp_path / "home", model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    found = probed(Shell(project, environment), "claude-code")
    assert {check for check, verdict in verdicts(found).items() if verdict != "good"} == {"listed"}
    assert found["rate_limit"]["seen"].startswith("rate_limited")
    assert_history_arrived(model)


def test_codex_says_all_that_is_asked_of_an_agent(codex_binary, model, project, tmp_path):
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "codex").symlink_to(codex_binary)
    environment = {
        **codex_environment(tmp_path / "home", model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    found = probed(Shell(project, environment), "codex")
    assert {check for check, verdict in verdicts(found).items() if verdict != "good"} == set()
    assert found["rate_limit"]["seen"].startswith("rate_limited")
    assert_history_arrived(model)
