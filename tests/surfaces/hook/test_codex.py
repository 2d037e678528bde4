"""Codex's events, one process each: what its hooks say to the model and to the person."""

import json
from functools import partial
from typing import Any

import pytest
from tests.support.decisions_told import decisions_told
from tests.surfaces.hook.conftest import context

from upthread.core.decision.words import FIRST, RESUME, START_FRESH, done_in_words

CHILD = "01a1ffcd-b1df-7510-ac01-aa4c3f66f4d9"


@pytest.fixture
def codex(place):
    return partial(place.event, "codex")


def spawning(message: str, **more: Any) -> dict[str, Any]:
    return {
        "tool_name": "spawn_agent",
        "tool_use_id": "call_1",
        "tool_input": {"message": message, "agent_type": "planner", "fork_context": False},
        **more,
    }


def writing(message: str, **more: Any) -> dict[str, Any]:
    return {
        "tool_name": "multi_agent_v1send_input",
        "tool_use_id": "call_2",
        "tool_input": {"target": CHILD, "message": message},
        **more,
    }


@pytest.fixture
def worked(codex):
    """Lets a sub-agent stop with its last words."""

    def work(last: str, **more: Any) -> None:
        stopped = {"agent_id": CHILD, "agent_type": "planner", "last_assistant_message": last}
        codex("SubagentStop", **stopped, agent_transcript_path="", **more)

    return work


def test_any_main_session_is_told_whom_to_open_and_write_to(place, codex, worked):
    assert decisions_told(codex("PreToolUse", **spawning("Plan it."))["systemMessage"]) == [FIRST]
    answered = json.dumps({"agent_id": CHILD, "nickname": "Noether"})
    assert codex("PostToolUse", **spawning("Plan it.", tool_response=answered)) == {}
    assert context(codex("UserPromptSubmit", prompt="Go on.")) == "", "it is at work"
    worked(last="Planned.")
    for session in ("main-1", "main-2"):
        told = context(codex("SessionStart", session_id=session, source="startup"))
        assert f"- spec-42/planner: resume_agent with id '{CHILD}', then send_input to it" in told
    line = codex("PreToolUse", **writing("What was it?"), session_id="main-2")["systemMessage"]
    assert f"{done_in_words(RESUME, CHILD)} · 2nd turn" in line
    assert "another role" not in line, "a message names no role: it keeps the one it finds"
    worked(last="It was a plan.", session_id="main-1")
    (conversation,) = place.upthread("audit", "spec-42")["conversations"]
    kept = json.dumps(conversation["turns"])
    assert all(word in kept for word in ("Plan it.", "Planned.", "What was it?", "It was a plan."))


def test_one_that_spawns_anew_is_refused_once_and_then_gets_the_briefing(place, codex, worked):
    codex("PreToolUse", **spawning("Plan it."))
    codex("PostToolUse", **spawning("Plan it.", tool_response=json.dumps({"agent_id": CHILD})))
    worked(last="Planned.")
    refused = codex("PreToolUse", **spawning("And now?", tool_use_id="call_3"))
    said_to_model = refused["hookSpecificOutput"]
    assert said_to_model["permissionDecision"] == "deny"
    told = f"resume_agent with id '{CHILD}', then send_input to it"
    assert told in said_to_model["permissionDecisionReason"]
    answer = codex("PreToolUse", **spawning("And now?", tool_use_id="call_4"))
    assert decisions_told(answer["systemMessage"]) == [START_FRESH]
    updated = answer["hookSpecificOutput"]["updatedInput"]
    assert {name: updated[name] for name in ("agent_type", "fork_context")} == {
        "agent_type": "planner",
        "fork_context": False,
    }
    assert updated["message"].endswith("\n\nAnd now?")
    assert "# Briefing" in updated["message"]
    assert "Planned." in updated["message"]


def test_one_that_stops_before_its_call_has_told_its_id_is_known(place, codex, worked):
    codex("PreToolUse", **spawning("Plan it."))
    worked(last="Planned.")
    codex("PostToolUse", **spawning("Plan it.", tool_response=json.dumps({"agent_id": CHILD})))
    (conversation,) = place.upthread("audit", "spec-42")["conversations"]
    assert [turn["outcome"] for turn in conversation["turns"]] == ["ok"]


def test_a_call_that_codex_refuses_is_over(place, codex):
    codex("PreToolUse", **spawning("Plan it."))
    codex("PostToolUse", **spawning("Plan it.", tool_response="agent thread limit reached"))
    (conversation,) = place.upthread("audit", "spec-42")["conversations"]
    assert conversation["turns"][0]["outcome"] == "unknown"
    assert "thread limit reached" in json.dumps(conversation)
    again = codex("PreToolUse", **spawning("Again.", tool_use_id="call_9"))
    assert "in use" not in again["systemMessage"]


def test_what_is_none_of_our_business_changes_nothing(codex):
    assert codex("Stop") == {}
    assert codex("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}) == {}
    assert codex("PreToolUse", **{**spawning("x"), "tool_name": "mcp__other__spawn_agent"}) == {}
    assert codex("UserPromptSubmit", prompt="Plan it.", agent_id=CHILD) == {}
    assert codex("SubagentStop", agent_id="nobody", agent_type="review") == {}
