"""What a person has got wrong about the real Claude Code and Codex: a turn ends, and says what."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live.claude_code import claude_environment
from tests.live.codex import codex_environment
from tests.live.shell import Shell, agents_left, only

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]
ADDRESS = "spec-42/planner"
AT_ONCE_S = 60.0
"""Beside a whole start of the agent on a machine at work; the prompt's own deadline is an hour."""

ENVIRONMENTS = {"claude": claude_environment, "codex": codex_environment}


@pytest.fixture
def shell_of(request, model, project, tmp_path) -> Iterator[Callable[[str], Shell]]:
    def made(agent: str) -> Shell:
        binaries = tmp_path / "bin"
        binaries.mkdir()
        (binaries / agent).symlink_to(request.getfixturevalue(f"{agent}_binary"))
        environment = {
            **ENVIRONMENTS[agent](tmp_path / "home", model),
            "PATH": f"{binaries}:/usr/bin:/bin",
            "UPTHREAD_HOME": str(tmp_path / "upthread"),
        }
        return Shell(project, environment)

    yield made
    assert agents_left(tmp_path) == []


def break_codex_configuration(home: Path, _: dict[str, str]) -> None:
    (home / ".codex" / "config.toml").write_text("model = = what\n")


def take_codex_key(_: Path, environment: dict[str, str]) -> None:
    del environment["REHEARSAL_API_KEY"]


def take_claude_key(_: Path, environment: dict[str, str]) -> None:
    del environment["ANTHROPIC_API_KEY"]


@pytest.mark.parametrize(
    ("agent", "spoil", "prompt", "reason", "says"),
    [
        pytest.param(
            *("codex", break_codex_configuration, "Plan.", "unknown", "config.toml"),
            id="codex-configuration",
        ),
        pytest.param(
            *("codex", take_codex_key, "Plan.", "unknown", "REHEARSAL_API_KEY"), id="codex-key"
        ),
        pytest.param(
            *("codex", None, "[[FAIL 404 no such model: gpt-none]]", "unknown", "gpt-none"),
            id="codex-model",
        ),
        pytest.param("claude", take_claude_key, "Plan.", "auth", "/login", id="claude-key"),
        pytest.param(
            *("claude", None, "[[FAIL 404 no such model: none]]", "unknown", "model"),
            id="claude-model",
        ),
    ],
)
def test_what_is_wrong_ends_the_turn_within_seconds_in_the_agents_own_words(
    shell_of, tmp_path, agent, spoil, prompt, reason, says
):
    shell = shell_of(agent)
    if spoil is not None:
        spoil(tmp_path / "home", shell.environment)
    started_s = time.monotonic()
    lines = shell.lines("tell", ADDRESS, prompt, exit_code=None)
    took_s = time.monotonic() - started_s
    assert took_s < AT_ONCE_S
    ended = only(lines, "turn_ended")
    stopped = ended["parked"] or {"reason": ended["outcome"], "detail": ended["detail"]}
    assert stopped["reason"] == reason
    assert says in stopped["detail"]
