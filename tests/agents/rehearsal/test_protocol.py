from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RehearsalProcess = Any


def _error_after(agent: RehearsalProcess, line: bytes) -> dict[str, Any]:
    agent.write(line)
    frame = agent.take()
    assert frame["id"] is None
    return frame["error"]


def test_a_line_that_is_no_json_is_answered_and_the_agent_lives(agent: RehearsalProcess) -> None:
    assert _error_after(agent, b"{nonsense")["code"] == -32700
    assert _error_after(agent, b"\xff\xfe")["code"] == -32700
    assert _error_after(agent, b"[1, 2]")["code"] == -32600
    assert agent.new().startswith("ses_")


def test_an_unknown_method_is_told_by_name(agent: RehearsalProcess) -> None:
    request_id = agent.send("session/teleport", {})
    frame = agent.take()
    assert frame["id"] == request_id
    assert frame["error"]["code"] == -32601
    assert frame["error"]["data"] == {"method": "session/teleport"}


def test_unknown_notifications_and_stray_answers_are_passed_over(agent: RehearsalProcess) -> None:
    agent.notify("session/whatever", {})
    agent.notify("session/cancel", {"sessionId": 7})
    agent.write(b'{"jsonrpc": "2.0", "id": [1], "result": {}}')
    agent.write(b'{"jsonrpc": "2.0", "id": 999, "result": {}}')
    agent.write(b"")
    assert agent.new().startswith("ses_")


def test_a_missing_parameter_is_named(agent: RehearsalProcess) -> None:
    request_id = agent.send("session/new", {})
    frame = agent.take()
    assert (frame["id"], frame["error"]["code"]) == (request_id, -32602)
    assert "cwd" in frame["error"]["message"]


def test_ids_may_be_texts(agent: RehearsalProcess) -> None:
    agent.write(json.dumps({"jsonrpc": "2.0", "id": "a-1", "method": "initialize"}).encode())
    assert agent.take()["id"] == "a-1"


def test_a_prompt_of_megabytes_is_taken(agent: RehearsalProcess, read_log: Any) -> None:
    assert agent.prompt(agent.new(), "y" * 5_000_000) == "end_turn"
    assert [line["bytes"] for line in read_log() if line["event"] == "prompt"] == [5_000_000]


def test_the_agent_ends_when_its_client_does_even_in_a_hanging_turn(
    agent: RehearsalProcess,
) -> None:
    agent.send_prompt(agent.new(), "[[rehearse: think now]] [[rehearse: hang]]")
    agent.wait_for(lambda update: update["sessionUpdate"] == "agent_thought_chunk")
    agent.process.stdin.close()
    assert agent.wait_until_gone() == 0
    assert agent.process.stderr.read() == b""


def test_a_permission_asked_of_a_client_that_has_gone_is_not_given(
    home: Path, project: Path, start: Any
) -> None:
    agent = start(UPTHREAD_REHEARSAL_CAPABILITIES="outlives")
    session_id = agent.new()
    agent.send_prompt(session_id, "[[rehearse: slow 5 20]] [[rehearse: write late.txt x]]")
    agent.wait_for(lambda update: "chunk 1 of" in str(update))
    agent.process.stdin.close()
    assert agent.process.wait(timeout=10) == 0
    history = (home / "sessions" / f"{session_id}.jsonl").read_text()
    assert "permission was not given: the client has gone" in history
    assert not (project / "late.txt").exists()
