"""Frames and what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.agents._json_lines import Unreadable, read_json, write_frame
from upthread.agents.acp.wire import Message, events_of, message_in
from upthread.core.events import (
    ContextCompacted,
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    TitleChanged,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UsageReported,
)
from upthread.errors import QuotaExceededError

whole_numbers = st.integers(min_value=-(2**63), max_value=2**64 - 1)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | whole_numbers
    | st.text()
    | st.sampled_from("\ud800\udbff\udc00\udfff"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.soak
@given(json_values)
def test_any_json_survives_the_wire(params):
    message = {"jsonrpc": "2.0", "method": "x", "params": params}
    line = write_frame(message)
    assert b"\n" not in line
    frame = message_in(read_json(line))
    assert isinstance(frame, Message)
    assert frame.content == message


@pytest.mark.extended
@given(st.binary())
def test_no_line_of_bytes_is_an_error(line):
    assert isinstance(message_in(read_json(line)), Message | Unreadable)


@pytest.mark.soak
@given(st.dictionaries(st.sampled_from(["id", "method", "result", "error"]), json_values))
def test_what_is_handed_on_can_be_matched_to_a_request(content):
    frame = message_in(content)
    if isinstance(frame, Message) and frame.method is None:
        identity = frame.content.get("id")
        assert identity is None or type(identity) in {int, str}
        if "error" in frame.content:
            assert isinstance(frame.content["error"]["code"], int)
            assert isinstance(frame.content["error"]["message"], str)


KINDS = [
    *("agent_message_chunk", "user_message_chunk", "agent_thought_chunk", "tool_call"),
    *("tool_call_update", "plan", "usage_update", "session_info_update", "something_new"),
]


@given(st.sampled_from(KINDS), st.dictionaries(st.text(), json_values))
def test_a_malformed_update_is_kept_never_an_error(kind, content):
    update = {**content, "sessionUpdate": kind}
    for event in events_of(kind, update, session="s"):
        assert event.upstream_session_id == "s"


def test_deep_nesting_is_past_a_limit_not_a_crash():
    with pytest.raises(QuotaExceededError, match="nesting"):
        read_json(b"[" * 100_000)


TEXT = {"type": "text", "text": "hi"}


READ = {"toolCallId": "c", "title": "read", "kind": "read", "rawInput": {"path": "a.py"}}
EDITED = {"type": "diff", "path": "a", "oldText": "1", "newText": "2"}
RAN_BASH = {"claudeCode": {"toolName": "Bash"}}


@pytest.mark.parametrize(
    ("kind", "update", "event", "fields"),
    [
        (
            *("agent_message_chunk", {"content": TEXT, "messageId": "m"}),
            *(TextReceived, {"text": "hi", "message_id": "m"}),
        ),
        ("agent_thought_chunk", {"content": TEXT}, ReasoningReceived, {"text": "hi"}),
        (
            *("plan", {"entries": [{"content": "a", "status": "completed"}]}),
            *(PlanChanged, {"entries": (("a", "completed"),)}),
        ),
        (
            *("usage_update", {"used": 5, "size": 10, "cost": {"amount": 0.1}}),
            *(UsageReported, {"tokens_used": 5, "tokens_window": 10}),
        ),
        ("session_info_update", {"title": "T"}, TitleChanged, {"title": "T"}),
        ("session_info_update", {"updatedAt": "now"}, None, {}),
        ("available_commands_update", {"availableCommands": []}, None, {}),
        ("compaction_update", {"status": "in_progress"}, None, {}),
        ("compaction_update", {"status": "completed"}, ContextCompacted, {}),
        (
            *("tool_call", {**READ, "status": "pending", "locations": [{"path": "a.py"}]}),
            ToolCallAnnounced,
            {
                "call_id": "c",
                "title": "read",
                "tool_kind": "read",
                "arguments": {"path": "a.py"},
                "locations": ("a.py",),
            },
        ),
        (
            "tool_call_update",
            {
                "toolCallId": "c",
                "status": "completed",
                "content": [EDITED, {"type": "content", "content": TEXT}],
            },
            ToolCallUpdated,
            {"call_id": "c", "status": "completed", "implied_kinds": ("edit",), "text": "hi"},
        ),
        (
            *("tool_call_update", {"toolCallId": "c", "kind": "edit", "_meta": RAN_BASH}),
            ToolCallUpdated,
            {"call_id": "c", "tool_kind": "edit", "implied_kinds": ("execute",)},
        ),
        (
            *("tool_call_update", {"toolCallId": "c", "rawOutput": {"output": "o"}}),
            *(ToolCallUpdated, {"call_id": "c", "text": "o"}),
        ),
    ],
)
def test_an_update_becomes_its_event(kind, update, event, fields):
    expected = [event(upstream_session_id="s", **fields)] if event else []
    assert list(events_of(kind, {"sessionUpdate": kind, **update}, session="s")) == expected


def test_what_is_no_text_is_kept_as_it_came():
    content = {"type": "image", "data": "x", "mimeType": "image/png"}
    image = {"sessionUpdate": "agent_message_chunk", "content": content}
    (event,) = events_of("agent_message_chunk", image, session="s")
    assert event == UnknownReceived(upstream_session_id="s", kind="agent_message_chunk", raw=image)
