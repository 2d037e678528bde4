"""Frames and what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.agents._json_lines import Unreadable, read_json, write_frame
from upthread.agents._prompt import TurnSeen
from upthread.agents.acp.wire import (
    NO_QUIRK,
    QUIRKS,
    Message,
    events_of,
    message_in,
    outcome_of_suspicion,
    quirk_for,
    refusal_in,
    result_of,
)
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
from upthread.core.types import Outcome
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


def test_an_answer_that_is_no_utf8_is_an_answer_all_the_same_and_nothing_else_is():
    assert (
        read_json(b'{"id":1,"error":{"message":"T\xfcr zu"}}')["error"]["message"] == "T\ufffdr zu"
    )
    for line in (b'{"method":"x","id":1,"params":"\xfc"}', b'{"id":"\xfc'):
        assert read_json(line) == Unreadable(raw=line.decode("utf-8", "surrogateescape"))


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


# --- what an agent's answers mean. The words are those the agents were seen to use ----------------


def seen_as(outcome, code, message, data=None, agent=""):
    failure = refusal_in(code, message, data, quirk=quirk_for(agent))
    assert failure.outcome == outcome
    assert failure.detail
    return failure


@pytest.mark.parametrize(
    ("outcome", "is_certain", "agent", "code", "message", "data"),
    [
        ("missing", True, "", -32002, "Resource not found", {"sessionId": "x"}),
        ("auth", True, "", -32000, "Authentication required", None),
        ("auth", True, "", -32000, "Your session has expired, please log in", None),
        ("auth", True, "", -32000, "no", {"authMethods": [{"id": "session"}]}),
        ("unknown", False, "", -32000, "Invalid session identifier", {"authMethods": ["token"]}),
        ("missing", False, "", -32000, "Thread not found", None),
        (
            *("missing", False, "codex", -32603, "Internal error"),
            {"details": "no rollout found for thread id 0-1 (code -32600)"},
        ),
        ("busy", True, "codex", -32603, "thread already has an active writer", None),
        (
            *("unknown", False, "opencode", -32603),
            *("Internal error: OpenCode service failure", {"service": "session"}),
        ),
        (
            *("context_full", True, "opencode", -32603, "Internal error: too big"),
            {"service": "session", "errorName": "ContextOverflowError"},
        ),
        (
            *("missing", False, "opencode", -32602, "Invalid params: session not found: ses_1"),
            {"sessionId": "ses_1"},
        ),
        ("missing", True, "gemini", -32603, "No previous sessions found for this project.", None),
        ("rate_limited", True, "claude-code", -32603, "no", {"errorKind": "rate_limit"}),
        ("rate_limited", True, "", 429, "RESOURCE_EXHAUSTED", None),
        ("rate_limited", True, "", -32603, "no", {"statusCode": 429}),
        ("rate_limited", False, "", -32603, "429 Too Many Requests", None),
        ("rate_limited", False, "", -32603, "hook test_rate_limit.py failed", None),
        ("expired", False, "", -32603, "MCP server jira: your login session has expired", None),
        ("corrupted", False, "", -32603, "fixture 'db_session' data malformed", None),
        (
            *("corrupted", True, "claude-code", -32603, "tool_result: none match tool_use"),
            {"errorKind": "invalid_request"},
        ),
        ("unknown", False, "", -32603, "tool_use without tool_result", None),
        ("credit_exhausted", False, "", -32603, "Your credit balance is too low", None),
        (
            *("credit_exhausted", True, "", -32603, "Your credit balance is too low"),
            {"errorKind": "invalid_request"},
        ),
        ("transient", False, "", -32603, "Overloaded", None),
        ("unknown", False, "", -32603, "Internal error", None),
        ("unknown", False, "", -32601, "Method not found", {"method": "session/resume"}),
    ],
)
def test_an_error_means(outcome, is_certain, agent, code, message, data):
    assert seen_as(outcome, code, message, data, agent).is_certain is is_certain


@pytest.mark.parametrize("suspected", list(Outcome))
def test_words_alone_end_no_session_that_is_there_and_make_nobody_wait(suspected):
    is_about_it = suspected in {Outcome.MISSING, Outcome.EXPIRED}
    for is_listed in (True, False, None):
        left = outcome_of_suspicion(suspected, is_listed=is_listed)
        is_gone = is_about_it and is_listed is False
        assert left is (suspected if is_gone or suspected == "transient" else Outcome.UNKNOWN)
    if is_about_it:  # without a list, words that name the session are about it
        assert outcome_of_suspicion(suspected, is_listed=None, is_named=True) is suspected
        assert outcome_of_suspicion(suspected, is_listed=True, is_named=True) is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("message", "data", "after_s"),
    [
        ("rate limit", {"retryAfterSeconds": 30}, 30),
        ("rate limit", {"retryAfterMs": 1500}, 1.5),
        ("rate limit, try again in 1.5s", None, 1.5),
        ("rate limit: retry after 3 minutes", None, 180),
        ("rate limit, try again in 2h", None, 7200),
        ("rate limit, retry after 40", None, 40),
        ("rate limit", {"retryAfterSeconds": True}, None),
        ("rate limit", {"retryAfterSeconds": 10**12}, None),
        ("rate limit", None, None),
    ],
)
def test_a_reset_time_is_the_agents_or_none(message, data, after_s):
    assert seen_as("rate_limited", -32603, message, data).reset_after_s == after_s


def result(answer, **seen):
    return result_of(answer, TurnSeen(**seen), quirk=quirk_for("codex"))


def test_codex_hides_a_limit_behind_end_turn():
    meta = {"jetbrains": {"air": {"sessionFailure": {"category": "limit"}}}}
    hidden = result({"stopReason": "end_turn", "_meta": meta}, last_text="You hit your limit")
    assert (hidden.outcome, "You hit your limit" in hidden.detail) == ("rate_limited", True)
    other = {"jetbrains": {"air": {"sessionFailure": {"category": "weather", "title": "hail"}}}}
    failed = result({"stopReason": "end_turn", "_meta": other})
    assert (failed.outcome, failed.detail) == ("unknown", "sessionFailure weather: hail")


def test_codex_system_error_is_never_ok():
    said = {"stopReason": "end_turn", "_meta": {"codex": {"threadStatus": "systemError"}}}
    limited = result(said, last_text="exceeded retry limit, last status: 429 Too Many Requests")
    assert limited.outcome == "rate_limited"
    sounding = result(said, last_text="test_rate_limit.py failed")
    assert sounding.outcome == "unknown"
    assert sounding.detail == "the agent said: systemError: test_rate_limit.py failed"
    assert result(said, last_text="something else").outcome == "unknown"
    assert result({"stopReason": "end_turn"}, has_system_error=True).outcome == "unknown"


def test_a_long_answer_is_not_a_full_window_and_zero_tokens_are_no_figure():
    cut = {"stopReason": "max_tokens"}
    assert result(cut, tokens_used=10_000, tokens_window=200_000).outcome == "ok"
    assert result(cut, tokens_used=190_000, tokens_window=200_000).outcome == "context_full"
    assert result(cut).outcome == "context_full"
    assert result(cut, last_text="The plan is").outcome == "ok"
    answer = {"stopReason": "cancelled", "usage": {"totalTokens": 0}}
    assert result(answer, tokens_used=77).tokens_used == 77


def test_an_agent_is_recognised_by_name_or_command():
    assert quirk_for("acp:x", "npx", "codex-acp").name == "codex"
    assert quirk_for("OpenCode").name == "opencode"
    assert quirk_for("claude-agent-acp").name == "claude-code"
    assert quirk_for("my-agent") is NO_QUIRK
    assert len({quirk.name for quirk in QUIRKS}) == len(QUIRKS)
