"""What an entry of a transcript says, for a search."""

from __future__ import annotations

from upthread.agents.claude_code.reader import said_in


def told(entry):
    return [(each.speaker, each.text) for each in said_in(entry)]


def test_prompts_answers_calls_and_results_are_said_and_nothing_else():
    assert told({"type": "user", "message": {"content": "go"}}) == [("user", "go")]
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "done"},
        {"type": "tool_use", "name": "Bash", "input": {"command": "make"}},
    ]
    answer = {"type": "assistant", "message": {"content": blocks}}
    assert told(answer) == [("assistant", "hm"), ("assistant", "done"), ("tool", "make")]
    result = {"type": "tool_result", "content": [{"type": "text", "text": "made"}]}
    (said,) = told({"type": "user", "message": {"content": [result]}})
    assert said[0] == "tool"
    assert "made" in said[1]
    for entry in ({}, {"type": "summary", "summary": "x"}, {"type": "user", "message": 3}):
        assert told(entry) == []
