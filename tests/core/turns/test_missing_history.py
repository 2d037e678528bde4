from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.events import (
    AgentEvent,
    ChildStarted,
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UsageReported,
)
from upthread.core.turns.missing_history import attended_calls, open_calls, unrecorded
from upthread.core.types import (
    PERMISSION,
    ContextPart,
    ConversationId,
    Message,
    Part,
    ReasoningPart,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
    UpstreamSessionId,
)

OWN, CHILD = UpstreamSessionId("ses_own"), UpstreamSessionId("ses_child")
CALL = ToolCallPart(call_id="c1", title="Run", tool_kind="execute")
UNFINISHED = ToolCallPart(call_id="c3", title="Run", tool_kind="execute")
ANSWER = ToolResultPart(call_id="c1", status="completed", text="out")


def message(*parts: Part, speaker: Speaker = Speaker.ASSISTANT) -> Message:
    return Message(
        conversation_id=ConversationId("con"),
        seq=1,
        speaker=speaker,
        turn_id=TurnId("trn"),
        upstream_session_id=OWN,
        recorded_at_ms=0,
        parts=parts,
    )


def text(said: str, session: UpstreamSessionId = OWN) -> AgentEvent:
    return TextReceived(upstream_session_id=session, text=said)


def thought(said: str) -> AgentEvent:
    return ReasoningReceived(upstream_session_id=OWN, text=said)


def announced(call_id: str = "c1") -> AgentEvent:
    return ToolCallAnnounced(upstream_session_id=OWN, call_id=call_id, title="Run")


def updated(call_id: str = "c1", status: str = "completed") -> AgentEvent:
    return ToolCallUpdated(upstream_session_id=OWN, call_id=call_id, status=status)


def new_text(tail: list[str], *recorded: str) -> list[str]:
    left = unrecorded([text(t) for t in tail], [message(*(TextPart(text=r) for r in recorded))])
    return [event.text for event in left if isinstance(event, TextReceived)]


@pytest.mark.parametrize(
    ("tail", "recorded", "new"),
    [
        (["Hello world"], ["Hello wor"], ["ld"]),
        (["Hello", " world"], ["Hello wor"], ["ld"]),
        (["Hello", " world"], ["Hello world"], []),
        (["Hello world"], [], ["Hello world"]),
        (["Hello"], ["Hello world"], []),
        (["Hello world"], ["Hel", "lo"], [" world"]),
        (["Hello\n\nworld"], ["Hello world"], []),
        (["Hello world"], ["Hello\n\nworld"], []),
        ([" Hello", "world, bye"], ["Hello world"], [", bye"]),
        (["Hello world"], ["Hello \n"], ["world"]),
        (["Hello you"], ["Hello world"], ["you"]),
        (["Hello you", "there"], ["Hello world"], ["you", "there"]),
        (["abc", "abc"], ["abc"], ["abc"]),
    ],
)
def test_only_the_text_beyond_what_is_recorded_is_new(
    tail: list[str], recorded: list[str], new: list[str]
):
    found = new_text(tail, *recorded)
    assert [said.split() for said in found] == [said.split() for said in new]


def test_reasoning_is_compared_with_reasoning():
    recorded = [message(ReasoningPart(text="I think"), TextPart(text="I say"))]
    tail = [thought("I think so"), text("I say so"), thought("new")]
    assert unrecorded(tail, recorded) == (thought(" so"), text(" so"), thought("new"))
    assert unrecorded([thought("I think")], recorded) == ()


def test_calls_are_known_by_their_ids():
    tail = [announced("c1"), updated("c1"), announced("c2"), updated("c2")]
    both = [message(CALL), message(ANSWER, speaker=Speaker.TOOL)]
    assert unrecorded(tail, both) == (announced("c2"), updated("c2"))
    assert unrecorded(tail, [message(CALL)]) == (updated("c1"), announced("c2"), updated("c2"))
    assert unrecorded(tail, []) == tuple(tail)


def test_plans_and_unknown_updates_are_stored_once_each():
    plan = PlanChanged(upstream_session_id=OWN, entries=(("build", "pending"),))
    other = PlanChanged(upstream_session_id=OWN, entries=(("build", "done"),))
    odd = UnknownReceived(upstream_session_id=OWN, kind="odd", raw={"a": [1]})
    # As the store gives them back: arrays are lists.
    stored = [
        UnknownPart(kind="plan", raw=[["build", "pending"]]),
        UnknownPart(kind="odd", raw={"a": [1]}),
    ]
    left = unrecorded([plan, other, plan, odd, odd], [message(*stored)])
    assert left == (other, plan, odd)


def test_what_is_not_stored_as_a_part_is_left_to_the_recorder():
    usage = UsageReported(upstream_session_id=OWN, tokens_used=1)
    assert unrecorded([usage], [message(TextPart(text="x"))]) == (usage,)


def test_what_a_child_said_is_not_compared_with_its_parent():
    started = ChildStarted(upstream_session_id=OWN, child_upstream_session_id=CHILD, role="explore")
    tail = [text("Hel"), started, text("child", CHILD), text("lo you")]
    assert unrecorded(tail, [message(TextPart(text="Hello"))]) == (started, text(" you"))


def test_what_was_said_before_a_continuation_does_not_hide_what_was_said_after():
    recorded = [
        message(TextPart(text="Step one done.")),
        message(ContextPart(text="Go on."), speaker=Speaker.USER),
        message(TextPart(text="Step tw")),
    ]
    assert unrecorded([text("Step two.")], recorded) == (text("o."),)


def test_calls_without_a_result_are_open_oldest_first():
    second = ToolCallPart(call_id="c2", title="Second", tool_kind="edit")
    recorded = [message(CALL, second), message(ANSWER, speaker=Speaker.TOOL)]
    assert open_calls(recorded) == (second,)
    assert open_calls([message(CALL, second)]) == (CALL, second)
    assert open_calls([]) == ()


SAID = st.text("ab \n", max_size=30)


@given(SAID, st.integers(0, 30), st.lists(st.integers(0, 30), max_size=4))
def test_nothing_is_stored_twice_and_nothing_lost_wherever_the_crash_and_the_chunks_fall(
    said: str, crash: int, cuts: list[int]
):
    edges = sorted({0, len(said), *(min(cut, len(said)) for cut in cuts)})
    chunks = [said[a:b] for a, b in pairwise(edges)]
    recorded = said[:crash]
    assert recorded + "".join(new_text(chunks, recorded)) == said


@given(
    st.lists(st.sampled_from(["one", "two", "three,", "four."]), max_size=8),
    st.integers(0, 30),
    st.data(),
)
def test_white_space_that_an_agent_changes_makes_nothing_new(
    words: list[str], crash: int, data: st.DataObject
):
    spaces = st.sampled_from([" ", "\n", "\n\n", "  "])
    said = "".join(word + data.draw(spaces) for word in words)
    replayed = "".join(word + data.draw(spaces) for word in words)
    recorded = said[:crash]
    stored = recorded + "".join(new_text([replayed], recorded))
    assert "".join(stored.split()) == "".join(words)


def test_attended_are_the_calls_that_ended_or_were_allowed_or_refused_while_we_were_there():
    refused = UnknownPart(kind=PERMISSION, raw={"call_id": "c2", "answer": "reject_once"})
    assert attended_calls([message(CALL, ANSWER), message(refused, UNFINISHED)]) == {"c1", "c2"}
    assert attended_calls([]) == frozenset()
