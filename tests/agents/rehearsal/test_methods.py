from __future__ import annotations

from typing import Any

import pytest

Agent = Any
Start = Any
UNKNOWN = "ses_000000000000000000000000"


def _failure(call: Any) -> Any:
    with pytest.raises(Exception) as failed:
        call()
    assert type(failed.value).__name__ == "AgentError", repr(failed.value)
    return failed.value


def test_the_handshake_tells_name_version_and_capabilities(agent: Agent) -> None:
    answer = agent.request("initialize", protocolVersion=1, clientCapabilities={})
    assert answer["protocolVersion"] == 1
    assert answer["agentInfo"]["name"] == "rehearsal"
    assert answer["agentCapabilities"]["loadSession"] is True
    assert set(answer["agentCapabilities"]["sessionCapabilities"]) == {
        "resume", "list", "fork", "close",
    }  # fmt: skip


def test_what_it_says_is_valid_by_the_published_schema(agent: Agent) -> None:
    from acp import schema

    schema.InitializeResponse.model_validate(agent.request("initialize", protocolVersion=1))
    session_id = agent.new()
    agent.prompt(
        session_id,
        "[[rehearse: think a]] [[rehearse: plan a|b]] [[rehearse: usage 1 2]] [[rehearse: say a]] "
        "[[rehearse: read a]] [[rehearse: write a b]] [[rehearse: execute python -c pass]]",
    )
    assert len(agent.updates) > 12
    for params in agent.updates:
        schema.SessionNotification.model_validate(params)
    for params in agent.permissions:
        schema.RequestPermissionRequest.model_validate(params)
    schema.ListSessionsResponse.model_validate(agent.request("session/list"))


def test_a_killed_agent_remembers_on_resume(start: Start) -> None:
    first = start()
    session_id = first.new()
    first.prompt(session_id, "the word is KIWI")
    first.kill()
    second = start()
    assert second.attach("resume", session_id) == {}
    assert second.updates == []
    second.prompt(session_id, "which word?")
    assert second.reply == 'I remember 1 earlier prompts: "the word is KIWI" (rehearsal)'


def test_load_replays_everything_before_it_answers(start: Start) -> None:
    first = start()
    session_id = first.new()
    first.prompt(session_id, "[[rehearse: write a.txt new]] [[rehearse: say done]]")
    told = list(first.updates)
    first.kill()
    second = start()
    second.attach("load", session_id)
    user, *replayed = second.updates
    assert user["update"]["sessionUpdate"] == "user_message_chunk"
    assert user["update"]["content"]["text"].startswith("[[rehearse: write a.txt")
    assert replayed == told
    assert {params["sessionId"] for params in second.updates} == {session_id}


def test_a_session_remembers_nothing_of_another(agent: Agent) -> None:
    agent.prompt(agent.new(), "first")
    agent.prompt(agent.new(), "second")
    assert "I remember 0 earlier prompts (rehearsal)" in agent.reply


@pytest.mark.parametrize("verb", ["load", "resume", "fork", "close", "prompt"])
@pytest.mark.parametrize("session_id", [UNKNOWN, "../../etc/passwd", "no-such-session"])
def test_unknown_session_is_refused_not_silently_new(
    agent: Agent, verb: str, session_id: str
) -> None:
    error = _failure(
        lambda: agent.request(f"session/{verb}", sessionId=session_id, cwd="/", prompt=[])
    )
    assert (error.code, error.data) == (-32002, {"sessionId": session_id})
    assert agent.request("session/list")["sessions"] == []


@pytest.mark.parametrize("verb", ["load", "resume", "fork", "close", "prompt"])
def test_opaque_errors_say_nothing_and_the_list_tells(start: Start, verb: str) -> None:
    agent = start(UPTHREAD_REHEARSAL_CAPABILITIES="opaque_errors")
    known = agent.new()
    error = _failure(
        lambda: agent.request(f"session/{verb}", sessionId=UNKNOWN, cwd="/", prompt=[])
    )
    assert (error.code, error.message.lower(), error.data) == (-32603, "internal error", None)
    assert [one["sessionId"] for one in agent.request("session/list")["sessions"]] == [known]


@pytest.mark.parametrize("name", ["load", "resume", "list", "fork", "close"])
def test_a_capability_switched_off_is_neither_told_nor_there(start: Start, name: str) -> None:
    agent = start(UPTHREAD_REHEARSAL_CAPABILITIES=f"no_{name}")
    told = agent.request("initialize", protocolVersion=1)["agentCapabilities"]
    assert name not in told["sessionCapabilities"]
    assert told["loadSession"] is (name != "load")
    session_id = agent.new()
    error = _failure(
        lambda: agent.request(f"session/{name}", sessionId=session_id, cwd=str(agent.cwd))
    )
    assert error.code == -32601


def test_another_protocol_version_is_answered_on_request(start: Start) -> None:
    agent = start(UPTHREAD_REHEARSAL_CAPABILITIES="protocol_version=99")
    assert agent.request("initialize", protocolVersion=1)["protocolVersion"] == 99


def test_a_session_of_an_earlier_process_must_be_attached_first(start: Start) -> None:
    first = start()
    session_id = first.new()
    first.close()
    error = _failure(lambda: start().prompt(session_id, "hello"))
    assert error.code == -32602
    assert "session/resume" in error.message


def test_a_closed_session_is_kept_and_can_be_resumed(agent: Agent) -> None:
    session_id = agent.new()
    agent.prompt(session_id, "one")
    agent.request("session/close", sessionId=session_id)
    assert _failure(lambda: agent.prompt(session_id, "two")).code == -32602
    agent.attach("resume", session_id)
    agent.prompt(session_id, "three")
    assert "I remember 1 earlier prompts" in agent.reply


def test_closing_a_session_cancels_its_turn(agent: Agent) -> None:
    session_id = agent.new()
    running = agent.send_prompt(session_id, "[[rehearse: hang]]")
    agent.request("session/close", sessionId=session_id)
    assert agent.answer(running)["stopReason"] == "cancelled"


def test_a_fork_remembers_and_its_origin_does_not_hear_of_it(agent: Agent) -> None:
    origin = agent.new()
    agent.prompt(origin, "one")
    fork = agent.attach("fork", origin)["sessionId"]
    assert fork != origin
    agent.prompt(fork, "two")
    assert '1 earlier prompts: "one"' in agent.reply
    agent.prompt(origin, "three")
    assert '1 earlier prompts: "one"' in agent.reply


def test_two_sessions_work_at_once_in_one_process(agent: Agent) -> None:
    slow, quick = agent.new(), agent.new()
    running = agent.send_prompt(slow, "[[rehearse: hang]]")
    assert agent.prompt(quick, "hello") == "end_turn"
    agent.notify("session/cancel", {"sessionId": slow})
    assert agent.answer(running)["stopReason"] == "cancelled"


def test_a_second_prompt_in_a_running_session_is_refused(agent: Agent) -> None:
    session_id = agent.new()
    running = agent.send_prompt(session_id, "[[rehearse: hang]]")
    error = _failure(lambda: agent.prompt(session_id, "me too"))
    assert error.code == -32600
    assert session_id in error.message
    agent.notify("session/cancel", {"sessionId": session_id})
    assert agent.answer(running)["stopReason"] == "cancelled"


def test_a_session_lost_while_attached_is_unknown_at_the_next_prompt(
    agent: Agent, home: Any
) -> None:
    session_id = agent.new()
    (home / "sessions" / f"{session_id}.jsonl").unlink()
    assert _failure(lambda: agent.prompt(session_id, "hello")).code == -32002


def test_all_text_of_a_prompt_is_heard(agent: Agent) -> None:
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


def test_the_log_counts_what_was_asked_of_the_agent(agent: Agent, read_log: Any) -> None:
    session_id = agent.new()
    agent.prompt(session_id, "héllo")
    agent.attach("load", session_id)
    agent.attach("resume", session_id)
    assert [line["event"] for line in read_log()] == [
        "session_new", "prompt", "reply", "session_load", "session_resume",
    ]  # fmt: skip
    prompt = read_log()[1]
    assert (prompt["bytes"], prompt["text"], prompt["session_id"]) == (6, "héllo", session_id)
    assert prompt["pid"] == agent.process.pid
