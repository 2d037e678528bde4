"""Claude Code's events, one process each: what its hooks say to the model and to the person."""

from __future__ import annotations

import json
from typing import Any

import pytest

TOKENS_MAX = 300
CHARACTERS_OF_A_TOKEN = 4


@pytest.fixture
def claude(place):
    def event(name: str, **fields: Any) -> dict[str, Any]:
        asked = {"hook_event_name": name, "session_id": "main-1", "cwd": str(place.project)}
        asked["transcript_path"] = str(place.home.parent / "main-1.jsonl")
        said = place.hook({**asked, **fields}, agent="claude-code")
        assert (said.code, said.err) == (0, "")
        return said.answer

    return event


def context(answer: dict[str, Any]) -> str:
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")


def delegation(prompt: str, **more: Any) -> dict[str, Any]:
    return {
        "tool_name": "Agent",
        "tool_use_id": "toolu_1",
        "tool_input": {"subagent_type": "planner", "prompt": prompt, "description": "x"},
        **more,
    }


@pytest.mark.parametrize("source", ["startup", "resume", "compact", "clear"])
def test_a_session_starts_with_how_the_work_stands_in_few_words_or_none(place, claude, source):
    assert claude("SessionStart", source=source) == {}, "there is nothing to say yet"
    place.call("c1", "ses_1")
    place.upthread("drain")
    told = context(claude("SessionStart", source=source))
    assert told.startswith("Workstream spec-42 (")
    assert "- planner: idle, 1 turn" in told
    assert len(told) / CHARACTERS_OF_A_TOKEN <= TOKENS_MAX


def test_a_session_without_a_workstream_is_told_the_last_one_and_when(place, claude):
    place.call("c1", "ses_1")
    place.upthread("drain")
    place.upthread("use", "--clear")
    told = claude("SessionStart", source="startup")
    assert told == {"systemMessage": "upthread: no workstream; last: spec-42, today"}
    (path,) = place.home.glob("hooks/places/*.json")
    known = json.loads(path.read_text())
    known["workstreams"][0]["last_at_ms"] -= 24 * 60 * 60 * 1000
    path.write_text(json.dumps(known))
    assert claude("SessionStart")["systemMessage"].endswith("spec-42, yesterday")


def test_the_same_main_session_is_told_whom_to_write_to_and_another_one_is_not(place, claude):
    assert "STARTED" in claude("PreToolUse", **delegation("Plan it."))["systemMessage"]
    done = {"agentId": "a1", "content": [{"type": "text", "text": "Planned."}]}
    assert claude("PostToolUse", **delegation("Plan it.", tool_response=done)) == {}
    place.wait_for_words()
    told = context(claude("UserPromptSubmit", prompt="Go on."))
    assert "- spec-42/planner: SendMessage with to: 'a1'" in told
    assert context(claude("UserPromptSubmit", prompt="Go on.", session_id="main-2")) == ""
    written = {"tool_name": "SendMessage", "tool_use_id": "toolu_2"}
    written["tool_input"] = {"to": "a1", "message": "What was it?"}
    assert "RESUMED a1 · turn 2" in claude("PreToolUse", **written)["systemMessage"]
    claude("PostToolUse", **written, tool_response={"content": "It was a plan."})
    place.wait_for_words()
    assert place.upthread("drain")["calls"] == 2
    (conversation,) = place.upthread("audit", "spec-42")["conversations"]
    said = json.dumps(conversation["turns"])
    assert all(word in said for word in ("Plan it.", "Planned.", "What was it?", "It was a plan."))


def test_a_call_that_failed_and_one_that_a_person_stopped_are_known_as_such(place, claude):
    for outcome, fields in (("unknown", {}), ("cancelled", {"is_interrupt": True})):
        call = {**delegation("Plan it."), "tool_use_id": outcome}
        claude("PreToolUse", **call)
        claude("PostToolUseFailure", **call, error="It broke.", **fields)
        place.wait_for_words()
        place.upthread("drain")
        (conversation,) = place.upthread("audit", "spec-42")["conversations"]
        assert conversation["turns"][-1]["outcome"] == outcome
    assert "It broke." in json.dumps(conversation)


def test_an_event_nobody_asked_for_changes_nothing(claude):
    assert claude("Notification", message="hello") == {}
    assert claude("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}) == {}
