"""The hook beside a listener, run as Codex runs it: asked, answered, and left alone."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from upthread.agents._prompt import VARIABLE, listening
from upthread.agents.base import CallAnswer
from upthread.agents.codex import gate
from upthread.agents.codex.adapter import hook_command

PUSH = CallAnswer(answered_by="the test", why="it pushes")

pytestmark = pytest.mark.anyio

CALLED = {"tool_use_id": "call-1", "tool_name": "Bash", "tool_input": {"command": "git push"}}
TOLD = {"session_id": "ses-parent", **CALLED}


async def run(environment: Mapping[str, str], told: object = TOLD) -> dict[str, Any]:
    done = await anyio.run_process(
        shlex.split(hook_command()),
        input=json.dumps(told).encode(),
        env={"PATH": "", **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["hookSpecificOutput"] if done.stdout else {}


@pytest.mark.extended
async def test_a_call_is_left_to_codex_itself_unless_it_is_held_and_then_denied_with_the_reason():
    asked: list[Mapping[str, Any]] = []

    async def hold(told: Mapping[str, Any]) -> CallAnswer | None:
        asked.append(told)
        return PUSH if len(asked) == 3 else None

    async with listening() as listener:
        listener.hold = hold
        assert await run(listener.environment) == {}
        assert await run(listener.environment, {**TOLD, "agent_id": "ses-child"}) == {}
        denied = await run(listener.environment)
        for odd in ([], "a text", None):
            assert (await run(listener.environment, odd))["permissionDecision"] == "deny"
    first, second, _ = asked
    assert (first["session"], first["call"], first["tool"]) == ("ses-parent", "call-1", "Bash")
    assert first["arguments"] == {"command": "git push"}
    assert second["session"] == "ses-child"
    assert denied["permissionDecision"] == "deny"
    assert denied["permissionDecisionReason"] == "upthread: it pushes"


@pytest.mark.extended
async def test_a_call_that_nobody_answers_does_not_run():
    async with listening() as listener:
        gone = dict(listener.environment)
        stranger = {VARIABLE: gone[VARIABLE].rsplit(" ", 1)[0] + " wrong"}
        refused = await run(stranger)
    for answer in (refused, await run(gone), await run({}), await run({VARIABLE: "nonsense"})):
        assert answer["permissionDecision"] == "deny"
        assert answer["permissionDecisionReason"].startswith(gate.GONE)


@pytest.mark.extended
@pytest.mark.parametrize(
    "answer", [b"[]", b"{}", b'{"held": null}', b'{"held": 0}', b"1", b"\n", b""]
)
async def test_what_another_program_answers_lets_nothing_run(answer: bytes):
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as sockets:

        async def serve(stream: SocketStream) -> None:
            async with stream:
                await stream.receive()
                await stream.send(answer + b"\n")

        port = sockets.extra(SocketAttribute.local_port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sockets.serve, serve)
            told = await run({VARIABLE: f"127.0.0.1 {port} token"})
            tasks.cancel_scope.cancel()
    assert told["permissionDecision"] == "deny"
    assert told["permissionDecisionReason"].startswith(gate.GONE)
