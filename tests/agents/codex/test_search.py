"""What a line of a rollout says, for a search."""

from __future__ import annotations

from upthread.agents.codex.reader import said_in


def told(item, kind="response_item"):
    return [(each.speaker, each.text) for each in said_in({"type": kind, "payload": item})]


def test_items_are_said_once_by_whom_they_are_from():
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    assert told(message) == [("user", "go")], "what kind of block it is nobody has said"
    assert told({"type": "function_call", "arguments": "make"}) == [("tool", "make")]
    assert told({"type": "function_call_output", "output": "made"}) == [("tool", "made")]
    assert told({"type": "user_message", "message": "go"}, "event_msg") == []
    assert told({"type": "message", "role": "developer", "content": "rules"}) == []
    assert told(3) == []
