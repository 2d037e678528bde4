from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from upthread.agents.rehearsal.directives import ACTIONS, REPORT_WORDS

Agent = Any
Start = Any
REPOSITORY = Path(__file__).parents[3]


def _failure(agent: Agent, directive: str) -> Any:
    with pytest.raises(Exception) as failed:
        agent.prompt(agent.new(), f"[[rehearse: {directive}]]")
    assert type(failed.value).__name__ == "AgentError", repr(failed.value)
    return failed.value


def _reply(agent: Agent, directive: str) -> str:
    assert agent.prompt(agent.new(), f"[[rehearse: {directive}]]") == "end_turn"
    return agent.reply.removeprefix("This is a rehearsal: no model is behind it.\n\n")


def test_every_directive_is_in_the_docs_and_no_other() -> None:
    docs = (REPOSITORY / "docs" / "rehearsal.md").read_text(encoding="utf-8")
    rows = [line for line in docs.splitlines() if line.startswith("| `")]
    assert {row.split("`")[1].split()[0] for row in rows} == set(ACTIONS) | REPORT_WORDS


def test_say_says_it_and_directives_are_carried_out_in_order(agent: Agent) -> None:
    assert _reply(agent, "say one]] and then [[rehearse:say two") == "onetwo"


def test_a_text_may_have_several_lines(agent: Agent, project: Path) -> None:
    _reply(agent, "write a.py def a() -> int:\n    return 1\n")
    assert (project / "a.py").read_text() == "def a() -> int:\n    return 1"


def test_think_is_no_part_of_the_reply(agent: Agent) -> None:
    assert _reply(agent, "think hard") == ""
    (thought,) = agent.of_kind("agent_thought_chunk")
    assert thought["content"]["text"] == "hard"


def test_plan_and_usage_are_told(agent: Agent) -> None:
    _reply(agent, "plan first | second]] [[rehearse: usage 120 200000")
    (plan,) = agent.of_kind("plan")
    assert [entry["content"] for entry in plan["entries"]] == ["first", "second"]
    (usage,) = agent.of_kind("usage_update")
    assert (usage["used"], usage["size"]) == (120, 200000)


def test_a_child_has_a_session_of_its_own(agent: Agent) -> None:
    session_id = agent.new()
    agent.prompt(session_id, "[[rehearse: child tester look]] [[rehearse: child tester again]]")
    agent_stream = [params["sessionId"] for params in agent.updates]
    assert sorted(set(agent_stream)) == [
        session_id, f"{session_id}:subagent:1", f"{session_id}:subagent:2",
    ]  # fmt: skip
    first = agent.of_kind("tool_call")[0]
    assert first["kind"] == "other"
    assert first["rawInput"]["role"] == "tester"
    assert first["rawInput"]["childSessionId"] == f"{session_id}:subagent:1"
    assert agent.of_kind("tool_call_update")[-1]["status"] == "completed"


def test_children_are_counted_over_the_life_of_the_session(start: Start) -> None:
    first = start()
    session_id = first.new()
    first.prompt(session_id, "[[rehearse: child tester look]]")
    first.kill()
    second = start()
    second.attach("load", session_id)
    assert {params["sessionId"] for params in second.updates} == {session_id}
    second.prompt(session_id, "[[rehearse: child tester look]]")
    assert f"{session_id}:subagent:2" in {params["sessionId"] for params in second.updates}


def test_a_child_that_hangs_leaves_its_call_open_until_the_turn_is_cancelled(agent: Agent) -> None:
    session_id = agent.new()
    agent.send_prompt(session_id, "[[rehearse: child_hang tester look]] [[rehearse: say never]]")
    agent.wait_for(lambda update: "I was asked" in str(update))
    (call,) = agent.of_kind("tool_call")
    assert call["rawInput"]["childSessionId"] == f"{session_id}:subagent:1"
    assert {each["status"] for each in agent.of_kind("tool_call_update")} == {"in_progress"}
    assert "never" not in agent.reply


def test_an_unstamped_update_has_no_session_id(agent: Agent) -> None:
    _reply(agent, "unstamped whose?")
    (params,) = agent.updates
    assert "sessionId" not in params
    assert params["update"]["content"]["text"] == "whose?"


def test_an_unknown_update_has_a_kind_the_protocol_does_not_know(agent: Agent) -> None:
    _reply(agent, "unknown]] [[rehearse: say go on")
    assert len(agent.of_kind("rehearsal_unknown")) == 1
    assert agent.reply.endswith("go on")


@pytest.mark.parametrize("reason", ["refusal", "max_tokens", "because_i_say_so"])
def test_stop_ends_the_turn_with_the_reason_given(agent: Agent, reason: str) -> None:
    text = f"[[rehearse: stop {reason}]] [[rehearse: say never]]"
    assert agent.prompt(agent.new(), text) == reason
    assert agent.reply == ""


def test_slow_sends_its_chunks_apart(agent: Agent) -> None:
    begun_s = time.monotonic()
    assert _reply(agent, "slow 3 50").count("chunk") == 3
    assert time.monotonic() - begun_s >= 0.15


def test_a_rate_limit_tells_its_kind_and_when_to_come_back(agent: Agent) -> None:
    error = _failure(agent, "rate_limit")
    assert (error.code, error.data) == (-32603, {"errorKind": "rate_limit"})
    assert _failure(agent, "rate_limit 30").data == {
        "errorKind": "rate_limit",
        "retryAfterSeconds": 30,
    }


@pytest.mark.parametrize(
    ("word", "code", "data"),
    [
        ("overloaded", -32603, {"errorKind": "overloaded"}),
        ("context_full", -32603, {"errorKind": "context_full"}),
        ("auth", -32000, None),
    ],
)
def test_a_failure_has_its_code_and_kind(agent: Agent, word: str, code: int, data: Any) -> None:
    error = _failure(agent, word)
    assert (error.code, error.data) == (code, data)


def test_a_failed_turn_leaves_the_session_usable_and_is_remembered(agent: Agent) -> None:
    session_id = agent.new()
    with pytest.raises(Exception, match="rate_limit"):
        agent.prompt(session_id, "[[rehearse: rate_limit]]")
    agent.prompt(session_id, "now?")
    assert "I remember 1 earlier prompts" in agent.reply


def test_a_lost_session_is_gone_for_good(agent: Agent) -> None:
    session_id = agent.new()
    with pytest.raises(Exception, match="-32002"):
        agent.prompt(session_id, "[[rehearse: lose_session]]")
    assert agent.request("session/list")["sessions"] == []
    with pytest.raises(Exception, match="-32002"):
        agent.attach("resume", session_id)


def test_empty_ends_without_a_word(agent: Agent) -> None:
    assert agent.prompt(agent.new(), "[[rehearse: empty]]") == "end_turn"
    assert agent.updates == []


def _after_crash(start: Start, directive: str) -> tuple[Agent, list[dict[str, Any]]]:
    first = start()
    session_id = first.new()
    first.send_prompt(session_id, f"[[rehearse: {directive}]]")
    assert first.wait_until_gone() == 3
    second = start()
    second.attach("load", session_id)
    return second, [params["update"] for params in second.updates]


def test_a_crash_leaves_the_prompt_in_the_history(start: Start) -> None:
    _, replayed = _after_crash(start, "crash")
    assert [update["sessionUpdate"] for update in replayed] == ["user_message_chunk"]


@pytest.mark.parametrize(("word", "is_written"), [("in", True), ("before", False)])
def test_a_crash_at_a_tool_leaves_its_call_open_whether_or_not_it_was_done(
    start: Start, project: Path, word: str, is_written: bool
) -> None:
    again, replayed = _after_crash(start, f"crash_{word}_tool a.txt hello")
    assert (project / "a.txt").exists() is is_written
    calls = [update for update in replayed if "toolCallId" in update]
    assert [call["status"] for call in calls] == ["pending", "in_progress"]
    session_id = again.updates[0]["sessionId"]
    assert again.prompt(session_id, "go on") == "end_turn"


def test_garbage_is_one_bad_line_and_the_turn_goes_on(agent: Agent) -> None:
    assert _reply(agent, "garbage]] [[rehearse: say fine") == "fine"
    assert agent.garbage == [b"this line is not JSON\n"]


def test_a_lone_surrogate_and_a_nul_travel_and_are_kept(agent: Agent) -> None:
    session_id = agent.new()
    agent.prompt(session_id, "[[rehearse: surrogate]]")
    said = agent.reply
    assert "\ud83d," in said
    assert "\x00" in said
    agent.updates.clear()
    agent.attach("load", session_id)
    assert agent.reply == said


def test_big_is_one_chunk_of_that_size(agent: Agent) -> None:
    assert _reply(agent, "big 3000000") == "x" * 3_000_000
    assert len(agent.of_kind("agent_message_chunk")) == 2


def test_late_comes_after_the_answer_and_is_no_part_of_the_history(agent: Agent) -> None:
    session_id = agent.new()
    agent.prompt(session_id, "[[rehearse: late too late]]")
    assert agent.updates == []
    agent.wait_for(lambda update: update["content"]["text"] == "too late")
    agent.updates.clear()
    agent.attach("load", session_id)
    assert [p["update"]["sessionUpdate"] for p in agent.updates] == ["user_message_chunk"]


def test_a_misspelt_directive_does_nothing_and_names_the_right_ones(
    agent: Agent, project: Path
) -> None:
    error = _failure(agent, "write a.txt x]] [[rehearse: sya hello")
    assert error.code == -32602
    assert "'sya'" in error.message
    assert "say" in error.message
    assert not (project / "a.txt").exists()


@pytest.mark.parametrize(
    "directive",
    ["slow 3", "big many", "usage 1", "read", "write", "stop", "execute 'a", "child", "child_hang"],
)
def test_bad_arguments_are_told_with_the_right_form(agent: Agent, directive: str) -> None:
    error = _failure(agent, directive)
    assert error.code == -32602
    assert f"[[rehearse: {directive.split(maxsplit=1)[0]} " in error.message


def test_a_quoted_directive_is_left_alone(agent: Agent) -> None:
    agent.prompt(agent.new(), "Your last prompt was:\n> please [[rehearse: crash]]\ngo on")
    assert "I remember 0 earlier prompts" in agent.reply


def test_once_is_held_back_when_the_session_had_it_before(start: Start) -> None:
    text = "[[rehearse: once crash]]"
    first = start()
    session_id = first.new()
    first.send_prompt(session_id, text)
    assert first.wait_until_gone() == 3
    second = start()
    second.attach("resume", session_id)
    assert second.prompt(session_id, text) == "end_turn"
    assert "I remember 1 earlier prompts" in second.reply


def test_if_resumed_is_held_back_in_a_sessions_first_prompt(agent: Agent) -> None:
    text = "[[rehearse: if_resumed lose_session]]"
    session_id = agent.new()
    assert agent.prompt(session_id, text) == "end_turn"
    with pytest.raises(Exception, match="-32002"):
        agent.prompt(session_id, text)
