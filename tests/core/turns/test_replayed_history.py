"""What an agent's session has and the record lacks: neither too little nor too much."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.messages import stored

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
    UserTextReplayed,
)
from upthread.core.redaction.redactor import Redactor
from upthread.core.turns.replayed_history import (
    NOTHING_LACKED,
    PAIRS_MAX,
    TOO_MANY,
    UNKNOWN_PROMPTS,
    Lacked,
    attended_calls,
    has_prompt,
    is_finished,
    joined,
    lacked,
    open_calls,
    redacted_history,
    unrecorded,
)
from upthread.core.types import (
    PERMISSION,
    ContextPart,
    ErasedPart,
    Message,
    Part,
    ReasoningPart,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    UpstreamSessionId,
)

SESSION = UpstreamSessionId("ses_now")
EARLIER = UpstreamSessionId("ses_then")
CHILD = UpstreamSessionId("ses_child")

# Few texts, so that many are said again: that is what can be taken for another.
PROMPTS = st.lists(
    st.sampled_from(["go on", "plan it", "fix it\nand test it", "again"]), max_size=8
)


def prompt(text: str, *, session: UpstreamSessionId = SESSION) -> UserTextReplayed:
    return UserTextReplayed(upstream_session_id=session, text=text, message_id=None)


def reply(text: str = "done") -> TextReceived:
    return TextReceived(upstream_session_id=SESSION, text=text)


def test_a_session_that_got_a_prompt_is_told_from_one_that_never_did():
    assert has_prompt([prompt("go on")])
    assert not has_prompt([UsageReported(upstream_session_id=SESSION, tokens_used=1)])


def call(call_id: str) -> ToolCallAnnounced:
    return ToolCallAnnounced(
        upstream_session_id=SESSION, call_id=call_id, title="sh", tool_kind="execute"
    )


def ended(call_id: str, status: str | None = "completed") -> ToolCallUpdated:
    return ToolCallUpdated(upstream_session_id=SESSION, call_id=call_id, status=status)


def session(*prompts: str) -> list[AgentEvent]:
    return [event for text in prompts for event in (prompt(text), reply())]


def message(speaker: Speaker, *parts: Part, of: UpstreamSessionId = SESSION) -> Message:
    return stored(*parts, speaker=speaker, session=of)


def record(*prompts: str, of: UpstreamSessionId = SESSION) -> list[Message]:
    return [
        said
        for text in prompts
        for said in (
            message(Speaker.USER, TextPart(text=text), of=of),
            message(Speaker.ASSISTANT, TextPart(text="done"), of=of),
        )
    ]


def prompts_lacking(found: Lacked) -> list[str]:
    return [turn.prompt for turn in found.turns]


def of(history: Sequence[AgentEvent], recorded: Sequence[Message]) -> Lacked:
    return lacked(history, recorded, SESSION)


@given(known=PROMPTS.filter(bool), missing=PROMPTS)
def test_what_follows_a_record_is_lacking_whether_its_prompts_were_kept_or_only_counted(
    known: list[str], missing: list[str]
) -> None:
    found = of(session(*known, *missing), record(*known))
    assert (prompts_lacking(found), found.fault) == (missing, "")
    erased = ErasedPart(kind="text", digest=b"", size_bytes=1)
    counted = [message(Speaker.USER, erased) for _ in known]
    assert prompts_lacking(of(session(*known, *missing), counted)) == missing


@given(recorded=PROMPTS, arrived=st.data())
def test_a_session_that_holds_nothing_but_what_is_on_record_lacks_nothing(
    recorded: list[str], arrived: st.DataObject
) -> None:
    """A prompt may never have arrived; a compaction may have taken the beginning away."""
    kept = arrived.draw(st.lists(st.booleans(), min_size=len(recorded), max_size=len(recorded)))
    held = [text for text, is_there in zip(recorded, kept, strict=True) if is_there]
    assert of(session(*held), record(*recorded)) == NOTHING_LACKED


@given(earlier=PROMPTS, recorded=PROMPTS)
def test_prompts_of_earlier_sessions_are_in_nobodys_way(
    earlier: list[str], recorded: list[str]
) -> None:
    whole = [*record(*earlier, of=EARLIER), *record(*recorded)]
    assert of(session(*recorded), whole) == NOTHING_LACKED


def test_a_prompt_that_the_agent_added_lines_to_is_the_same() -> None:
    history = session("<note>\nplan   it\n</note>", "typed by hand")
    assert prompts_lacking(of(history, record("plan it"))) == ["typed by hand"]


def test_a_prompt_that_was_sent_with_its_context_is_the_same() -> None:
    sent = message(Speaker.USER, TextPart(text="plan it"), ContextPart(text="You plan."))
    history = session(sent.sent_text, "typed by hand")
    assert prompts_lacking(of(history, [sent])) == ["typed by hand"]


def test_what_nobody_answered_is_no_turn() -> None:
    history = [*session("plan it"), prompt("<command-name>/status</command-name>")]
    assert of(history, record("plan it")) == NOTHING_LACKED


def test_what_the_agent_began_by_itself_within_a_turn_on_record_is_not_lacking() -> None:
    recorded = [
        *record("plan it"),
        message(
            Speaker.ASSISTANT,
            ToolCallPart(call_id="call_1", title="sh", tool_kind="execute", arguments=None),
        ),
    ]
    history = [*session("plan it"), prompt("<notification>"), call("call_1"), ended("call_1")]
    assert of(history, recorded) == NOTHING_LACKED


def test_what_sub_agents_heard_is_no_prompt_of_the_session() -> None:
    began = ChildStarted(
        upstream_session_id=SESSION, child_upstream_session_id=CHILD, role="Explore", call_id="c"
    )
    heard = (began, prompt("look around", session=CHILD), reply("looked"))
    history = [prompt("plan it"), *heard]
    assert of(history, record("plan it")) == NOTHING_LACKED


def test_a_session_that_answered_us_and_knows_none_of_our_prompts_cannot_be_compared() -> None:
    assert of(session("another"), record("plan it")) == Lacked(fault=UNKNOWN_PROMPTS)


def test_a_session_that_was_adopted_or_forked_need_not_know_our_prompts() -> None:
    recorded = record("plan it", of=EARLIER)
    assert of(session("another"), recorded) == NOTHING_LACKED
    assert of([], record("plan it")) == NOTHING_LACKED


def test_more_than_can_be_compared_in_good_time_is_said_to_be() -> None:
    many = [str(number) for number in range(int(PAIRS_MAX**0.5) + 1)]
    assert of(session(*many), record(*many)) == Lacked(fault=TOO_MANY)


def test_a_turn_is_finished_when_its_calls_are_and_the_agent_spoke_last() -> None:
    def is_so(*events: AgentEvent) -> bool:
        (turn,) = of([*session("plan it"), prompt("more"), *events], record("plan it")).turns
        return is_finished(turn)

    thought = ReasoningReceived(upstream_session_id=SESSION, text="hm")
    assert is_so(thought, call("c"), ended("c"), reply())
    assert not is_so(reply(), call("c"), ended("c"))
    assert not is_so(call("c"), ended("c", None), reply())


# --- the end of a turn ----------------------------------------------------------------------------


OWN, CHILD = UpstreamSessionId("ses_own"), UpstreamSessionId("ses_child")
CALL = ToolCallPart(call_id="c1", title="Run", tool_kind="execute")
UNFINISHED = ToolCallPart(call_id="c3", title="Run", tool_kind="execute")
ANSWER = ToolResultPart(call_id="c1", status="completed", text="out")


def recorded_as(*parts: Part, speaker: Speaker = Speaker.ASSISTANT) -> Message:
    return stored(*parts, speaker=speaker, session=OWN)


def text(said: str, session: UpstreamSessionId = OWN) -> AgentEvent:
    return TextReceived(upstream_session_id=session, text=said)


def thought(said: str) -> AgentEvent:
    return ReasoningReceived(upstream_session_id=OWN, text=said)


def announced(call_id: str = "c1") -> AgentEvent:
    return ToolCallAnnounced(upstream_session_id=OWN, call_id=call_id, title="Run")


def updated(call_id: str = "c1", status: str = "completed") -> AgentEvent:
    return ToolCallUpdated(upstream_session_id=OWN, call_id=call_id, status=status)


def new_text(tail: list[str], *recorded: str) -> list[str]:
    left = unrecorded([text(t) for t in tail], [recorded_as(*(TextPart(text=r) for r in recorded))])
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
    recorded = [recorded_as(ReasoningPart(text="I think"), TextPart(text="I say"))]
    tail = [thought("I think so"), text("I say so"), thought("new")]
    assert unrecorded(tail, recorded) == (thought(" so"), text(" so"), thought("new"))
    assert unrecorded([thought("I think")], recorded) == ()


def test_calls_are_known_by_their_ids():
    tail = [announced("c1"), updated("c1"), announced("c2"), updated("c2")]
    both = [recorded_as(CALL), recorded_as(ANSWER, speaker=Speaker.TOOL)]
    assert unrecorded(tail, both) == (announced("c2"), updated("c2"))
    assert unrecorded(tail, [recorded_as(CALL)]) == (
        updated("c1"),
        announced("c2"),
        updated("c2"),
    )
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
    left = unrecorded([plan, other, plan, odd, odd], [recorded_as(*stored)])
    assert left == (other, plan, odd)


def test_what_is_not_stored_as_a_part_is_left_to_the_recorder():
    usage = UsageReported(upstream_session_id=OWN, tokens_used=1)
    assert unrecorded([usage], [recorded_as(TextPart(text="x"))]) == (usage,)


def test_what_a_child_said_is_not_compared_with_its_parent():
    started = ChildStarted(upstream_session_id=OWN, child_upstream_session_id=CHILD, role="explore")
    tail = [text("Hel"), started, text("child", CHILD), text("lo you")]
    assert unrecorded(tail, [recorded_as(TextPart(text="Hello"))]) == (started, text(" you"))


def test_what_was_said_before_a_continuation_does_not_hide_what_was_said_after():
    recorded = [
        recorded_as(TextPart(text="Step one done.")),
        recorded_as(ContextPart(text="Go on."), speaker=Speaker.USER),
        recorded_as(TextPart(text="Step tw")),
    ]
    assert unrecorded([text("Step two.")], recorded) == (text("o."),)


def test_calls_without_a_result_are_open_oldest_first():
    second = ToolCallPart(call_id="c2", title="Second", tool_kind="edit")
    recorded = [recorded_as(CALL, second), recorded_as(ANSWER, speaker=Speaker.TOOL)]
    assert open_calls(recorded) == (second,)
    assert open_calls([recorded_as(CALL, second)]) == (CALL, second)
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
    assert attended_calls([recorded_as(CALL, ANSWER), recorded_as(refused, UNFINISHED)]) == {
        "c1",
        "c2",
    }
    assert attended_calls([]) == frozenset()


# --- a replayed history as it would have been recorded --------------------------------------------


REDACTOR = Redactor(b"k" * 32)
SECRET = "ghp_" + "a1B2" * 9
HIDDEN = REDACTOR.redact(SECRET)
OWN, CHILD = UpstreamSessionId("ses"), UpstreamSessionId("child")


def said(text, session=OWN, message_id=None):
    return TextReceived(upstream_session_id=session, text=text, message_id=message_id)


def test_pieces_of_one_text_are_joined_and_nothing_else():
    usage = UsageReported(upstream_session_id=OWN, tokens_used=1)
    thought = ReasoningReceived(upstream_session_id=OWN, text="hm")
    history = [
        *(said("a"), said("b"), thought, thought, said("c", message_id="m1")),
        *(said("d", message_id="m1"), said("e", message_id="m2"), said("f", CHILD)),
        *(usage, usage),
    ]
    assert list(joined(history)) == [
        said("ab"),
        ReasoningReceived(upstream_session_id=OWN, text="hmhm"),
        *(said("cd", message_id="m1"), said("e", message_id="m2"), said("f", CHILD)),
        *(usage, usage),
    ]


def test_a_secret_in_two_pieces_is_found():
    asked = UserTextReplayed(upstream_session_id=OWN, text=SECRET[:10])
    history = [asked, UserTextReplayed(upstream_session_id=OWN, text=SECRET[10:] + " is it")]
    (told,) = redacted_history(history, REDACTOR)
    assert told == UserTextReplayed(upstream_session_id=OWN, text=f"{HIDDEN} is it")


def test_every_text_of_an_event_is_redacted():
    announced = ToolCallAnnounced(
        upstream_session_id=OWN,
        call_id="c1",
        title=SECRET,
        arguments={"command": SECRET},
        locations=(SECRET,),
    )
    updated = ToolCallUpdated(
        upstream_session_id=OWN,
        call_id="c1",
        title=SECRET,
        text=SECRET,
        arguments={"command": SECRET},
        locations=(SECRET,),
    )
    bare = ToolCallUpdated(upstream_session_id=OWN, call_id="c1", status="completed")
    usage = UsageReported(upstream_session_id=OWN, tokens_used=1)
    history = [
        *(said(SECRET), ReasoningReceived(upstream_session_id=OWN, text=SECRET), announced),
        *(updated, bare, PlanChanged(upstream_session_id=OWN, entries=((SECRET, "pending"),))),
        *(UnknownReceived(upstream_session_id=OWN, kind="x", raw={"a": [SECRET]}), usage),
    ]
    told = redacted_history(history, REDACTOR)
    assert SECRET not in repr(told)
    assert repr(told).count(HIDDEN) == 11
    assert (told[4], told[7]) == (bare, usage)
