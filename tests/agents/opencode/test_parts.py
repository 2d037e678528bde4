"""What single parts say, in the shapes that no recorded turn has."""

from __future__ import annotations

from upthread.agents.opencode.turn import announced, history, tool_kind, updated, usage, window_of
from upthread.core.events import (
    ContextCompacted,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UserTextReplayed,
)

SESSION = "ses_1"


def tool(name="read", **state):
    return {"type": "tool", "tool": name, "callID": "c", "state": {"status": "running", **state}}


def test_a_files_tool_says_which_file():
    part = tool(input={"filePath": "/project/a.txt"}, title="a.txt")
    call = announced(part, SESSION)
    assert (call.title, call.tool_kind) == ("read /project/a.txt", "read")
    assert call.locations == ("/project/a.txt",)
    assert updated(part, SESSION).locations == ("/project/a.txt",)


def test_a_failed_call_says_why_and_a_state_of_another_shape_is_left_open():
    failed = updated(tool(status="error", error="no such file"), SESSION)
    assert (failed.status, failed.text) == ("failed", "no such file")
    odd = updated({"type": "tool", "callID": "c", "state": 7}, SESSION)
    assert (odd.status, odd.text, odd.arguments) == (None, None, None)
    assert tool_kind("weather") == "other", "a tool of a plug-in"
    assert announced(tool("weather"), SESSION).title == "weather"


def test_a_window_is_the_models():
    models = {"m": {"limit": {"context": 100}}, "free": {"limit": {"context": 0}}}
    providers = {"providers": [{"id": "p", "models": models}]}
    assert window_of(providers, {"providerID": "p", "modelID": "m"}) == 100
    assert window_of(providers, {"providerID": "p", "modelID": "free"}) is None
    assert window_of(providers, {"providerID": "q", "modelID": "m"}) is None
    assert window_of(None, {}) is None


def test_a_stored_history_reads_as_it_was_said():
    asked = [
        {"type": "text", "text": "hello", "messageID": "msg_1"},
        {"type": "text", "text": "written by OpenCode", "synthetic": True},
    ]
    answered = [
        *({"type": "step-start"}, {"type": "reasoning", "text": "hm"}),
        tool(status="completed", output="out"),
        *({"type": "text", "text": text, "messageID": "msg_2"} for text in ("", "done")),
        {"type": "painting", "colour": "blue"},
    ]
    spoken = (("user", asked), ("assistant", answered))
    messages = [{"info": {"role": role}, "parts": parts} for role, parts in spoken]
    events = history(messages, SESSION)
    assert [type(event) for event in events] == [
        *(UserTextReplayed, ReasoningReceived, ToolCallAnnounced, ToolCallUpdated),
        *(TextReceived, UnknownReceived),
    ]
    assert {event.upstream_session_id for event in events} == {SESSION}
    assert history({"no": "list"}, SESSION) == ()


def test_the_stored_summary_of_a_compaction_is_what_is_streamed_of_it():
    summary = {"type": "text", "text": "## Summary", "time": {"start": 1, "end": 2}}
    parts = [{"type": "step-start"}, summary]
    found = history([{"info": {"role": "assistant", "summary": True}, "parts": parts}], SESSION)
    assert found[0].kind == "compaction_summary"
    assert found[1:] == (ContextCompacted(upstream_session_id=SESSION),)


def test_a_call_is_named_by_its_tool_and_object_while_it_runs_and_at_its_end():
    """OpenCode gives a title only at the end, and a turn of ours is recorded from the beginning."""
    running = tool("write", status="running", input={"filePath": "x0.txt", "content": "x"})
    assert announced(tool("write", status="pending"), SESSION).title == "write"
    assert announced(running, SESSION).title == updated(running, SESSION).title == "write x0.txt"
    shell = tool("bash", status="running", input={"command": "git push"})
    assert updated(shell, SESSION).title == "git push"
    ended = tool("write", input={"filePath": "x0.txt"}, title="x0.txt")
    assert announced(ended, SESSION).title == updated(ended, SESSION).title == "write x0.txt"
    assert updated(tool("weather", title="Oslo"), SESSION).title == "Oslo"
    assert updated(tool("weather"), SESSION).title is None


def test_what_a_cache_held_and_took_is_told_beside_what_was_read():
    tokens = {"total": 120, "input": 5, "output": 15, "cache": {"read": 90, "write": 10}}
    told = usage({"tokens": tokens}, SESSION, window=None)
    assert told is not None
    assert (told.tokens_read, told.tokens_written) == (105, 15)
    assert (told.tokens_cached, told.tokens_cache_written) == (90, 10)
    silent = usage({"tokens": {"total": 12, "input": 5}}, SESSION, window=None)
    assert silent is not None
    assert (silent.tokens_cached, silent.tokens_cache_written) == (None, None)
    assert usage({"tokens": {"total": 0}}, SESSION, window=None) is None
    assert usage({}, SESSION, window=10) is None
