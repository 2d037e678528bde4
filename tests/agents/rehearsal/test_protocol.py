"""JSON-RPC as the rehearsal agent speaks it: what cannot be read, and a client that goes."""

import json

import pytest
from tests.agents.rehearsal.conftest import PATIENCE_S


def test_a_line_that_is_no_request_is_answered_with_an_error_and_the_agent_lives(agent):
    for line, code in ((b"{nonsense", -32700), (b"\xff\xfe", -32700), (b"[1, 2]", -32600)):
        agent.write(line)
        frame = agent.take()
        assert (frame["id"], frame["error"]["code"]) == (None, code)
    assert agent.new().startswith("ses_")


def test_unknown_notifications_and_stray_answers_are_ignored(agent):
    agent.notify("session/whatever", {})
    agent.cancel(7)
    agent.write(b'{"jsonrpc": "2.0", "id": [1], "result": {}}')
    agent.write(b'{"jsonrpc": "2.0", "id": 999, "result": {}}')
    agent.write(b"")
    assert agent.new().startswith("ses_")


def test_an_unknown_method_and_a_missing_parameter_are_named(agent):
    error = agent.refused("session/teleport")
    assert (error["code"], error["data"]) == (-32601, {"method": "session/teleport"})
    error = agent.refused("session/new")
    assert error["code"] == -32602
    assert "cwd" in error["message"]


def test_ids_may_be_texts(agent):
    agent.write(json.dumps({"jsonrpc": "2.0", "id": "a-1", "method": "initialize"}).encode())
    assert agent.take()["id"] == "a-1"


@pytest.mark.extended
@pytest.mark.parametrize(
    "directives",
    [("think now", "hang"), ("execute python -c 'import time; time.sleep(600)'",)],
)
def test_the_agent_ends_with_its_client_even_in_a_turn_and_so_does_its_command(agent, directives):
    """A command that outlived the agent would fail the proof that no process is left."""
    agent.begin(agent.new(), *directives)
    agent.process.stdin.close()
    assert agent.wait_until_gone() == 0
    assert agent.process.stderr.read() == b""


def test_a_permission_asked_of_a_client_that_has_gone_is_not_given(home, project, start):
    agent = start(UPTHREAD_REHEARSAL_CAPABILITIES="outlives")
    session_id = agent.new()
    agent.begin(session_id, "think now", "slow 5 20", "write late.txt x")
    agent.process.stdin.close()
    assert agent.process.wait(timeout=PATIENCE_S) == 0
    history = (home / "sessions" / f"{session_id}.jsonl").read_text()
    assert "permission was not given: the client has gone" in history
    assert not (project / "late.txt").exists()
