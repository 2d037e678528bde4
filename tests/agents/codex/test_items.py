"""Thread items of Codex 0.169.0 as events: calls, texts, plans, tokens, and what is not known."""

import pytest

from upthread.agents.codex import items
from upthread.agents.codex.items import end_of_limit_ms, failure_of_turn, outcome_of_refusal
from upthread.core.events import (
    ContextCompacted,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UserTextReplayed,
)
from upthread.core.types import Outcome

RUN = {
    "type": "commandExecution",
    "id": "call_1",
    "command": "/bin/bash -lc 'touch x'",
    "cwd": "/work",
    "status": "completed",
    "commandActions": [{"type": "unknown", "command": "touch x"}],
    "aggregatedOutput": "done\n",
    "exitCode": 0,
}
EDIT = {
    "type": "fileChange",
    "id": "call_2",
    "changes": [{"path": "/work/a.txt", "kind": {"type": "add"}, "diff": "hello\n"}],
    "status": "completed",
}
ASK = {
    "type": "mcpToolCall",
    "id": "call_3",
    "server": "docs",
    "tool": "search",
    "arguments": {"query": "x"},
    "status": "failed",
    "result": None,
    "error": {"message": "no such page"},
}
SPAWN = {
    "type": "collabAgentToolCall",
    "id": "call_4",
    "tool": "spawnAgent",
    "prompt": "Look.",
    "receiverThreadIds": ["child"],
    "status": "completed",
}
LOOK = {"type": "imageView", "id": "call_5", "path": "/work/a.png"}
FIND = {"type": "webSearch", "id": "call_6", "query": "kiwi"}


@pytest.mark.parametrize(
    ("item", "title", "kind", "locations"),
    [
        (RUN, "/bin/bash -lc 'touch x'", "execute", ()),
        (EDIT, "edit /work/a.txt", "edit", ("/work/a.txt",)),
        (ASK, "docs/search", "other", ()),
        (SPAWN, "spawnAgent", "think", ()),
        (LOOK, "view /work/a.png", "read", ("/work/a.png",)),
        (FIND, "search kiwi", "fetch", ()),
        ({"type": "sleep", "id": "call_7"}, "sleep", "other", ()),
    ],
)
def test_a_call_is_announced_in_acps_words(item, title, kind, locations):
    assert items.is_call(item)
    announced = items.announced(item)
    assert (announced.title, announced.tool_kind, announced.locations) == (title, kind, locations)
    assert announced.call_id == item["id"]


@pytest.mark.parametrize(
    ("actions", "kind"),
    [
        ([{"type": "read"}], "read"),
        ([{"type": "search"}, {"type": "listFiles"}], "search"),
        ([{"type": "read"}, {"type": "unknown"}], "execute"),
        ([], "execute"),
    ],
)
def test_a_command_that_only_looks_is_of_the_kind_of_its_looking(actions, kind):
    assert items.announced({**RUN, "commandActions": actions}).tool_kind == kind


def test_a_call_keeps_its_arguments_and_names_the_child_that_it_spawned():
    assert items.updated(SPAWN).child_upstream_session_id == "child"
    assert items.announced(RUN).arguments == {"command": RUN["command"], "cwd": "/work"}
    assert items.announced(EDIT).arguments == {"changes": EDIT["changes"]}
    assert items.announced({"type": "sleep", "id": "c"}).arguments is None


@pytest.mark.parametrize(
    ("item", "status", "text"),
    [
        (RUN, "completed", "done\n"),
        ({**RUN, "status": "inProgress", "aggregatedOutput": None}, "in_progress", None),
        ({**RUN, "status": "declined", "aggregatedOutput": None}, "failed", None),
        (ASK, "failed", "no such page"),
        ({**ASK, "result": {"content": [{"text": "a"}, {"text": "b"}]}}, "failed", "a\nb"),
        (LOOK, "completed", None),
    ],
)
def test_a_call_ends_with_what_it_gave(item, status, text):
    updated = items.updated(item)
    assert (updated.status, updated.text) == (status, text)


@pytest.mark.parametrize(
    ("item", "kinds"),
    [
        ({"type": "userMessage", "id": "u", "content": [{"text": "hello"}]}, [UserTextReplayed]),
        ({"type": "agentMessage", "id": "m", "text": "hi"}, [TextReceived]),
        ({"type": "agentMessage", "id": "m", "text": ""}, []),
        ({"type": "reasoning", "id": "r", "summary": ["a", "b"]}, [ReasoningReceived]),
        ({"type": "reasoning", "id": "r", "summary": [], "content": ["raw"]}, [ReasoningReceived]),
        (RUN, [ToolCallAnnounced, ToolCallUpdated]),
        ({"type": "contextCompaction", "id": "c"}, [ContextCompacted]),
        ({"type": "subAgentActivity", "kind": "completed"}, []),
        ({"type": "ofTomorrow", "id": "x"}, [UnknownReceived]),
    ],
)
def test_a_stored_item_is_what_it_was_when_it_was_told(item, kinds):
    events = items.history_of(item)
    assert [type(event) for event in events] == kinds
    if item.get("summary"):
        assert events[0].text == "a\n\nb", "the parts are apart"


def test_a_plan_is_in_acps_words():
    steps = [{"step": "one", "status": "inProgress"}, {"step": "two", "status": "pending"}]
    entries = (("one", "in_progress"), ("two", "pending"))
    assert items.plan({"plan": steps}).entries == entries


def test_tokens_are_what_the_thread_holds_now_and_what_a_cache_held_is_beside_them():
    def usage(last, window=100):
        return items.usage({"tokenUsage": {"last": last, "modelContextWindow": window}})

    for last, window in (({"totalTokens": 10}, 100), ({"totalTokens": 10}, None)):
        event = usage(last, window)
        assert event is not None
        assert (event.tokens_used, event.tokens_window) == (10, window)
    assert usage({"totalTokens": 0}) is usage(None) is None
    # A thread that was too long is said to fill its window (0.169.0): no request told of that.
    filled = {"totalTokens": 258_400, "inputTokens": 0, "outputTokens": 0}
    assert usage(filled) is None
    cached = {"totalTokens": 12, "inputTokens": 10, "cachedInputTokens": 8, "outputTokens": 2}
    told = usage(cached)
    assert told is not None
    assert (told.tokens_read, told.tokens_cached, told.tokens_cache_written) == (10, 8, None)


@pytest.mark.parametrize(
    ("status", "exit_code", "did_run"),
    [
        ("failed", 1, True),
        ("failed", -1, False),
        ("failed", 137, False),
        ("failed", None, False),
        ("declined", 1, False),
        ("completed", 0, False),
    ],
)
def test_a_command_that_failed_by_itself_did_run(status, exit_code, did_run):
    item = {**RUN, "status": status, "exitCode": exit_code}
    assert items.updated(item).did_run is did_run


@pytest.mark.parametrize("odd", [[], {}, 7, None])
def test_a_word_that_is_none_is_no_error(odd):
    """What stands in a set must be hashable, and JSON's lists are not."""
    call = {"type": items.CALL, "tool": odd, "receiverThreadIds": ["t1"]}
    assert items.children_named(call) == ()
    assert items.spoken({"type": odd, "text": "said"}) == ""


# --- what Codex's failures mean. The errors are those of 0.169.0, as told for each answer ---------


def http(kind, status):
    return {kind: {"httpStatusCode": status}}


@pytest.mark.parametrize(
    ("info", "message", "outcome"),
    [
        (http("responseTooManyFailedAttempts", 429), "exceeded retry limit", "rate_limited"),
        ("usageLimitExceeded", "You've hit your usage limit.", "rate_limited"),
        (http("responseStreamDisconnected", None), "stream disconnected", "transient"),
        ("internalServerError", "We're currently experiencing high demand", "transient"),
        ("contextWindowExceeded", "Codex ran out of room", "context_full"),
        ("other", '{"error": {"message": "nonsense"}}', "unknown"),
        ("other", "You exceeded your quota, check your billing details", "unknown"),
        (None, "Your credit balance is too low", "unknown"),
        ("other", "test said: No tool output found for function call c_1.", "unknown"),
        ("aKindOfTomorrow", "new", "unknown"),
        (None, "", "unknown"),
    ],
)
def test_a_failed_turn_is_told_by_its_kind_and_status(info, message, outcome):
    failure = failure_of_turn({"message": message, "codexErrorInfo": info})
    assert failure.outcome is Outcome(outcome)
    assert failure.detail


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("no rollout found for thread id 01a1", "missing"),
        ("thread not found: 01a1", "missing"),
        ("invalid session id: invalid character", "missing"),
        ("thread 01a1 already has an active writer", "busy"),
        ("failed to read thread: failed to read session metadata /x", "corrupted"),
        ("invalid paginated history lineage for 01a1: missing source rollout", "corrupted"),
        ("Invalid request: unknown variant", "unknown"),
    ],
)
def test_a_refused_request_is_told_by_its_words(said, outcome):
    assert outcome_of_refusal(said) is Outcome(outcome)


def test_a_limit_ends_when_the_last_of_its_full_windows_begins_anew():
    full, half = {"usedPercent": 100, "resetsAt": 10}, {"usedPercent": 50, "resetsAt": 99}
    later = {"usedPercent": 100.0, "resetsAt": 20}
    assert end_of_limit_ms({"primary": full, "secondary": half}) == 10_000
    assert end_of_limit_ms({"primary": full, "secondary": later}) == 20_000
    assert end_of_limit_ms({"primary": half, "secondary": None}) is None
    assert end_of_limit_ms(None) is None
