"""The methods of ACP as the rehearsal agent answers them."""

import pytest
from tests.agents.rehearsal.conftest import REPOSITORY, rehearse

from upthread.agents.rehearsal.methods import ACTIONS, REPORT_WORDS

UNKNOWN = "ses_000000000000000000000000"
ATTACHING = ("load", "resume", "fork", "prompt")


def test_the_handshake_names_version_and_capabilities(agent):
    answer = agent.request("initialize", protocolVersion=1, clientCapabilities={})
    assert (answer["protocolVersion"], answer["agentInfo"]["name"]) == (1, "rehearsal")
    assert answer["agentCapabilities"]["loadSession"] is True
    names = {"resume", "list", "fork"}
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


# --- what each directive of a prompt does. The port's conformance suite runs others of them -------


def test_every_directive_is_in_the_docs_and_no_other():
    docs = (REPOSITORY / "docs" / "rehearsal.md").read_text(encoding="utf-8")
    rows = [line for line in docs.splitlines() if line.startswith("| `")]
    assert {row.split("`")[1].split()[0] for row in rows} == set(ACTIONS) | REPORT_WORDS


def test_directives_are_carried_out_in_order_and_a_text_may_have_several_lines(agent, project):
    lines = "write a.py def a() -> int:\n    return 1\n"
    assert agent.do("say one", lines, "think hard", "say two") == "onetwo"
    assert (project / "a.py").read_text() == "def a() -> int:\n    return 1"
    (thought,) = agent.of_kind("agent_thought_chunk")
    assert thought["content"]["text"] == "hard"


def test_plan_and_usage_are_reported(agent):
    agent.do("plan first | second", "usage 120 200000")
    (plan,) = agent.of_kind("plan")
    assert [entry["content"] for entry in plan["entries"]] == ["first", "second"]
    (usage,) = agent.of_kind("usage_update")
    assert (usage["used"], usage["size"]) == (120, 200000)


def test_a_child_that_hangs_leaves_its_call_open_until_the_turn_is_cancelled(agent):
    session_id = agent.new()
    agent.send_prompt(session_id, rehearse("child_hang tester look", "say never"))
    agent.wait_for(lambda update: "I was asked" in str(update))
    assert {update["status"] for update in agent.of_kind("tool_call_update")} == {"in_progress"}
    assert "never" not in agent.reply


def test_slow_sends_each_chunk_by_itself_and_waits_between_them(agent):
    session_id = agent.new()
    running = agent.send_prompt(session_id, rehearse("slow 3 600000"))
    agent.wait_for(lambda update: "chunk 1 of 3" in str(update))
    agent.cancel(session_id)
    assert agent.answer(running)["stopReason"] == "cancelled"
    assert "chunk 2" not in agent.reply
    assert agent.do("slow 3 1").count("chunk") == 3


def test_a_failed_turn_leaves_the_session_usable_and_is_remembered(agent):
    session_id = agent.new()
    error = agent.refused_prompt(session_id, rehearse("rate_limit"))
    assert (error["code"], error["data"]) == (-32603, {"errorKind": "rate_limit"})
    agent.prompt(session_id, "now?")
    assert "I remember 1 earlier prompts" in agent.reply


def test_a_lost_session_is_gone_for_good(agent):
    session_id = agent.new()
    assert agent.refused_prompt(session_id, rehearse("lose_session"))["code"] == -32002
    assert agent.request("session/list")["sessions"] == []
    assert agent.refused("session/resume", sessionId=session_id, cwd="/")["code"] == -32002


def _after_crash(start, *directives: str):
    """Return an agent that loaded a session in which another crashed, and the session."""
    first = start()
    session_id = first.new()
    first.send_prompt(session_id, rehearse(*directives))
    assert first.wait_until_gone() == 3
    second = start()
    second.attach("load", session_id)
    return second, session_id


@pytest.mark.parametrize(("word", "is_written"), [("in", True), ("before", False)])
def test_a_crash_at_a_tool_leaves_its_call_open_whether_or_not_it_was_done(
    start, project, word, is_written
):
    again, session_id = _after_crash(start, f"crash_{word}_tool a.txt hello")
    assert (project / "a.txt").exists() is is_written
    (prompt, *calls) = [params["update"] for params in again.updates]
    assert prompt["sessionUpdate"] == "user_message_chunk"
    assert [call["status"] for call in calls] == ["pending", "in_progress"]
    assert again.prompt(session_id, "go on") == "end_turn"


def test_a_misspelt_directive_does_nothing_and_names_the_right_ones(agent, project):
    error = agent.refused_prompt(agent.new(), rehearse("write a.txt x", "sya hello"))
    assert error["code"] == -32602
    assert "'sya'" in error["message"]
    assert "say" in error["message"]
    assert not (project / "a.txt").exists()


def test_bad_arguments_are_refused_with_the_right_form(agent):
    for directive in (
        *("slow 3", "big many", "usage 1", "read", "write", "stop", "execute 'a", "child"),
        "child_hang",
    ):
        error = agent.refused_prompt(agent.new(), rehearse(directive))
        assert error["code"] == -32602
        assert f"[[rehearse: {directive.split(maxsplit=1)[0]} " in error["message"]


def test_a_quoted_directive_is_left_alone(agent):
    agent.prompt(agent.new(), f"Your last prompt was:\n> please {rehearse('crash')}\ngo on")
    assert "I remember 0 earlier prompts" in agent.reply


def test_if_resumed_is_held_back_in_a_sessions_first_prompt(agent):
    text = rehearse("if_resumed lose_session")
    session_id = agent.new()
    assert agent.prompt(session_id, text) == "end_turn"
    assert agent.refused_prompt(session_id, text)["code"] == -32002
