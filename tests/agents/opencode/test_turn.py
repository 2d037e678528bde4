"""What belongs to a prompt and how it ended, from the events of a real server (1.18.33)."""

from __future__ import annotations

import pytest
from tests.agents.opencode.conftest import NOW_MS, RECORDED, WINDOW_TOKENS, new_turn, told

from upthread.core.events import (
    ChildEnded,
    ChildStarted,
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
from upthread.core.types import Outcome


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def test_a_reply_is_its_reasoning_its_text_and_what_the_session_then_holds():
    turn = new_turn("reply")
    events = told(turn, "reply")
    assert [type(event) for event in events] == [
        TitleChanged,
        ReasoningReceived,
        TextReceived,
        UsageReported,
    ]
    assert (events[1].text, events[2].text) == ("hm", "hello there")
    assert (events[3].tokens_used, events[3].tokens_window) == (8176, WINDOW_TOKENS)
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
    returned = [u for u in of(ToolCallUpdated, events) if u.child_upstream_session_id == child]
    assert returned[-1].status == "completed"


def test_the_to_do_list_is_the_plan():
    (plan,) = of(PlanChanged, told(new_turn("plan"), "plan"))
    assert plan.entries == (("a", "pending"),)


def test_an_error_ends_the_turn_with_what_it_means():
    turn = new_turn("refused")
    told(turn, "refused")
    assert turn.is_over
    assert turn.failure is not None
    assert turn.failure.outcome is Outcome.AUTH
    assert "invalid api key" in turn.failure.detail


def test_a_compaction_is_noted_and_its_summary_is_no_reply():
    turn = new_turn("compacted")
    events = told(turn, "compacted")
    kinds = [event.kind for event in of(UnknownReceived, events)]
    assert kinds == ["compaction_summary", "session.compacted"]
    assert not any("## Summary" in event.text for event in of(TextReceived, events))
    assert (turn.is_over, turn.failure) == (True, None), "it went on after the error"


def test_a_long_retry_is_given_up_with_the_time_it_named():
    turn = new_turn("retried")
    told(turn, "retried")
    assert turn.given_up is not None
    assert turn.given_up.outcome is Outcome.RATE_LIMITED
    assert turn.given_up.reset_at_ms is not None
    assert turn.given_up.reset_at_ms > NOW_MS


def test_an_idle_after_an_abort_ends_a_turn_that_has_said_nothing():
    turn = new_turn("reply")
    (prompted, *_) = [e for e in RECORDED["reply"]["events"] if e["type"] == "message.updated"]
    turn.take(prompted["type"], prompted["properties"])
    turn.is_stopping = True
    turn.take("session.status", {"sessionID": turn.session, "status": {"type": "idle"}})
    assert turn.is_over


@pytest.mark.parametrize("events", [(), ("message.updated",)])
def test_an_idle_that_nothing_came_before_ends_nothing(events):
    turn = new_turn()
    for event in [e for e in RECORDED["reply"]["events"] if e["type"] in events][:1]:
        turn.take(event["type"], event["properties"])
    idle = {"sessionID": turn.session, "status": {"type": "idle"}}
    assert turn.take("session.status", idle) == ()
    assert not turn.is_over


def test_what_belongs_to_an_earlier_prompt_is_late():
    earlier = new_turn("reply")
    told(earlier, "reply")
    turn = new_turn("reply", stale=frozenset(earlier.messages))
    assert of(TextReceived, told(turn, "reply")) == []
    assert turn.late > 0
    assert not turn.is_over


def test_another_sessions_words_are_late_and_never_this_ones():
    turn = new_turn("child")
    assert told(turn, "reply") == []
    assert turn.late > 0


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
