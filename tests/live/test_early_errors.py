"""A person's mistake about a real agent ends the turn with the agent's own words."""

from __future__ import annotations

import pytest
from tests.live.shell import ADDRESS, PATIENCE_S, only
from tests.support.sets import EXTENDED

pytestmark = [pytest.mark.live, EXTENDED, pytest.mark.timeout(300)]


def break_configuration(shell) -> None:
    (shell.home / ".codex" / "config.toml").write_text("model = = what\n")


def without(variable: str):
    return lambda shell: shell.environment.pop(variable)


def change_nothing(_shell) -> None:
    """The prompt itself makes the provider refuse the model."""


MISTAKES = {
    "codex-configuration": ("codex", break_configuration, "unknown", "config.toml"),
    "codex-key": ("codex", without("REHEARSAL_API_KEY"), "unknown", "REHEARSAL_API_KEY"),
    "codex-model": ("codex", change_nothing, "unknown", "gpt-none"),
    "claude-key": ("claude-code", without("ANTHROPIC_API_KEY"), "auth", "/login"),
    "claude-model": ("claude-code", change_nothing, "unknown", "model"),
}


@pytest.mark.parametrize(("name", "spoil", "reason", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_ends_the_turn_at_once_in_the_agents_own_words(shell, spoil, reason, says):
    """The prompt's own deadline is an hour; a start of the agent takes some of the patience."""
    shell.patience_s = PATIENCE_S
    spoil(shell)
    prompt = "Plan. [[FAIL 404 no such model: gpt-none]]"
    ended = only(shell.lines("tell", ADDRESS, prompt, exit_code=None), "turn_ended")
    stopped = ended["parked"] or {"reason": ended["outcome"], "detail": ended["detail"]}
    assert stopped["reason"] == reason
    assert says in stopped["detail"]
