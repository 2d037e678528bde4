"""Frames and what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.agents._json_lines import Unreadable, read_json, write_frame
from upthread.agents.acp.wire import Message, events_of, message_in
from upthread.core.events import (
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


@given(json_values)
def test_any_json_survives_the_wire(params):
    message = {"jsonrpc": "2.0", "method": "x", "params": params}
    line = write_frame(message)
    assert b"\n" not in line
    frame = message_in(read_json(line))
    assert isinstance(frame, Message)
    assert frame.content == message


@given(st.binary())
def test_no_line_of_bytes_is_an_error(line):
    assert isinstance(message_in(read_json(line)), Message | Unreadable)


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
    "agent_message_chunk",
    "user_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "usage_update",
    "session_info_update",
    "something_new",
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


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (
            {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": "m"},
            [TextReceived(upstream_session_id="s", text="hi", message_id="m")],
        ),
        (
            {"sessionUpdate": "agent_thought_chunk", "content": TEXT},
            [ReasoningReceived(upstream_session_id="s", text="hi")],
        ),
        (
            {"sessionUpdate": "plan", "entries": [{"content": "a", "status": "completed"}]},
            [PlanChanged(upstream_session_id="s", entries=(("a", "completed"),))],
        ),
        (
            {"sessionUpdate": "usage_update", "used": 5, "size": 10, "cost": {"amount": 0.1}},
            [UsageReported(upstream_session_id="s", tokens_used=5, tokens_window=10)],
        ),
        (
            {"sessionUpdate": "session_info_update", "title": "T"},
            [TitleChanged(upstream_session_id="s", title="T")],
        ),
        ({"sessionUpdate": "session_info_update", "updatedAt": "now"}, []),
        ({"sessionUpdate": "available_commands_update", "availableCommands": []}, []),
        (
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "c",
                "title": "read",
                "kind": "read",
                "status": "pending",
                "rawInput": {"path": "a.py"},
                "locations": [{"path": "a.py", "line": 3}],
            },
            [
                ToolCallAnnounced(
                    upstream_session_id="s",
                    call_id="c",
                    title="read",
                    tool_kind="read",
                    arguments={"path": "a.py"},
                    locations=("a.py",),
                )
            ],
        ),
        (
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "status": "completed",
                "content": [
                    {"type": "diff", "path": "a", "oldText": "1", "newText": "2"},
                    {"type": "content", "content": TEXT},
                ],
            },
            [
                ToolCallUpdated(
                    upstream_session_id="s",
                    call_id="c",
                    status="completed",
                    implied_kinds=("edit",),
                    text="hi",
                )
            ],
        ),
        (
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "kind": "edit",
                "_meta": {"claudeCode": {"toolName": "Bash"}},
            },
            [
                ToolCallUpdated(
                    upstream_session_id="s",
                    call_id="c",
                    tool_kind="edit",
                    implied_kinds=("execute",),
                )
            ],
        ),
        (
            {"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawOutput": {"output": "o"}},
            [ToolCallUpdated(upstream_session_id="s", call_id="c", text="o")],
        ),
    ],
)
def test_an_update_says_what_it_says(update, expected):
    assert list(events_of(update["sessionUpdate"], update, session="s")) == expected


def test_what_is_no_text_is_kept_as_it_came():
    image = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "image", "data": "x", "mimeType": "image/png"},
    }
    (event,) = events_of("agent_message_chunk", image, session="s")
    assert event == UnknownReceived(upstream_session_id="s", kind="agent_message_chunk", raw=image)
