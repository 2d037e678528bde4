from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

Agent = Any
NOTICE = "This is a rehearsal: no model is behind it."


def test_the_first_reply_of_a_session_and_only_that_says_it_is_a_rehearsal(agent: Agent) -> None:
    session_id = agent.new()
    agent.prompt(session_id, "[[rehearse: empty]]")
    assert agent.reply == ""
    agent.prompt(session_id, "one")
    assert agent.reply.startswith(NOTICE)
    agent.prompt(session_id, "two")
    assert NOTICE not in agent.reply


def test_one_reply_has_one_message_id(agent: Agent) -> None:
    session_id = agent.new()
    agent.prompt(session_id, "[[rehearse: slow 3 0]]")
    first = {update["messageId"] for update in agent.of_kind("agent_message_chunk")}
    agent.prompt(session_id, "again")
    second = {update["messageId"] for update in agent.of_kind("agent_message_chunk")}
    assert len(first) == len(second) == 1
    assert first != second


@pytest.mark.parametrize("doing", ["hang", "slow 100 100"])
def test_cancel_ends_the_turn_at_once(agent: Agent, doing: str) -> None:
    session_id = agent.new()
    running = agent.send_prompt(session_id, f"[[rehearse: think x]] [[rehearse: {doing}]]")
    agent.wait_for(lambda update: update["sessionUpdate"] == "agent_thought_chunk")
    agent.notify("session/cancel", {"sessionId": session_id})
    assert agent.answer(running)["stopReason"] == "cancelled"
    assert agent.prompt(session_id, "still there?") == "end_turn"


def test_a_cancelled_command_is_ended_and_its_call_has_failed(agent: Agent, project: Path) -> None:
    script = project / "forever.py"
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    session_id = agent.new()
    running = agent.send_prompt(session_id, "[[rehearse: execute python forever.py]]")
    agent.wait_for(lambda update: update.get("status") == "in_progress")
    agent.notify("session/cancel", {"sessionId": session_id})
    assert agent.answer(running)["stopReason"] == "cancelled"
    assert agent.of_kind("tool_call_update")[-1]["status"] == "failed"


def test_a_refused_permission_is_honoured_and_the_turn_goes_on(
    agent: Agent, project: Path, read_log: Any
) -> None:
    agent.permission_answer = "reject_once"
    text = "[[rehearse: write a.txt x]] [[rehearse: execute python -c pass]] [[rehearse: say so]]"
    assert agent.prompt(agent.new(), text) == "end_turn"
    assert not (project / "a.txt").exists()
    assert [update["status"] for update in agent.of_kind("tool_call_update")] == ["failed"] * 2
    assert agent.reply.endswith("so")
    assert not [line for line in read_log() if line["event"] in {"write", "execute"}]


def test_a_dismissed_permission_cancels_the_turn(agent: Agent, project: Path) -> None:
    agent.permission_answer = None
    assert agent.prompt(agent.new(), "[[rehearse: write a.txt x]]") == "cancelled"
    assert not (project / "a.txt").exists()


def test_a_permission_request_tells_what_is_meant(agent: Agent, project: Path) -> None:
    session_id = agent.new()
    agent.prompt(session_id, "[[rehearse: write a.txt x]]")
    (asked,) = agent.permissions
    assert asked["sessionId"] == session_id
    assert asked["toolCall"]["rawInput"] == {"path": "a.txt", "content": "x"}
    assert asked["toolCall"]["locations"] == [{"path": str(project / "a.txt")}]
    assert [option["kind"] for option in asked["options"]] == ["allow_once", "reject_once"]


def test_a_kill_in_the_middle_leaves_what_was_said_and_the_open_call(
    start: Any, project: Path
) -> None:
    (project / "forever.py").write_text("import time\ntime.sleep(3)\n")
    first = start()
    session_id = first.new()
    text = "[[rehearse: say begun]] [[rehearse: execute python forever.py]]"
    first.send_prompt(session_id, text)
    first.wait_for(lambda update: update.get("status") == "in_progress")
    told = list(first.updates)
    first.kill()
    second = start()
    second.attach("load", session_id)
    assert second.updates[1:] == told
    assert second.updates[-1]["update"]["status"] == "in_progress"
