"""The real agents, set up and started in a clone full of decoys: nothing of ours runs one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live import test_claude_code_hooks, test_codex_hooks, test_opencode_plugin
from tests.live.set_up import AgentSetUp
from tests.support.decoys import Decoys

from upthread.boundary.programs import own_module
from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

WORKSTREAM = "spec-66"


def put_decoys(place: AgentSetUp, canary: Path) -> Decoys:
    """Make the project a hostile clone; what the tests themselves ask is asked isolated."""
    place.upthread("use", WORKSTREAM)
    decoys = Decoys(place.project, canary)
    place.program = list(own_module("upthread"))
    return decoys


def test_codex_starts_our_hooks_and_what_it_is_configured_with_and_runs_none(
    codex_binary, model, tmp_path
):
    hooked = test_codex_hooks.Hooked(codex_binary, model, tmp_path)
    decoys = put_decoys(hooked, tmp_path / "canary")
    prompt = f"Go. {test_codex_hooks.spawn('Plan. [[SAY planned]]')} {test_codex_hooks.WAIT}"
    hooked.run(prompt, test_codex_hooks.TRUSTED)
    decoys.assert_nothing_ran()
    assert hooked.planner(WORKSTREAM, turns=1)["turns"] == 1, "the hooks and a drain did their work"
    decoys.assert_nothing_ran()


def test_claude_code_starts_our_hooks_and_runs_none(claude_binary, model, tmp_path):
    hooked = test_claude_code_hooks.Hooked(claude_binary, model, tmp_path)
    decoys = put_decoys(hooked, tmp_path / "canary")
    hooked.run(f"Go. {test_claude_code_hooks.delegate('Plan. [[SAY planned]]')}")
    assert hooked.planner(WORKSTREAM, turns=1)["turns"] == 1
    decoys.assert_nothing_ran()


def test_opencode_asks_our_hook_and_runs_none(opencode_binary, model: RehearsalModel, tmp_path):
    plugged = test_opencode_plugin.Plugged(opencode_binary, model, tmp_path)
    decoys = put_decoys(plugged, tmp_path / "canary")
    plugged.used = WORKSTREAM
    with plugged.start() as agent:
        session = test_opencode_plugin.main_session(agent, plugged)
        agent.prompt(session, test_opencode_plugin.delegate("Plan. [[SAY planned]]"))
    assert plugged.planner(WORKSTREAM, turns=1)["turns"] == 1
    decoys.assert_nothing_ran()
