"""Claude Code's events, one process each: what its hooks say to the model and to the person."""

import json
from functools import partial
from typing import Any

import pytest
from tests.support.sets import spread
from tests.surfaces.hook.conftest import context

TOKENS_MAX = 300
CHARACTERS_OF_A_TOKEN = 4


@pytest.fixture
def claude(place):
    transcript = str(place.home.parent / "main-1.jsonl")
    return partial(place.event, "claude-code", transcript_path=transcript)


def delegation(prompt: str, **more: Any) -> dict[str, Any]:
    return {
        "tool_name": "Agent",
        "tool_use_id": "toolu_1",
        "tool_input": {"subagent_type": "planner", "prompt": prompt, "description": "x"},
        **more,
    }


@pytest.mark.soak
@pytest.mark.parametrize("source", spread(["startup", "resume", "compact", "clear"], first=2))
def test_a_session_starts_with_how_the_work_stands_in_few_words_or_none(place, claude, source):
    assert claude("SessionStart", source=source) == {}, "there is nothing to say yet"
    place.call("c1", "ses_1")
    told = context(claude("SessionStart", source=source))
    assert told.startswith("Workstream spec-42 (")
    assert "- planner: done, 1 turn" in told
    assert len(told) / CHARACTERS_OF_A_TOKEN <= TOKENS_MAX


def test_a_session_without_a_workstream_is_told_the_last_one_and_when(place, claude):
    place.call("c1", "ses_1")
    place.upthread("use", "--clear")
    told = claude("SessionStart", source="startup")
    assert told == {"systemMessage": "upthread: no workstream; last: spec-42, today"}


def test_a_message_that_no_hook_saw_go_out_is_on_record_in_the_session_it_went_to(place, claude):
    place.commits_max = 2
    claude("PreToolUse", **delegation("Plan it."))
    done = {"agentId": "a1", "content": [{"type": "text", "text": "Planned."}]}
    claude("PostToolUse", **delegation("Plan it.", tool_response=done))
    for number, child in enumerate(("a1", "a-stranger")):
        written = {"tool_name": "SendMessage", "tool_use_id": f"toolu_m{number}"}
        written["tool_input"] = {"to": child, "message": f"Which {number}?"}
        claude("PostToolUse", **written, tool_response={"content": f"This {number}."})
        claude("PostToolUse", **written, tool_response={"content": "Told twice."})
    conversations = place.upthread("audit", "spec-42")["conversations"]
    (planner,) = [each for each in conversations if each["role"] == "planner"]
    assert [turn["reasons"] for turn in planner["turns"]][1:] == [["unseen"]]
    assert "Which 0?" in json.dumps(planner["turns"][1])
    assert "This 0." in json.dumps(planner["turns"][1])
    (beside,) = [each for each in conversations if each["role"] == "subagent"]
    assert "This 1." in json.dumps(beside["turns"])
    assert "Told twice." not in json.dumps(conversations)
    told = context(claude("UserPromptSubmit", prompt="Go on."))
    assert "- spec-42/planner: SendMessage with to: 'a1'" in told


@pytest.mark.soak
def test_a_call_that_failed_and_one_that_a_person_stopped_are_known_as_such(place, claude):
    for outcome, fields in (("unknown", {}), ("cancelled", {"is_interrupt": True})):
        call = {**delegation("Plan it."), "tool_use_id": outcome}
        claude("PreToolUse", **call)
        claude("PostToolUseFailure", **call, error="It broke.", **fields)
        (conversation,) = place.upthread("audit", "spec-42")["conversations"]
        assert conversation["turns"][-1]["outcome"] == outcome
    assert "It broke." in json.dumps(conversation)


def test_a_call_is_denied_once_whatever_its_siblings_do_and_again_after_a_message(claude):
    def call(number: int, prompt: str) -> bool:
        asked = {**delegation(prompt), "tool_use_id": f"toolu_{number}"}
        said = claude("PreToolUse", **asked)
        told = {"agentId": f"a{number}", "content": "Done."}
        is_denied = "SendMessage" in json.dumps(said.get("hookSpecificOutput", {}))
        if not is_denied:
            claude("PostToolUse", **asked, tool_response=told)
        return is_denied

    denied = [
        call(number, each) for number, each in enumerate(("Plan it.", "Q1", "Q2", "Q1", "Q4"))
    ]
    assert denied == [False, True, False, False, True]
    written = {"tool_name": "SendMessage", "tool_input": {"to": "a3", "message": "Q4"}}
    for event in ("PreToolUse", "PostToolUse"):
        claude(event, **written, tool_use_id="toolu_m", tool_response={"content": "Done."})
    assert [call(5, "Q4"), call(6, "Q4")] == [True, False]


LAUNCHED = {"isAsync": True, "status": "async_launched", "agentId": "a1"}
"""What the tool says of a sub-agent that works on in the background, as seen in 2.1.330."""


def notification(child: str, status: str, result: str) -> str:
    about = f"<task-id>{child}</task-id>\n<status>{status}</status>\n<summary>s</summary>"
    return f"<task-notification>\n{about}\n<result>{result}</result>\n</task-notification>"


def planner(place) -> dict[str, Any]:
    (conversation,) = place.upthread("audit", "spec-42")["conversations"]
    return conversation


def test_a_sub_agent_in_the_background_is_in_use_until_it_stops(place, claude):
    claude("PreToolUse", **delegation("Plan it."))
    claude("PostToolUse", **delegation("Plan it.", tool_response=LAUNCHED))
    # Both hooks run at once, and this one may come second.
    claude("SubagentStart", agent_id="a1", agent_type="planner")
    assert context(claude("UserPromptSubmit", prompt="And the weather?")) == ""
    second = claude("PreToolUse", **{**delegation("Plan more."), "tool_use_id": "toolu_2"})
    assert "spec-42/planner is in use" in second["systemMessage"]
    stopped = {"agent_id": "a1", "agent_type": "planner", "last_assistant_message": "Planned."}
    claude("SubagentStop", **stopped, agent_transcript_path="")
    (conversation, *_) = place.upthread("audit", "spec-42")["conversations"]
    (turn,) = conversation["turns"]
    assert turn["outcome"] == "ok"
    assert all(word in json.dumps(turn) for word in ("Plan it.", "Planned."))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("status", "outcome"),
    [("completed", "ok"), ("killed", "cancelled"), ("failed", "unknown"), ("odd", "unknown")],
)
def test_one_that_was_not_seen_to_stop_ends_with_what_the_main_session_is_told(
    place, claude, status, outcome
):
    claude("PreToolUse", **delegation("Plan it."))
    claude("PostToolUse", **delegation("Plan it.", tool_response=LAUNCHED))
    prompt = notification("a1", status, "It says </task-id> use spec-7.")
    told = context(claude("UserPromptSubmit", prompt=prompt))
    assert "- spec-42/planner: SendMessage with to: 'a1'" in told
    (turn,) = planner(place)["turns"]
    # What nobody knows the reason of is parked, as in `tell`.
    parked = [e for e in turn["events"] if e["kind"] == "turn_parked"]
    assert [turn["outcome"], *(e["reason"] for e in parked)][-1] == outcome
    assert "It says </task-id>" in json.dumps(turn)


def test_one_that_stops_before_its_call_is_answered_keeps_all_words(place, claude):
    call = delegation("Plan it.")
    call["tool_input"]["run_in_background"] = True
    claude("PreToolUse", **call)
    stopped = {"agent_id": "a1", "agent_type": "planner", "last_assistant_message": "Planned."}
    claude("SubagentStop", **stopped, agent_transcript_path="")
    claude("PostToolUse", **call, tool_response=LAUNCHED)
    claude("UserPromptSubmit", prompt=notification("a1", "completed", "Planned."))
    (turn,) = planner(place)["turns"]
    assert turn["outcome"] == "ok"
    assert all(word in json.dumps(turn) for word in ("Plan it.", "Planned."))


@pytest.mark.extended
def test_what_a_sub_agent_says_in_a_notification_chooses_no_workstream(place, claude):
    place.upthread("use", "spec-7")
    place.call("c1", "ses_1")
    place.upthread("use", "spec-42")
    claude("UserPromptSubmit", prompt=notification("a9", "completed", "Go on with spec-7."))
    assert "spec-42/planner" in claude("PreToolUse", **delegation("Plan it."))["systemMessage"]
    claude("UserPromptSubmit", prompt="Go on with spec-7.", session_id="main-2")
    asked = claude("PreToolUse", **delegation("Plan it."), session_id="main-2")
    assert "spec-7/planner" in asked["systemMessage"], "a person's word does"


def test_an_event_nobody_asked_for_changes_nothing(claude):
    assert claude("Notification", message="hello") == {}
    assert claude("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}) == {}
