"""One turn of the rehearsal agent: its reply, its permissions, and how it is cut short."""

from __future__ import annotations

from tests.agents.rehearsal.conftest import NOTICE, rehearse

FOREVER = "execute python -c 'import time; time.sleep(600)'"


def test_the_first_reply_of_a_session_and_only_that_says_it_is_a_rehearsal(agent):
    session_id = agent.new()
    assert agent.prompt(session_id, rehearse("empty")) == "end_turn"
    assert agent.updates == []
    agent.prompt(session_id, "one")
    assert agent.reply.startswith(NOTICE)
    agent.prompt(session_id, "two")
    assert NOTICE not in agent.reply


def test_a_cancelled_command_is_ended_and_its_call_has_failed(agent):
    """A command that went on would fail the proof that no process is left."""
    session_id = agent.new()
    running = agent.begin(session_id, FOREVER)
    agent.cancel(session_id)
    assert agent.answer(running)["stopReason"] == "cancelled"
    assert agent.of_kind("tool_call_update")[-1]["status"] == "failed"


def test_a_refused_permission_is_honoured_and_the_turn_continues(agent, project, read_log):
    agent.permission_answer = "reject_once"
    assert agent.do("write a.txt x", "execute python -c pass", "say so") == "so"
    assert not (project / "a.txt").exists()
    assert [update["status"] for update in agent.of_kind("tool_call_update")] == ["failed"] * 2
    assert not [line for line in read_log() if line["event"] in {"write", "execute"}]


def test_a_dismissed_permission_cancels_the_turn(agent, project):
    agent.permission_answer = None
    assert agent.prompt(agent.new(), rehearse("write a.txt x")) == "cancelled"
    assert not (project / "a.txt").exists()


def test_a_permission_request_names_the_call_and_its_file(agent, project):
    session_id = agent.new()
    agent.prompt(session_id, rehearse("write a.txt x"))
    (asked,) = agent.permissions
    assert asked["sessionId"] == session_id
    assert asked["toolCall"]["rawInput"] == {"path": "a.txt", "content": "x"}
    assert asked["toolCall"]["locations"] == [{"path": str(project / "a.txt")}]
    assert [option["kind"] for option in asked["options"]] == ["allow_once", "reject_once"]
