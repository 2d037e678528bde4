"""A prompt that the real OpenCode gives up before it has begun: it ends, and says why."""

from __future__ import annotations

import time

import pytest
from tests.live.shell import Shell, only

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
ADDRESS = "spec-42/planner"
AT_ONCE_S = 60.0
"""Beside a whole start of OpenCode; the prompt's own deadline is an hour."""


@pytest.fixture
def shell(opencode_shell: Shell) -> Shell:
    return opencode_shell


def test_an_agent_definition_that_opencode_fails_on_ends_the_turn_with_its_words(shell, project):
    """Its table of agents knows `constructor` before any file says so (as seen in 1.18.33)."""
    definition = project / ".opencode" / "agent" / "constructor.md"
    definition.parent.mkdir(parents=True)
    definition.write_text("---\ndescription: Builds.\nmode: subagent\n---\nYou build.\n")
    started_s = time.monotonic()
    ended = only(shell.lines("tell", ADDRESS, "Plan it.", exit_code=None), "turn_ended")
    assert time.monotonic() - started_s < AT_ONCE_S
    assert "readonly property" in ended["parked"]["detail"], ended
    definition.unlink()
    again = only(shell.lines("tell", ADDRESS, "--continue"), "turn_ended")
    assert again["outcome"] == "ok"
