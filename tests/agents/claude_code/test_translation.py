"""Frames to events: what is said, by whom, once, and nothing that is not known is lost.

Sub-agents: whose words a frame holds, when one began and ended.
"""

import pytest
from tests.agents.claude_code.frames import (
    CALL,
    CHILD,
    ENDED,
    OF_CHILD,
    SESSION,
    STARTED,
    assistant,
    frame,
    piece,
    result,
    said,
    system,
    use,
    user,
)

from upthread.agents._json_lines import Unreadable
from upthread.agents.claude_code.translation import (
    Translator,
    child_session,
    is_missing,
    kind_of,
    locations_of,
    plan_of,
    result_of,
    role_of,
    session_of,
    title_of,
    tokens_of,
)
from upthread.core.events import (
    ChildEnded,
    ChildStarted,
    ContextCompacted,
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    TitleChanged,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UsageReported,
    UserTextReplayed,
)

OWN = {"upstream_session_id": SESSION}
HAIKU = {"contextWindow": 100_000}


def events_of(*frames: object):
    translator = Translator()
    return [event for each in frames for event in translator.translate(each)]


def test_a_streamed_answer_is_told_in_pieces_and_once():
    usage = {"input_tokens": 5, "cache_read_input_tokens": 10}
    events = events_of(
        piece({"type": "message_start", "message": {"id": "msg_1", "usage": usage}}),
        piece({"type": "content_block_start", "content_block": said("")}),
        piece({"type": "content_block_delta", "delta": {"thinking": "hm"}}),
        piece({"type": "content_block_delta", "delta": {"text": "hel"}}),
        piece({"type": "content_block_delta", "delta": {"text": "lo"}}),
        piece({"type": "content_block_delta", "delta": {"partial_json": "{"}}),
        assistant({"type": "thinking", "thinking": "hm"}),
        assistant(said("hello")),
        piece({"type": "message_delta", "usage": {"output_tokens": 7}}),
        piece({"type": "message_stop"}),
    )
    assert events == [
        ReasoningReceived(text="hm", **OWN),
        TextReceived(text="hel", message_id="msg_1", **OWN),
        TextReceived(text="lo", message_id="msg_1", **OWN),
        UsageReported(tokens_used=22, tokens_read=15, tokens_written=7, tokens_cached=10, **OWN),
    ]


@pytest.mark.parametrize(
    ("used", "window"),
    [
        ({"opus": {"contextWindow": 200_000}, "haiku": HAIKU}, 200_000),
        ({"haiku": HAIKU, "opus[1m]": {"contextWindow": 1_000_000}}, 1_000_000),
        ({"haiku": HAIKU}, None),
        ({"opus": {"contextWindow": 0}}, None),
        ("no object", None),
    ],
)
def test_the_turns_end_tells_the_window_of_the_model_that_answered(used, window):
    started = {"type": "message_start", "message": {"id": "msg_1", "model": "opus"}}
    result = {"type": "result", "session_id": SESSION, "modelUsage": used}
    told = [event.tokens_window for event in events_of(piece(started), result)]
    assert told == ([] if window is None else [window])


def test_an_answer_that_was_not_streamed_is_told_whole():
    events = events_of(
        assistant({"type": "thinking", "thinking": "hm"}),
        assistant(said("hello")),
        assistant({"type": "server_tool_use", "id": "x"}),
    )
    assert [type(event) for event in events] == [ReasoningReceived, TextReceived, UnknownReceived]
    assert events[1].text == "hello"
    assert events[2].kind == "block/server_tool_use"


def test_a_call_is_announced_with_its_arguments_and_ended_by_its_result():
    called, done, failed = events_of(
        assistant(use("Write", file_path="/w/x.txt", content="x")),
        user(result("created")),
        user(result([said("a"), {"type": "image"}, said("b")], is_error=True)),
    )
    named = {"call_id": "toolu_1", "title": "Write /w/x.txt", "tool_kind": "edit"}
    given = {"arguments": {"file_path": "/w/x.txt", "content": "x"}, "locations": ("/w/x.txt",)}
    assert called == ToolCallAnnounced(**OWN, **named, **given)
    assert (done.status, done.text) == ("completed", "created")
    assert (failed.status, failed.text) == ("failed", "a\nb")


def test_what_a_child_says_is_the_childs():
    events = events_of(
        assistant(use("Task", CALL, subagent_type="general-purpose")),
        STARTED,
        user(said("do it"), **OF_CHILD, uuid="u1"),
        assistant(use("Bash", "toolu_2", command="ls"), **OF_CHILD),
        user(result("out", "toolu_2"), **OF_CHILD),
        assistant(said("child says"), message_id="msg_2", **OF_CHILD),
        user(result("the report", CALL)),
    )
    assert [(type(event), event.upstream_session_id) for event in events] == [
        *((ToolCallAnnounced, SESSION), (ChildStarted, SESSION), (UserTextReplayed, CHILD)),
        *((ToolCallAnnounced, CHILD), (ToolCallUpdated, CHILD), (TextReceived, CHILD)),
        (ToolCallUpdated, SESSION),
    ]
    assert events[-1].child_upstream_session_id == CHILD


def test_what_a_childs_request_read_is_told_once_for_all_frames_of_its_answer():
    usage = {"input_tokens": 5, "cache_read_input_tokens": 10, "output_tokens": 1}
    answer = {"id": "msg_2", "role": "assistant", "usage": usage}
    frames = [
        {"type": "assistant", "session_id": SESSION, "message": {**answer, "content": [block]}}
        for block in (said("a"), said("b"))
    ]
    events = events_of(
        assistant(use("Task", CALL, subagent_type="general-purpose")),
        STARTED,
        *({**frame, **OF_CHILD} for frame in frames),
        frames[0],  # the session's own is told of while it is streamed
    )
    (told,) = (event for event in events if isinstance(event, UsageReported))
    counted = {"tokens_used": 15, "tokens_read": 15, "tokens_cached": 10}
    assert told == UsageReported(upstream_session_id=CHILD, **counted)


def test_an_error_of_the_provider_is_no_reply_and_is_remembered_until_the_next_prompt():
    translator = Translator()
    told = assistant(said("API Error"), error="rate_limit", is_api_error_message=True)
    assert translator.translate(told) == ()
    assert translator.error_kind == "rate_limit"
    translator.begin()
    assert translator.error_kind == ""


def test_a_frame_becomes_its_event_and_frames_about_the_interface_none():
    todos = [{"content": "a", "status": "pending"}]
    planned = events_of(assistant(use("TodoWrite", todos=todos)))[1]
    assert planned == PlanChanged(entries=(("a", "pending"),), **OWN)
    compacted = system("compact_boundary", compact_metadata={"trigger": "auto"})
    untold = UsageReported(tokens_used=None, **OWN)
    assert events_of(compacted) == [ContextCompacted(**OWN), untold]
    title = "spec-42/planner"
    titled = [system("session_title_changed", title=each) for each in (title, "")]
    assert events_of(*titled) == [TitleChanged(title=title, **OWN)]
    interface = [system(each) for each in ("init", "status", "task_progress")]
    quoted = user(said("[Request interrupted by user]"))
    assert events_of(*interface, frame("rate_limit_event"), frame("keep_alive"), quoted) == []


@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        (system("news"), "system/news"),
        (frame("news"), "news"),
        ({"type": "assistant"}, "assistant"),
        ({"no": "type"}, "frame"),
        ([1], "frame"),
        (Unreadable(raw="garbage"), "unreadable_frame"),
    ],
)
def test_what_is_not_known_is_kept_as_it_came(odd, kind):
    (event,) = events_of(odd)
    assert isinstance(event, UnknownReceived)
    assert event.kind == kind
    assert event.raw == (odd.raw if isinstance(odd, Unreadable) else odd)


def test_the_session_and_the_role_are_those_that_the_frame_names():
    assert session_of({"session_id": "x"}) == "x"
    assert session_of({"session_id": ""}) is None
    assert [role_of(each) for each in ({"subagent_type": "Explore"}, {})] == ["Explore", "subagent"]
    (event,) = events_of({**assistant(said("x")), "session_id": "another"})
    assert event.upstream_session_id == "another"


def test_a_child_is_started_by_its_task_and_ended_by_its_notification():
    translator = Translator()
    begun = ChildStarted(
        child_upstream_session_id=CHILD, role="general-purpose", call_id=CALL, **OWN
    )
    assert translator.translate(STARTED) == (begun,)
    (spoken,) = translator.translate({**assistant(said("x")), **OF_CHILD})
    assert spoken.upstream_session_id == CHILD
    ended = ChildEnded(child_upstream_session_id=CHILD, **OWN)
    assert translator.translate(ENDED) == (ended,)


def test_a_child_that_speaks_before_it_is_told_of_starts_then():
    translator = Translator()
    of_call = {**assistant(said("x")), "parent_tool_use_id": CALL}
    started, spoken = translator.translate(of_call)
    assert (started.role, started.call_id) == ("subagent", CALL)
    assert spoken.upstream_session_id == child_session(SESSION, CALL)
    assert translator.translate(of_call) == (spoken,)


def test_a_childs_child_belongs_to_the_child_and_a_task_that_is_no_sub_agent_is_none():
    translator = Translator()
    assert translator.translate(ENDED) == ()
    assert translator.translate({**STARTED, "task_type": "local_bash"}) == ()
    assert translator.translate(system("task_started", task_type="local_agent")) == ()
    translator.translate(STARTED)
    deeper = {**STARTED, "task_id": "b2", "tool_use_id": "toolu_9"}
    (started,) = translator.translate({**deeper, "parent_task_id": STARTED["task_id"]})
    assert started.upstream_session_id == CHILD


@pytest.mark.parametrize(
    ("status", "outcome"), [("stopped", "cancelled"), ("failed", "unknown"), ("", "unknown")]
)
def test_a_child_that_was_stopped_or_failed_says_so(status, outcome):
    translator = Translator()
    translator.translate(STARTED)
    (ended,) = translator.translate({**ENDED, "status": status})
    assert ended.outcome == outcome


@pytest.mark.parametrize("odd", [[], {}, 7, None])
def test_a_word_that_is_none_is_kept_and_ends_nothing(odd):
    """What stands in a set must be hashable, and JSON's lists are not."""
    for told in ({"type": odd}, {"type": "system", "subtype": odd, "session_id": "s"}):
        (kept,) = Translator().translate(told)
        assert isinstance(kept, UnknownReceived)
        assert kept.raw == told


# --- claude Code's tools in ACP's words -----------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        *(("Read", "read"), ("Write", "edit"), ("Bash", "execute"), ("Grep", "search")),
        *(("WebFetch", "fetch"), ("Task", "think"), ("mcp__x__y", "other"), ("", "other")),
    ],
)
def test_a_tool_has_the_kind_that_permissions_are_set_for(tool, kind):
    assert kind_of(tool) == kind


def test_a_command_is_its_own_title_and_a_file_stands_with_the_tool():
    assert title_of("Bash", {"command": "git  push\nnow", "description": "d"}) == "git push now"
    assert title_of("Write", {"file_path": "/a/b", "content": "x"}) == "Write /a/b"
    assert title_of("Task", {"description": "sub"}) == "Task sub"
    assert title_of("Odd", {"n": 1}) == "Odd"
    assert title_of("Odd", None) == "Odd"
    assert len(title_of("Bash", {"command": "x" * 1000})) == 200


def test_the_paths_of_a_call_are_told_as_given():
    assert locations_of({"file_path": "a.txt"}) == ("a.txt",)
    assert locations_of({"pattern": "*", "path": "src"}) == ("src",)
    assert locations_of({"file_path": 3}) == ()


def test_only_a_to_do_list_is_a_plan():
    todos = {"todos": [{"content": "a", "status": "completed"}, {"content": "b"}, 3]}
    assert plan_of("TodoWrite", todos) == (("a", "completed"), ("b", "pending"))
    assert plan_of("Bash", todos) is None


# --- how a turn of Claude Code ended. The frames are those of 2.1.330, cut to what is looked at ---


FAILED = {"is_error": True, "subtype": "success", "terminal_reason": "api_error"}


def failed(status, said):
    return {**FAILED, "api_error_status": status, "result": said}


@pytest.mark.parametrize(
    ("outcome", "kind", "frame"),
    [
        ("rate_limited", "rate_limit", failed(429, "API Error: Request rejected (429)")),
        ("auth", "authentication_failed", failed(403, "Failed to authenticate. API Error: 403")),
        ("credit_exhausted", "billing_error", failed(400, "Credit balance is too low")),
        ("transient", "server_error", failed(529, "API Error: 529 overloaded.")),
        ("unknown", "model_not_found", failed(404, "There's an issue with the selected model")),
        ("unknown", "unknown", failed(400, "API Error: 400 something invalid")),
        (
            *("context_full", "invalid_request"),
            {**failed(400, "Prompt is too long"), "terminal_reason": "prompt_too_long"},
        ),
        ("credit_exhausted", "invalid_request", failed(400, "Your credit balance is too low")),
        ("unknown", "", failed(None, "x")),
        ("cancelled", "", {"is_error": True, "terminal_reason": "aborted_streaming"}),
        ("cancelled", "", {"is_error": True, "terminal_reason": "aborted_tools"}),
        ("unknown", "", {"is_error": True, "subtype": "error_max_turns", "errors": ["too many"]}),
    ],
)
def test_a_failed_turn_is_told_in_our_words_with_the_agents_own(outcome, kind, frame):
    result = result_of(frame, error_kind=kind)
    assert result.outcome == outcome
    assert result.detail


def test_success_is_read_from_the_error_flag_and_not_from_the_word():
    assert result_of({"is_error": False, "subtype": "success"}).outcome == "ok"
    assert result_of({"subtype": "success", "stop_reason": "end_turn"}).detail == ""
    assert result_of({**FAILED, "result": "x"}).outcome == "unknown"
    cut = result_of({"is_error": False, "stop_reason": "max_tokens"})
    assert (cut.outcome, cut.detail.partition(":")[0]) == ("ok", "max_tokens")
    assert result_of(failed(429, "x"), reset_at_ms=5).reset_at_ms == 5
    assert result_of(failed(500, "x"), reset_at_ms=5).reset_at_ms is None, "no limit"


def test_all_tokens_are_counted_cached_ones_too():
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 4, "speed": "x"}
    assert tokens_of({**usage, "cache_creation_input_tokens": 8}) == 15
    told = result_of({"usage": usage})
    assert (told.tokens_used, told.tokens_in, told.tokens_out) == (7, 5, 2)
    assert tokens_of({"input_tokens": 0}) is None
    assert tokens_of(None) is None


def test_a_session_is_missing_only_by_its_own_id():
    said = "its stderr ends with: No conversation found with session ID: 1-2"
    assert is_missing(said, "1-2")
    assert not is_missing(said, "1-3")
