"""The hook beside a listener, run as Codex runs it: asked, answered, and left alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from upthread.agents._permissions import VARIABLE, listening
from upthread.agents.base import CallAnswer
from upthread.agents.codex import gate
from upthread.agents.codex.hooks import hook_command

PUSH = CallAnswer(answered_by="the test", why="it pushes")

pytestmark = pytest.mark.anyio

TOLD = {
    "session_id": "ses-parent",
    "tool_use_id": "call-1",
    "tool_name": "Bash",
    "tool_input": {"command": "git push"},
}


async def run(environment: Mapping[str, str], told: object = TOLD) -> dict[str, Any]:
    done = await anyio.run_process(
        shlex.split(hook_command()),
        input=json.dumps(told).encode(),
        env={"PATH": "", **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["hookSpecificOutput"] if done.stdout else {}


async def test_a_call_that_is_not_held_is_left_to_codex_itself():
    asked: list[Mapping[str, Any]] = []

    async def hold(told: Mapping[str, Any]) -> CallAnswer | None:
        asked.append(told)
        return None

    async with listening() as listener:
        listener.hold = hold
        assert await run(listener.environment) == {}
        assert await run(listener.environment, {**TOLD, "agent_id": "ses-child"}) == {}
    first, second = asked
    assert (first["session"], first["call"], first["tool"]) == ("ses-parent", "call-1", "Bash")
    assert first["arguments"] == {"command": "git push"}
    assert second["session"] == "ses-child"


async def test_a_call_that_is_held_is_denied_with_the_reason():
    async def hold(_told: Mapping[str, Any]) -> CallAnswer | None:
        return PUSH

    async with listening() as listener:
        listener.hold = hold
        answer = await run(listener.environment)
    assert (answer["permissionDecision"], answer["permissionDecisionReason"]) == (
        "deny",
        "upthread: it pushes",
    )


async def test_a_call_that_nobody_answers_does_not_run():
    async with listening() as listener:
        gone = dict(listener.environment)
        stranger = {VARIABLE: gone[VARIABLE].rsplit(" ", 1)[0] + " wrong"}
        refused = await run(stranger)
    for answer in (refused, await run(gone), await run({}), await run({VARIABLE: "nonsense"})):
        assert answer["permissionDecision"] == "deny"
        assert answer["permissionDecisionReason"].startswith(gate.GONE)
