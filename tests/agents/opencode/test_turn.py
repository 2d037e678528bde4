"""What belongs to a prompt and how it ended, from the events of a real server (1.18.33).

When a sub-agent began and ended.
"""

import pytest
from tests.agents.opencode.conftest import NOW_MS, RECORDED, WINDOW_TOKENS, new_turn, told

from upthread.agents.opencode.server import ApiError
from upthread.agents.opencode.turn import (
    RETRIES_MAX,
    RETRY_WAIT_MAX_S,
    Family,
    announced,
    failure_of_message,
    failure_of_retry,
    history,
    tool_kind,
    updated,
    usage,
    window_of,
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
from upthread.core.names import ROLE_UNKNOWN
from upthread.core.types import Outcome


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def test_a_reply_is_its_reasoning_its_text_and_what_the_session_then_holds():
    turn = new_turn("reply")
    events = told(turn, "reply")
    kinds = [TitleChanged, ReasoningReceived, TextReceived, UsageReported]
    assert [type(event) for event in events] == kinds
    assert (events[1].text, events[2].text) == ("hm", "hello there")
    assert (events[3].tokens_used, events[3].tokens_window) == (8176, WINDOW_TOKENS)
    assert events[3].tokens_read + events[3].tokens_written == 8176
    assert {event.upstream_session_id for event in events} == {turn.session}
    assert (turn.is_over, turn.failure, turn.finish) == (True, None, "stop")


def test_a_command_is_announced_once_and_its_end_has_its_output():
    events = told(new_turn("command"), "command")
    (announced,) = of(ToolCallAnnounced, events)
    assert (announced.title, announced.tool_kind) == ("bash", "execute")
    updates = of(ToolCallUpdated, events)
    assert {update.call_id for update in updates} == {announced.call_id}
    assert [updates[0].status, updates[-1].status] == ["in_progress", "completed"]
    assert updates[0].arguments == {"command": "echo out", "description": "try"}
    assert updates[-1].text == "out\n"
    (plan,) = of(PlanChanged, told(new_turn("plan"), "plan"))
    assert plan.entries == (("a", "pending"),), "the to-do list"


def test_a_childs_words_are_its_own_and_lie_between_its_start_and_its_end():
    turn = new_turn("child")
    events = told(turn, "child")
    (started,), (ended,) = of(ChildStarted, events), of(ChildEnded, events)
    child = started.child_upstream_session_id
    assert (started.role, started.upstream_session_id) == ("general", turn.session)
    assert started.call_id == of(ToolCallAnnounced, events)[0].call_id
    assert (ended.child_upstream_session_id, ended.outcome) == (child, Outcome.OK)
    own = [i for i, event in enumerate(events) if event.upstream_session_id == child]
    assert events.index(started) < own[0]
    assert own[-1] < events.index(ended)
    assert [event.text for event in of(TextReceived, events) if event.upstream_session_id == child]
    (asked,) = of(UserTextReplayed, events)
    assert asked.upstream_session_id == child
    counted = {usage.upstream_session_id for usage in of(UsageReported, events)}
    assert counted == {turn.session, child}
    returned = [u for u in of(ToolCallUpdated, events) if u.child_upstream_session_id == child]
    assert returned[-1].status == "completed"


def test_an_error_ends_the_turn_with_what_it_means():
    turn = new_turn("refused")
    told(turn, "refused")
    assert turn.is_over
    assert turn.failure is not None
    assert turn.failure.outcome is Outcome.AUTH
    assert "invalid api key" in turn.failure.detail


def test_an_error_before_the_prompt_begins_is_its_own_only_where_it_never_begins():
    """As OpenCode 1.18.33 does with a definition it fails on: an error, and nothing after it."""
    error = {"name": "UnknownError", "data": {"message": "TypeError: readonly property"}}
    turn, begun = new_turn("reply"), new_turn("reply")
    for each in (turn, begun):
        each.take("session.error", {"sessionID": each.session, "error": error})
        assert not each.is_over, "it may be an earlier prompt's last word"
    told(begun, "reply")
    for each in (turn, begun):
        each.end_unbegun()
        assert each.is_over
    assert begun.failure is None
    assert turn.failure is not None
    assert turn.failure.outcome is Outcome.UNKNOWN
    assert "readonly property" in turn.failure.detail


def test_an_error_that_is_told_after_the_session_is_idle_ends_the_turn():
    """As OpenCode 1.18.33 does with a session that it cannot read."""
    turn, session = new_turn("reply"), {"sessionID": new_turn("reply").session}
    turn.take("message.updated", {**session, "info": {"id": "msg_9", "role": "user"}})
    for kind in ("busy", "idle"):
        turn.take("session.status", {**session, "status": {"type": kind}})
    assert not turn.is_over
    turn.take("session.error", {**session, "error": {"name": "UnknownError", "data": {}}})
    assert (turn.is_over, turn.is_answered) == (True, False)


def test_a_compaction_is_noted_and_its_summary_is_no_reply():
    turn = new_turn("compacted")
    events = told(turn, "compacted")
    kinds = [event.kind for event in of(UnknownReceived, events)]
    assert kinds == ["compaction_summary"]
    assert len(of(ContextCompacted, events)) == 1
    assert not any("## Summary" in event.text for event in of(TextReceived, events))
    assert (turn.is_over, turn.failure) == (True, None), "it went on after the error"


def test_a_long_retry_is_given_up_with_the_time_it_named():
    turn = new_turn("retried")
    told(turn, "retried")
    assert turn.given_up is not None
    assert turn.given_up.outcome is Outcome.RATE_LIMITED
    assert turn.given_up.reset_at_ms is not None
    assert turn.given_up.reset_at_ms > NOW_MS


@pytest.mark.parametrize(
    ("kinds", "is_stopping"),
    [((), False), (("message.updated",), False), (("message.updated",), True)],
)
def test_an_idle_that_nothing_came_before_ends_only_a_turn_that_was_aborted(kinds, is_stopping):
    turn = new_turn()
    for event in [e for e in RECORDED["reply"]["events"] if e["type"] in kinds][:1]:
        turn.take(event["type"], event["properties"])
    turn.is_stopping = is_stopping
    assert status(turn, "idle") == ()
    assert turn.is_over is is_stopping


def test_what_belongs_to_an_earlier_prompt_is_late():
    earlier = new_turn("reply")
    told(earlier, "reply")
    turn = new_turn("reply", stale=frozenset(earlier.messages))
    assert of(TextReceived, told(turn, "reply")) == []
    assert turn.late > 0
    assert not turn.is_over
    other = new_turn("child")
    assert told(other, "reply") == [], "another session's words are never this one's"
    assert other.late > 0


def test_text_that_no_delta_brought_is_told_when_the_part_is_whole():
    turn = new_turn("reply")
    whole = [e for e in RECORDED["reply"]["events"] if e["type"] != "message.part.delta"]
    events = [e for event in whole for e in turn.take(event["type"], event["properties"])]
    assert [event.text for event in of(TextReceived, events)] == ["hello there"]


def test_an_event_of_a_kind_nobody_knows_is_kept_as_it_came():
    turn = new_turn()
    properties = {"sessionID": turn.session, "colour": "blue"}
    (event,) = turn.take("session.painted", properties)
    assert (event.kind, event.raw) == ("session.painted", properties)
    assert turn.take("server.painted", {"colour": "blue"}) == ()


def task_part(turn, state):
    text = f'<task id="ses_child" state="{state}">\n<task_result>\nworking\n</task_result>\n</task>'
    call = {"subagent_type": "general"}
    metadata = {"sessionId": "ses_child", "background": True}
    told_of = {"status": "completed", "input": call, "output": text, "metadata": metadata}
    part = {"id": "prt_t", "type": "tool", "tool": "task", "callID": "c", "messageID": "msg_r"}
    return {"sessionID": turn.session, "part": {**part, "state": told_of}}


def message(turn, message_id, role, **more):
    info = {"id": message_id, "role": role, **more}
    return turn.take("message.updated", {"sessionID": turn.session, "info": info})


def status(turn, kind, session=None):
    properties = {"sessionID": session or turn.session, "status": {"type": kind}}
    return turn.take("session.status", properties)


def in_background():
    """A turn whose own words have ended while its sub-agent works on."""
    turn = new_turn("reply")
    message(turn, "msg_u", "user")
    message(turn, "msg_r", "assistant", time={"completed": 1}, finish="stop")
    turn.take("message.part.updated", task_part(turn, "running"))
    status(turn, "idle")
    return turn


def notice(turn, state):
    text = f'<task id="ses_child" state="{state}">\n<task_result>\nseen\n</task_result>\n</task>'
    message(turn, "msg_n", "user")
    part = {"id": "prt_n", "type": "text", "synthetic": True, "text": text, "messageID": "msg_n"}
    return turn.take("message.part.updated", {"sessionID": turn.session, "part": part})


@pytest.mark.parametrize(
    ("state", "outcome"), [("completed", Outcome.OK), ("error", Outcome.UNKNOWN)]
)
def test_a_turn_goes_on_until_a_sub_agent_in_the_background_is_told_as_ended(state, outcome):
    turn = in_background()
    assert (turn.is_over, turn.family.in_background) == (False, {"ses_child"})
    ended, kept = notice(turn, state)
    assert (ended.child_upstream_session_id, ended.outcome) == ("ses_child", outcome)
    assert kept.kind == "background_ended", "and its words are kept as OpenCode told them"
    status(turn, "idle")
    assert not turn.is_over, "it has not gone on from it yet"
    message(turn, "msg_last", "assistant", time={"completed": 2}, finish="stop")
    status(turn, "idle")
    assert turn.is_over


def test_words_of_a_user_that_look_like_the_end_of_a_sub_agent_end_none():
    turn = in_background()
    text = '<task id="ses_child" state="completed">'
    part = {"id": "prt_n", "type": "text", "text": text, "messageID": "msg_u"}
    assert turn.take("message.part.updated", {"sessionID": turn.session, "part": part}) == ()
    assert turn.family.in_background == {"ses_child"}


def test_a_sub_agent_that_stands_still_or_is_stopped_ends_the_wait():
    turn = in_background()
    status(turn, "busy", "ses_child")
    assert (turn.has_silent_child, turn.end_silent()) == (False, ())
    status(turn, "idle", "ses_child")
    assert turn.has_silent_child
    (ended,) = turn.end_silent()
    assert (ended.outcome, turn.is_over) == (Outcome.UNKNOWN, True)
    turn = in_background()
    turn.is_stopping = True
    (ended,) = turn.end_background()
    assert (ended.outcome, turn.is_over) == (Outcome.CANCELLED, True)


def task(child="ses_child", status="running", output=""):
    state = {"status": status, "input": {"subagent_type": "reviewer"}, "output": output}
    metadata = {"sessionId": child} if child else {}
    return {"type": "tool", "tool": "task", "callID": "c", "state": {**state, "metadata": metadata}}


OF_MAIN = {"upstream_session_id": "ses_main", "child_upstream_session_id": "ses_child"}


def test_a_child_starts_with_the_call_that_names_it_and_only_once():
    family = Family("ses_main")
    family.born({"id": "ses_child", "parentID": "ses_main", "agent": "general"})
    started = ChildStarted(**OF_MAIN, role="reviewer", call_id="c")
    assert family.called(task(), "ses_main") == (started,)
    assert family.called(task(), "ses_main") == ()
    assert family.speaks("ses_child") == ()


def test_a_child_that_speaks_before_its_call_names_it_starts_there():
    family = Family("ses_main")
    family.born({"id": "ses_child", "parentID": "ses_main"})
    (started,) = family.speaks("ses_child")
    assert (started.role, started.call_id) == (ROLE_UNKNOWN, None)
    assert family.called(task(), "ses_main") == ()


def test_a_grandchild_is_of_the_family_and_a_session_of_others_is_not():
    family = Family("ses_main")
    family.born({"id": "ses_child", "parentID": "ses_main"})
    family.born({"id": "ses_grandchild", "parentID": "ses_child"})
    assert family.speaks("ses_grandchild")[0].upstream_session_id == "ses_child"
    family.born({"id": "ses_other", "parentID": "ses_elsewhere"})
    family.born({"id": "ses_alone"})
    assert not family.has("ses_other")
    assert not family.has("ses_alone")
    assert family.speaks("ses_other") == ()


def test_a_child_ends_with_its_call_once():
    family = Family("ses_main")
    family.called(task(), "ses_main")
    assert family.returned(task()) == ()
    ended = ChildEnded(**OF_MAIN, outcome=Outcome.UNKNOWN)
    assert family.returned(task(status="error")) == (ended,)
    assert family.returned(task(status="completed")) == ()


def test_a_child_in_the_background_outlives_its_call_and_may_be_named_in_the_output_alone():
    family = Family("ses_main")
    assert family.called(task(), "ses_main")
    assert family.has("ses_child"), "also one of an earlier prompt"
    running = task(status="completed", output='<task id="ses_child" state="running">')
    assert family.returned(running) == ()
    for output, child in (
        ('<task id="ses_late" state="completed">', "ses_late"),
        ("task_id: ses_older (for resuming)", "ses_older"),
    ):
        done = task(child="", status="completed", output=output)
        assert family.called(done, "ses_main")[0].child_upstream_session_id == child


# --- what single parts say, in the shapes that no recorded turn has -------------------------------


SESSION = "ses_1"


def tool(name="read", **state):
    return {"type": "tool", "tool": name, "callID": "c", "state": {"status": "running", **state}}


def test_a_files_tool_says_which_file():
    part = tool(input={"filePath": "/project/a.txt"}, title="a.txt")
    call = announced(part)
    assert (call.title, call.tool_kind) == ("read /project/a.txt", "read")
    assert call.locations == ("/project/a.txt",)
    assert updated(part).locations == ("/project/a.txt",)


def test_a_failed_call_says_why_and_a_state_of_another_shape_is_left_open():
    failed = updated(tool(status="error", error="no such file"))
    assert (failed.status, failed.text) == ("failed", "no such file")
    odd = updated({"type": "tool", "callID": "c", "state": 7})
    assert (odd.status, odd.text, odd.arguments) == (None, None, None)
    assert tool_kind("weather") == "other", "a tool of a plug-in"
    assert announced(tool("weather")).title == "weather"


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
    assert announced(tool("write", status="pending")).title == "write"
    assert announced(running).title == updated(running).title == "write x0.txt"
    shell = tool("bash", status="running", input={"command": "git push"})
    assert updated(shell).title == "git push"
    ended = tool("write", input={"filePath": "x0.txt"}, title="x0.txt")
    assert announced(ended).title == updated(ended).title == "write x0.txt"
    assert updated(tool("weather", title="Oslo")).title == "Oslo"
    assert updated(tool("weather")).title is None


def test_what_a_cache_held_and_took_is_told_beside_what_was_read():
    tokens = {"total": 120, "input": 5, "output": 15, "cache": {"read": 90, "write": 10}}
    told = usage({"tokens": tokens}, window=None)
    assert told is not None
    assert (told.tokens_read, told.tokens_written) == (105, 15)
    assert (told.tokens_cached, told.tokens_cache_written) == (90, 10)
    silent = usage({"tokens": {"total": 12, "input": 5}}, window=None)
    assert silent is not None
    assert (silent.tokens_cached, silent.tokens_cache_written) == (None, None)
    assert usage({"tokens": {"total": 0}}, window=None) is None
    assert usage({}, window=10) is None


# --- what OpenCode's errors mean ------------------------------------------------------------------


ASKED_AT_MS = 1_000_000
SHORT_MS = ASKED_AT_MS + 1000
LONG_MS = ASKED_AT_MS + round(RETRY_WAIT_MAX_S * 1000) + 1


def api_error(status, message="no", **more):
    return {"name": "APIError", "data": {"message": message, "statusCode": status, **more}}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ({"name": "ProviderAuthError", "data": {"message": "no"}}, Outcome.AUTH),
        ({"name": "ContextOverflowError", "data": {"message": "no"}}, Outcome.CONTEXT_FULL),
        ({"name": "MessageAbortedError", "data": {"message": "Aborted"}}, Outcome.CANCELLED),
        ({"name": "MessageOutputLengthError", "data": {}}, Outcome.OK),
        (api_error(400, "rate limit reached"), Outcome.UNKNOWN),
        ({"name": "UnknownError", "data": {"message": "fetch failed"}}, Outcome.TRANSIENT),
        ({"name": "UnknownError", "data": {"message": "boom"}}, Outcome.UNKNOWN),
        ({"name": "UnknownError", "data": {"message": "test_rate_limit.py"}}, Outcome.UNKNOWN),
        (None, Outcome.UNKNOWN),
    ],
)
def test_a_messages_error_has_one_meaning(error, outcome):
    assert failure_of_message(error, now_ms=ASKED_AT_MS).outcome is outcome


def test_a_rate_limit_tells_when_the_provider_said_to_come_back():
    limited = api_error(429, responseHeaders={"retry-after": "30"})
    assert failure_of_message(limited, now_ms=ASKED_AT_MS).reset_at_ms == ASKED_AT_MS + 30_000
    soon = api_error(429, responseHeaders={"retry-after": "soon"})
    assert failure_of_message(soon, now_ms=ASKED_AT_MS).reset_at_ms is None


def test_a_refused_request_is_missing_only_by_the_servers_own_word():
    assert ApiError(404, "NotFoundError", "gone").outcome is Outcome.MISSING
    assert ApiError(500, "", "").outcome is Outcome.UNKNOWN


def retry(attempt, next_ms, message="slow down"):
    return {"type": "retry", "attempt": attempt, "next": next_ms, "message": message}


@pytest.mark.parametrize("status", [retry(1, LONG_MS), retry(RETRIES_MAX, SHORT_MS)])
def test_a_long_or_repeated_one_is_a_limit_with_its_end(status):
    failure = failure_of_retry(status, now_ms=ASKED_AT_MS)
    assert failure is not None
    assert (failure.outcome, failure.reset_at_ms) == (Outcome.RATE_LIMITED, status["next"])
    assert "slow down" in failure.detail


def test_a_short_retry_is_left_to_opencode_and_a_fault_that_lasts_is_no_limit():
    for waited_for in (retry(1, SHORT_MS), {"type": "retry"}):
        assert failure_of_retry(waited_for, now_ms=ASKED_AT_MS) is None
    conflict = retry(RETRIES_MAX, SHORT_MS, "the folder is with the auditors")
    failure = failure_of_retry(conflict, now_ms=ASKED_AT_MS)
    assert failure is not None
    assert (failure.outcome, failure.reset_at_ms) == (Outcome.TRANSIENT, None)
    failure = failure_of_retry(retry(RETRIES_MAX, SHORT_MS, "Overloaded"), now_ms=ASKED_AT_MS)
    assert failure is not None
    assert (failure.outcome, failure.reset_at_ms) == (Outcome.TRANSIENT, None)
