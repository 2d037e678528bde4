"""One prompt as the server tells of it: its words, its children, its end.

Sub-agents of Codex: named by a call, started once, ended as their turn ended.
"""

import pytest

from upthread.agents.codex.server import FIRST_NAME, Turn, children_named
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
from upthread.core.types import Outcome

OWN, CHILD = "own", "child"
TITLE = "spec-1/planner"


class Told:
    """Feeds a turn with messages in the form the server gives them, and keeps the events."""

    def __init__(self, *, roles=None) -> None:
        self.turn = Turn(OWN, title=TITLE)
        self.events = []
        self.roles = roles or {}
        self("turn/started", turn={"id": "t-own"})

    def __call__(self, method, *, thread=OWN, **members) -> list[type]:
        told = {"threadId": thread, "turnId": f"t-{thread}", **members}
        named = {child: self.roles.get(child, "") for child in self.turn.newcomers(method, told)}
        events = self.turn.take(method, told, roles=named)
        self.events += events
        return [type(event) for event in events]

    def item(self, method, thread=OWN, **item):
        return self(f"item/{method}", thread=thread, item=item)

    def end(self, thread=OWN, status="completed", error=None):
        turn = {"id": f"t-{thread}", "status": status, "error": error}
        return self("turn/completed", thread=thread, turn=turn)

    def spawn(self, child=CHILD, thread=OWN):
        call = {"type": "collabAgentToolCall", "id": "c", "tool": "spawnAgent"}
        begun = self.item("started", thread, **call, receiverThreadIds=[])
        return begun + self.item(
            "completed", thread, **call, receiverThreadIds=[child], status="completed"
        )


@pytest.fixture
def told():
    return Told()


def test_a_text_in_pieces_is_told_once_and_its_rest_where_pieces_are_missing(told):
    told("item/agentMessage/delta", itemId="m", delta="hel")
    told.item("completed", type="agentMessage", id="m", text="hello")
    told.item("completed", type="agentMessage", id="n", text="whole")
    assert [event.text for event in told.events] == ["hel", "lo", "whole"]
    assert {event.message_id for event in told.events} == {"m", "n"}


def test_the_parts_of_a_summary_are_apart_in_pieces_too(told):
    for index, piece in enumerate(("a", "b")):
        told("item/reasoning/summaryPartAdded", itemId="r", summaryIndex=index)
        told("item/reasoning/summaryTextDelta", itemId="r", summaryIndex=index, delta=piece)
    told.item("completed", type="reasoning", id="r", summary=["a", "b"])
    assert {type(event) for event in told.events} == {ReasoningReceived}
    assert "".join(event.text for event in told.events) == "a\n\nb"


def test_our_own_prompt_is_no_event_and_a_childs_is(told):
    prompt = {"type": "userMessage", "id": "u", "content": [{"text": "go"}]}
    assert told.item("completed", **prompt) == []
    told.spawn()
    assert told.item("completed", CHILD, **prompt) == [UserTextReplayed]


def test_a_call_is_announced_once_and_then_ended(told):
    run = {"type": "commandExecution", "id": "c", "command": "ls"}
    assert told.item("started", type="agentMessage", id="m", text="") == [], "it says nothing"
    assert told.item("started", **run, status="inProgress") == [ToolCallAnnounced]
    assert told.item("completed", **run, status="completed") == [ToolCallUpdated]
    other = {**run, "id": "d", "status": "completed"}
    assert told.item("completed", **other) == [ToolCallAnnounced, ToolCallUpdated]
    assert (OWN, "c") in told.turn.calls


# --- children ----------------------------------------------------------------------------------


def test_a_child_is_known_before_its_call_has_its_result_and_with_its_role():
    told = Told(roles={CHILD: "explorer"})
    assert told.spawn() == [ToolCallAnnounced, ChildStarted, ToolCallUpdated]
    started = next(event for event in told.events if isinstance(event, ChildStarted))
    assert (started.role, started.call_id, started.upstream_session_id) == ("explorer", "c", OWN)


def test_a_child_that_speaks_before_its_call_has_ended_is_started_with_that_call(told):
    call = {"type": "collabAgentToolCall", "id": "c", "tool": "spawnAgent"}
    told.item("started", **call, receiverThreadIds=[])
    assert told("turn/started", thread=CHILD, turn={"id": "t-child"}) == [ChildStarted]
    assert told.events[-1].call_id == "c"
    ended = told.item("completed", **call, receiverThreadIds=[CHILD], status="completed")
    assert ended == [ToolCallUpdated]


def test_a_child_nobody_named_is_below_the_prompts_own_thread(told):
    piece = {"type": "agentMessage", "id": "m", "text": "hello"}
    assert told.item("completed", "stranger", **piece) == [ChildStarted, TextReceived]
    assert told.events[0].call_id is None
    assert told.events[1].upstream_session_id == "stranger"


def test_a_grandchild_is_waited_for_and_is_its_parents(told):
    told.spawn()
    told.spawn("grandchild", thread=CHILD)
    told.end()
    told.end(CHILD)
    assert not told.turn.is_over
    told.end("grandchild")
    assert told.turn.is_over
    parents = [e.upstream_session_id for e in told.events if isinstance(e, ChildStarted)]
    assert parents == [OWN, CHILD]


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_nobody_is_waited_for_after_a_failure_or_an_interrupt(told, status):
    told.spawn()
    told.end(status=status, error={"message": "no", "codexErrorInfo": "unauthorized"})
    assert told.turn.is_over
    assert (told.turn.failure is not None) == (status == "failed")


def test_a_child_that_is_closed_has_ended(told):
    told.spawn()
    close = {"type": "collabAgentToolCall", "id": "d", "tool": "closeAgent"}
    kinds = told.item("completed", **close, receiverThreadIds=[CHILD], status="completed")
    assert kinds == [ToolCallAnnounced, ToolCallUpdated, ChildEnded]
    assert told.events[-1].outcome is Outcome.CANCELLED
    told.spawn("other")
    assert told("thread/closed", thread="other") == [ChildEnded]


def test_a_prompt_is_over_when_nobody_below_is_at_work_and_who_is_is_known(told):
    told.spawn()
    told("turn/started", thread=CHILD, turn={"id": "t-child"})
    assert told.turn.running == {OWN: "t-own", CHILD: "t-child"}
    assert told.end() == []
    assert not told.turn.is_over
    assert told.turn.running == {CHILD: "t-child"}
    assert told.end(CHILD) == [ChildEnded]
    assert told.turn.is_over


# --- the rest ----------------------------------------------------------------------------------


def test_words_of_an_earlier_turn_are_late_and_nothing_else(told):
    stale = {"type": "agentMessage", "id": "m", "text": "old"}
    assert told("item/completed", turnId="t-before", item=stale) == []
    assert told("turn/completed", turnId="t-before", turn={"status": "completed"}) == []
    assert (told.turn.late, told.turn.is_over) == (1, False)


def test_tokens_are_added_up_for_the_turn_of_the_prompt_alone_and_a_request_once(told):
    told.spawn()
    last = {"totalTokens": 12, "inputTokens": 10, "outputTokens": 2}
    for thread, total, events in (
        (OWN, 12, [UsageReported]),
        (OWN, 12, []),
        (OWN, 24, [UsageReported]),
        (CHILD, 12, [UsageReported]),
    ):
        usage = {"last": last, "total": {"totalTokens": total}, "modelContextWindow": 100}
        assert told("thread/tokenUsage/updated", thread=thread, tokenUsage=usage) == events
    assert (told.turn.tokens_in, told.turn.tokens_out) == (20, 4)


def test_what_a_resumed_thread_took_before_is_not_counted_again_however_late_it_is_told():
    turn = Turn(OWN, title=TITLE)
    before = {"last": {"totalTokens": 12, "inputTokens": 10}, "total": {"totalTokens": 12}}
    now = {"last": {"totalTokens": 24, "inputTokens": 20}, "total": {"totalTokens": 36}}

    def told(method, **members):
        return turn.take(method, {"threadId": OWN, **members}, roles={})

    assert told("thread/tokenUsage/updated", turnId="t-before", tokenUsage=before) == ()
    told("turn/started", turn={"id": "t-own"})
    assert told("thread/tokenUsage/updated", turnId="t-before", tokenUsage=before) == ()
    (counted,) = told("thread/tokenUsage/updated", turnId="t-own", tokenUsage=now)
    assert (counted.tokens_read, turn.tokens_in) == (20, 20)


def test_what_codex_tries_again_is_kept_and_remembered_until_it_says_something(told):
    info = {"responseStreamDisconnected": {"httpStatusCode": 429}}
    error = {"message": "Reconnecting... 1/5", "codexErrorInfo": info}
    (event,) = told.turn.take(
        "error", {"threadId": OWN, "error": error, "willRetry": True}, roles={}
    )
    assert event.progress.startswith("Reconnecting... 1/5")
    assert told("error", error=error, willRetry=True) == [UnknownReceived]
    assert told.turn.retrying.outcome is Outcome.RATE_LIMITED
    assert told("thread/status/changed", status={"type": "active"}) == []
    assert told.turn.retrying is not None
    told.item("completed", type="agentMessage", id="m", text="here I am")
    assert told.turn.retrying is None
    assert told("error", error=error, willRetry=False) == []


@pytest.mark.parametrize(
    ("method", "members", "kinds"),
    [
        ("turn/plan/updated", {"plan": [{"step": "one", "status": "pending"}]}, [PlanChanged]),
        ("thread/name/updated", {"threadName": "spec-42"}, [TitleChanged]),
        ("thread/name/updated", {"threadName": FIRST_NAME}, []),
        ("thread/name/updated", {"threadName": TITLE}, []),
        ("item/completed", {"item": {"type": "contextCompaction"}}, [ContextCompacted]),
        ("item/completed", {"item": {"type": "ofTomorrow"}}, [UnknownReceived]),
        ("item/completed", {"item": {"type": "enteredReviewMode"}}, []),
        ("turn/diff/updated", {"diff": "…"}, []),
        ("hook/started", {}, []),
        ("thread/quantum/changed", {"spin": 1}, [UnknownReceived]),
    ],
)
def test_what_is_about_the_conversation_is_told_and_what_is_new_is_kept(
    told, method, members, kinds
):
    assert told(method, **members) == kinds


def test_what_belongs_to_no_thread_is_no_threads(told):
    assert told("thread/quantum/changed", thread="") == [UnknownReceived]
    assert told.events[-1].upstream_session_id is None
    assert told("warning", thread="") == []


COLLAB = {"type": "collabAgentToolCall", "receiverThreadIds": ["a", "b"]}
ACTIVITY = {"type": "subAgentActivity", "kind": "started", "agentThreadId": "a"}


@pytest.mark.parametrize(
    ("item", "named"),
    [
        ({**COLLAB, "tool": "spawnAgent"}, ("a", "b")),
        ({**COLLAB, "tool": "sendInput"}, ("a", "b")),
        ({**COLLAB, "tool": "resumeAgent"}, ("a", "b")),
        ({**COLLAB, "tool": "followupTask"}, ("a", "b")),
        (ACTIVITY, ("a",)),
        ({**COLLAB, "tool": "wait"}, ()),
        ({"type": "collabAgentToolCall", "tool": "spawnAgent"}, ()),
        ({**ACTIVITY, "kind": "completed"}, ()),
        ({"type": "subAgentActivity", "kind": "started"}, ()),
        ({"type": "agentMessage"}, ()),
        ({}, ()),
    ],
)
def test_only_a_call_that_gives_work_and_a_started_activity_name_children(item, named):
    assert children_named(item) == named
