"""Role play: each role goes by what its own history holds, and nothing else."""

from __future__ import annotations

import json
import re

import pytest
from tests.testing.plain_client import CHAT, MESSAGES, anthropic, anthropic_text, chat, post

from upthread.testing.rehearsal_model import RehearsalModel

WRITE_OF_OPENCODE = {
    "type": "function",
    "function": {
        "name": "write",
        "parameters": {"type": "object", "properties": {"content": {}, "filePath": {}}},
    },
}
WRITE_OF_CLAUDE_CODE = {
    "name": "Write",
    "input_schema": {"type": "object", "properties": {"file_path": {}, "content": {}}},
}


@pytest.fixture(scope="module")
def model():
    with RehearsalModel() as model:
        yield model


def block(role):
    return f'<role name="{role}">\nYou are the {role}. The plan must name tests.\n</role>\n\n'


def say(model, history, text):
    """One more turn of a session; returns the report of its reply."""
    history.append({"role": "user", "content": text})
    body = {"messages": history}
    content = post(model.base_url, CHAT, body).json["choices"][0]["message"]["content"]
    history.append({"role": "assistant", "content": content})
    return report_in(content)


def report_in(text):
    found = re.search(r"^```upthread\n(.*?)^```\Z", text, re.DOTALL | re.MULTILINE)
    assert found, text
    report = json.loads(found[1])
    assert list(report) == ["status", "summary", "questions", "decisions", "findings", "verdict"]
    return report


def test_the_clarifier_asks_until_its_history_has_answers(model):
    history = []
    asked = say(model, history, block("clarifier") + "Build a page.")
    assert asked["status"] == "needs_input"
    assert [question["id"] for question in asked["questions"]] == ["q1"]
    assert say(model, history, "# Answers\n- q1: green")["status"] == "done"
    assert say(model, history, "And now?")["status"] == "done"
    assert say(model, [], block("clarifier") + "Again.")["status"] == "needs_input"


def test_the_planner_tells_what_it_has_seen_and_learns_from_a_rejection(model):
    history = []
    first = say(model, history, block("planner") + "Plan it.")
    assert "user messages seen: 1" in first["summary"]
    assert "tests" not in first["summary"]
    second = say(model, history, "# Report of auditor\n\n## Verdict: rejected\n- no tests")
    assert "user messages seen: 2" in second["summary"]
    assert "tests" in second["summary"]


def test_the_auditor_rejects_a_first_plan_without_tests_only(model):
    plan = "# Report of planner\nstatus: done\n\nPlan: 1. write\n\n# Report of clarifier\ntests"
    history = []
    assert say(model, history, block("auditor") + plan)["verdict"]["result"] == "rejected"
    assert say(model, history, plan)["verdict"]["result"] == "approved"
    good = plan.replace("1. write", "1. write; 2. run the tests")
    assert say(model, [], block("auditor") + good)["verdict"]["result"] == "approved"


def test_the_validator_approves_with_evidence_and_any_other_role_is_done(model):
    verdict = say(model, [], block("validator") + "Look.")["verdict"]
    assert verdict == {"result": "approved", "evidence": ["user messages seen: 1"]}
    assert say(model, [], block("poet") + "Write.")["status"] == "done"
    body = anthropic("Look.", system=[{"type": "text", "text": block("validator")}])
    assert report_in(anthropic_text(post(model.base_url, MESSAGES, body)))["verdict"]


def test_the_constructor_writes_where_a_tool_is_offered_then_reports(model):
    system = {"role": "system", "content": "<env>\n  Working directory: /a project\n</env>"}
    user = {"role": "user", "content": block("constructor") + "Build."}
    body = {"messages": [system, user], "tools": [WRITE_OF_OPENCODE]}
    message = post(model.base_url, CHAT, body).json["choices"][0]["message"]
    (call,) = message["tool_calls"]
    arguments = json.loads(call["function"]["arguments"])
    assert arguments["filePath"] == "/a project/built-by-rehearsal-1.md"
    assert "user messages seen: 1" in arguments["content"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "Wrote file."}
    body["messages"] += [message, result]
    report = report_in(post(model.base_url, CHAT, body).json["choices"][0]["message"]["content"])
    assert (report["status"], report["findings"]) == ("done", ["Wrote file."])


def test_the_constructor_uses_the_argument_names_it_is_offered_and_says_so_without_a_tool(model):
    body = anthropic(block("constructor") + "Build.", tools=[WRITE_OF_CLAUDE_CODE])
    text, call = post(model.base_url, MESSAGES, body).json["content"]
    assert text["type"] == "text"
    assert set(call["input"]) == {"file_path", "content"}
    assert "Nothing to write with" in say(model, [], block("constructor") + "Go.")["summary"]


def test_a_script_comes_before_the_role(model):
    body = chat(block("planner") + "Plan it. [[SAY scripted]]")
    message = post(model.base_url, CHAT, body).json["choices"][0]["message"]
    assert message["content"] == "scripted"
