"""The methods of ACP as the rehearsal agent answers them."""

from __future__ import annotations

import pytest
from tests.agents.rehearsal.conftest import rehearse

UNKNOWN = "ses_000000000000000000000000"
ATTACHING = ("load", "resume", "fork", "close", "prompt")


def test_the_handshake_names_version_and_capabilities(agent):
    answer = agent.request("initialize", protocolVersion=1, clientCapabilities={})
    assert (answer["protocolVersion"], answer["agentInfo"]["name"]) == (1, "rehearsal")
    assert answer["agentCapabilities"]["loadSession"] is True
    names = {"resume", "list", "fork", "close"}
    assert set(answer["agentCapabilities"]["sessionCapabilities"]) == names


@pytest.mark.soak
def test_what_it_sends_is_valid_by_the_published_schema(agent):
    from acp import schema

    schema.InitializeResponse.model_validate(agent.request("initialize", protocolVersion=1))
    agent.do(
        *("think a", "plan a|b", "usage 1 2", "say a", "read a", "write a b"),
        "execute python -c pass",
    )
    assert len(agent.updates) > 12
    for params in agent.updates:
        schema.SessionNotification.model_validate(params)
    for params in agent.permissions:
        schema.RequestPermissionRequest.model_validate(params)
    schema.ListSessionsResponse.model_validate(agent.request("session/list"))


def test_opaque_errors_say_nothing_and_the_list_tells(start):
    agent = start(UPTHREAD_REHEARSAL_CAPABILITIES="opaque_errors")
    known = agent.new()
    for verb in ATTACHING:
        error = agent.refused(f"session/{verb}", sessionId=UNKNOWN, cwd="/", prompt=[])
        assert error == {"code": -32603, "message": "Internal error"}
    assert [one["sessionId"] for one in agent.request("session/list")["sessions"]] == [known]


def test_a_closed_session_is_kept_and_can_be_resumed(agent):
    session_id = agent.new()
    agent.prompt(session_id, "one")
    agent.request("session/close", sessionId=session_id)
    assert agent.refused_prompt(session_id, "two")["code"] == -32602
    agent.attach("resume", session_id)
    agent.prompt(session_id, "three")
    assert "I remember 1 earlier prompts" in agent.reply


def test_closing_a_session_cancels_its_turn(agent):
    session_id = agent.new()
    running = agent.send_prompt(session_id, rehearse("hang"))
    agent.request("session/close", sessionId=session_id)
    assert agent.answer(running)["stopReason"] == "cancelled"


def test_sessions_remember_what_is_theirs_and_a_fork_what_its_origin_held(agent):
    origin = agent.new()
    agent.prompt(origin, "one")
    fork = agent.attach("fork", origin)["sessionId"]
    assert fork != origin
    agent.prompt(fork, "two")
    assert '1 earlier prompts: "one"' in agent.reply
    agent.prompt(origin, "three")
    assert '1 earlier prompts: "one"' in agent.reply
    agent.prompt(agent.new(), "four")
    assert "I remember 0 earlier prompts (rehearsal)" in agent.reply


def test_two_sessions_work_at_once_and_a_running_one_takes_no_second_prompt(agent):
    slow, quick = agent.new(), agent.new()
    running = agent.send_prompt(slow, rehearse("hang"))
    assert agent.prompt(quick, "hello") == "end_turn"
    error = agent.refused_prompt(slow, "me too")
    assert error["code"] == -32600
    assert slow in error["message"]
    agent.cancel(slow)
    assert agent.answer(running)["stopReason"] == "cancelled"


def test_a_session_lost_while_attached_is_unknown_at_the_next_prompt(agent, home):
    session_id = agent.new()
    (home / "sessions" / f"{session_id}.jsonl").unlink()
    assert agent.refused_prompt(session_id, "hello")["code"] == -32002


def test_all_text_of_a_prompt_is_read(agent):
    session_id = agent.new()
    blocks = [
        {"type": "text", "text": "one"},
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///x", "text": "two"}},
    ]
    agent.request("session/prompt", sessionId=session_id, prompt=blocks)
    agent.updates.clear()
    agent.attach("load", session_id)
    assert agent.updates[0]["update"]["content"]["text"] == "one\n\ntwo"


def test_the_log_counts_what_was_asked_of_the_agent(agent, read_log):
    session_id = agent.new()
    agent.prompt(session_id, "héllo")
    agent.attach("load", session_id)
    agent.attach("resume", session_id)
    events = [line["event"] for line in read_log()]
    assert events == ["session_new", "prompt", "reply", "session_load", "session_resume"]
    prompt = read_log()[1]
    assert (prompt["bytes"], prompt["text"], prompt["session_id"]) == (6, "héllo", session_id)
    assert prompt["pid"] == agent.process.pid
