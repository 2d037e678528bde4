"""What a part of a message says, for a search."""

from __future__ import annotations

from upthread.agents.opencode.search import said_in


def told(part):
    return [(each.speaker, each.text) for each in said_in(part, "assistant", 1)]


def test_texts_and_what_a_tool_took_and_gave_are_said():
    assert told({"type": "text", "text": "done"}) == [("assistant", "done")]
    state = {"input": {"command": "make"}, "output": "made"}
    assert told({"type": "tool", "state": state}) == [("tool", "make\nmade")]
    for part in ({}, {"type": "step-start"}, {"type": "tool", "state": 3}):
        assert told(part) == []
