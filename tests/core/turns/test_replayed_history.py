"""What an agent's session has and the record lacks: neither too little nor too much."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.messages import stored
from tests.core.turns.events import (
    CHILD,
    CHILD_STARTED,
    OWN,
    asked,
    call,
    held,
    result,
    said,
    thought,
)

from upthread.core.events import (
    AgentEvent,
    ContextCompacted,
    PlanChanged,
    TextReceived,
    UnknownReceived,
    UsageReported,
)
from upthread.core.redaction.redactor import Redactor
from upthread.core.turns.agent_history import (
    NOTHING_LACKED,
    PAIRS_MAX,
    TOO_MANY,
    UNKNOWN_PROMPTS,
    Lacked,
    StoredTurn,
    attended_calls,
    gone_turns,
    has_prompt,
    is_finished,
    lacked,
    not_recorded,
    open_calls,
    stored_turns,
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
    TurnId,
    UnknownPart,
    UpstreamSessionId,
)
from upthread.runtime.record.turn_views import CutOffTurn
from upthread.runtime.turns.recovery import as_recorded, joined

EARLIER = UpstreamSessionId("ses_then")

# Few texts, so that many are said again: that is what can be taken for another.
PROMPTS = st.lists(
    st.sampled_from(["go on", "plan it", "fix it\nand test it", "again"]), max_size=8
)


def test_a_session_that_got_a_prompt_is_told_from_one_that_never_did():
    assert has_prompt([asked("go on")])
    assert not has_prompt([held(1)])


def session(*prompts: str) -> list[AgentEvent]:
    return [event for text in prompts for event in (asked(text), said("done"))]


def recorded_as(
    *parts: Part, speaker: Speaker = Speaker.ASSISTANT, of: UpstreamSessionId = OWN
) -> Message:
    return stored(*parts, speaker=speaker, session=of)


def record(*prompts: str, of: UpstreamSessionId = OWN) -> list[Message]:
    return [
        recorded_as(TextPart(text=text), speaker=speaker, of=of)
        for prompt in prompts
        for speaker, text in ((Speaker.USER, prompt), (Speaker.ASSISTANT, "done"))
    ]


def prompts_lacking(found: Lacked) -> list[str]:
    return [turn.prompt for turn in found.turns]


def of(history: Sequence[AgentEvent], recorded: Sequence[Message]) -> Lacked:
    return lacked(history, recorded, OWN)


@given(known=PROMPTS.filter(bool), missing=PROMPTS)
def test_what_follows_a_record_is_lacking_whether_its_prompts_were_kept_or_only_counted(
    known: list[str], missing: list[str]
) -> None:
    found = of(session(*known, *missing), record(*known))
    assert (prompts_lacking(found), found.fault) == (missing, "")
    erased = ErasedPart(kind="text", digest=b"", size_bytes=1)
    counted = [recorded_as(erased, speaker=Speaker.USER) for _ in known]
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
    sent = recorded_as(
        TextPart(text="plan it"), ContextPart(text="You plan."), speaker=Speaker.USER
    )
    history = session(sent.sent_text, "typed by hand")
    assert prompts_lacking(of(history, [sent])) == ["typed by hand"]


def test_what_nobody_answered_is_no_turn() -> None:
    history = [*session("plan it"), asked("<command-name>/status</command-name>")]
    assert of(history, record("plan it")) == NOTHING_LACKED


@given(held=PROMPTS, gone=PROMPTS)
def test_turns_that_a_session_lost_at_its_end_are_told_newest_first(
    held: list[str], gone: list[str]
) -> None:
    said_in = [
        stored(TextPart(text=text), speaker=speaker, session=OWN, turn=f"trn_{number}")
        for number, prompt in enumerate([*held, *gone])
        for speaker, text in ((Speaker.USER, prompt), (Speaker.ASSISTANT, f"done {number}"))
    ]
    history = [e for n, text in enumerate(held) for e in (asked(text), said(f"done {n}"))]
    wanted = [f"trn_{len(held) + number}" for number in reversed(range(len(gone)))]
    assert [each.turn_id for each in gone_turns(history, said_in, OWN)] == wanted
    assert list(gone_turns(history, said_in, EARLIER)) == [], "another session's are not compared"


def test_a_turn_of_which_not_all_was_kept_is_known_by_its_prompt() -> None:
    erased = ErasedPart(kind="text", digest=b"", size_bytes=1)
    recorded = [*record("plan it")[:1], recorded_as(erased)]
    assert list(gone_turns(session("plan it"), recorded, OWN)) == []
    assert list(gone_turns(session("another"), recorded, OWN)) == recorded[:1]
    assert Lacked(gone="turn 1").as_inputs["turns_gone"] == "turn 1"


def test_words_that_were_streamed_and_are_not_in_the_history_make_no_lost_turn() -> None:
    streamed = (TextPart(text="Warning: slow."), TextPart(text="do ne"), TextPart(text=" Bye."))
    recorded = [*record("plan it")[:1], recorded_as(*streamed)]
    assert list(gone_turns(session("plan it"), recorded, OWN)) == recorded[:1]
    assert list(gone_turns(session("plan it"), recorded, OWN, was_streamed=True)) == []
    run_together = session("Is somebody there?plan it")
    assert list(gone_turns(run_together, recorded, OWN, was_streamed=True)) == []
    other = [asked("plan it"), said("another reply")]
    for history in (other, [asked("plan it"), call("call_1"), result("call_1")], []):
        assert list(gone_turns(history, recorded, OWN, was_streamed=True)) == recorded[:1]


def test_a_session_no_longer_holds_what_it_compacted() -> None:
    recorded = [*record("plan it"), *record("build it")]
    history = [*session("plan it", "build it"), ContextCompacted(upstream_session_id=OWN)]
    assert list(gone_turns(history, recorded, OWN)) == [recorded[2], recorded[0]]
    told = [*recorded, *record("test it")]
    assert list(gone_turns([*history, *session("test it")], told, OWN)) == []


def test_what_the_agent_began_by_itself_within_a_turn_on_record_is_not_lacking() -> None:
    recorded = [
        *record("plan it"),
        recorded_as(ToolCallPart(call_id="call_1", title="sh", tool_kind="execute")),
    ]
    history = [*session("plan it"), asked("<notification>"), call("call_1"), result("call_1")]
    assert of(history, recorded) == NOTHING_LACKED


def test_what_sub_agents_heard_is_no_prompt_of_the_session() -> None:
    heard = (CHILD_STARTED, asked("look around", of=CHILD), said("looked"))
    history = [asked("plan it"), *heard]
    assert of(history, record("plan it")) == NOTHING_LACKED


def test_a_session_that_answered_us_and_knows_none_of_our_prompts_cannot_be_compared() -> None:
    assert of(session("another"), record("plan it")) == Lacked(fault=UNKNOWN_PROMPTS)


def test_a_session_that_was_adopted_or_forked_need_not_know_our_prompts() -> None:
    recorded = record("plan it", of=EARLIER)
    assert of(session("another"), recorded) == NOTHING_LACKED
    assert of([], record("plan it")) == NOTHING_LACKED


def test_a_copied_session_is_taken_whole_where_nothing_of_it_is_on_record() -> None:
    held = stored_turns(session("one", "two"))
    assert [turn.prompt for turn in not_recorded(held, record("one"))] == ["two"]
    assert not_recorded(held, record("other")) == held


def test_more_than_can_be_compared_in_good_time_is_said_to_be() -> None:
    many = [str(number) for number in range(int(PAIRS_MAX**0.5) + 1)]
    assert of(session(*many), record(*many)) == Lacked(fault=TOO_MANY)


def test_a_turn_is_finished_when_its_calls_are_and_the_agent_spoke_last() -> None:
    def is_so(*events: AgentEvent) -> bool:
        (turn,) = of([*session("plan it"), asked("more"), *events], record("plan it")).turns
        return is_finished(turn)

    assert is_so(thought(), call("c"), result("c"), said("done"))
    assert not is_so(said("done"), call("c"), result("c"))
    assert not is_so(call("c"), result("c", None), said("done"))


# --- the end of a turn ----------------------------------------------------------------------------


CALL = ToolCallPart(call_id="c1", title="Run", tool_kind="execute")
UNFINISHED = ToolCallPart(call_id="c3", title="Run", tool_kind="execute")
ANSWER = ToolResultPart(call_id="c1", status="completed", text="out")


def new_text(tail: list[str], *recorded: str) -> list[str]:
    left = unrecorded([said(t) for t in tail], [recorded_as(*(TextPart(text=r) for r in recorded))])
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
    tail = [thought("I think so"), said("I say so"), thought("new")]
    assert unrecorded(tail, recorded) == (thought(" so"), said(" so"), thought("new"))
    assert unrecorded([thought("I think")], recorded) == ()


def test_calls_are_known_by_their_ids():
    tail = [call("c1"), result("c1"), call("c2"), result("c2")]
    both = [recorded_as(CALL), recorded_as(ANSWER, speaker=Speaker.TOOL)]
    assert unrecorded(tail, both) == (call("c2"), result("c2"))
    assert unrecorded(tail, [recorded_as(CALL)]) == (result("c1"), call("c2"), result("c2"))
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
    compacted = ContextCompacted(upstream_session_id=OWN)
    stored.append(UnknownPart(kind="compacted", raw=None))
    tail = [plan, other, plan, odd, odd, compacted, compacted]
    assert unrecorded(tail, [recorded_as(*stored)]) == (other, plan, odd, compacted)


def test_what_is_not_stored_as_a_part_is_left_to_the_recorder():
    assert unrecorded([held(1)], [recorded_as(TextPart(text="x"))]) == (held(1),)


def test_what_a_child_said_is_not_compared_with_its_parent():
    tail = [said("Hel"), CHILD_STARTED, said("child", of=CHILD), said("lo you")]
    assert unrecorded(tail, [recorded_as(TextPart(text="Hello"))]) == (CHILD_STARTED, said(" you"))


def test_what_was_said_before_a_continuation_does_not_hide_what_was_said_after():
    recorded = [
        recorded_as(TextPart(text="Step one done.")),
        recorded_as(ContextPart(text="Go on."), speaker=Speaker.USER),
        recorded_as(TextPart(text="Step tw")),
    ]
    assert unrecorded([said("Step two.")], recorded) == (said("o."),)


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


def test_pieces_of_one_text_are_joined_and_nothing_else():
    history = [
        *(said("a"), said("b"), thought(), thought(), said("c", "m1"), said("d", "m1")),
        *(said("e", "m2"), said("f", of=CHILD), held(1), held(1)),
    ]
    assert list(joined(history)) == [
        *(said("ab"), thought("hmhm"), said("cd", "m1")),
        *(said("e", "m2"), said("f", of=CHILD), held(1), held(1)),
    ]


def test_a_secret_in_two_pieces_is_found():
    history = [asked(SECRET[:10]), asked(SECRET[10:] + " is it")]
    assert as_recorded(history, REDACTOR) == (asked(f"{HIDDEN} is it"),)


def test_every_text_of_an_event_is_redacted():
    given_to_it = {"arguments": {"command": SECRET}, "locations": (SECRET,)}
    updated = result("c1", None, title=SECRET, text=SECRET, **given_to_it)
    history = [
        *(said(SECRET), thought(SECRET), call("c1", SECRET, **given_to_it), updated, result()),
        PlanChanged(upstream_session_id=OWN, entries=((SECRET, "pending"),)),
        *(UnknownReceived(upstream_session_id=OWN, kind="x", raw={"a": [SECRET]}), held(1)),
    ]
    told = as_recorded(history, REDACTOR)
    assert SECRET not in repr(told)
    assert repr(told).count(HIDDEN) == 11
    assert (told[4], told[7]) == (result(), held(1))


def test_a_cut_off_turn_is_told_with_its_reason_and_its_prompt_on_one_line_each():
    cut_off = CutOffTurn(turn_id=TurnId("trn_1"), prompt="Plan\nit.", actions=(), detail="killed")
    assert cut_off.lines() == ("the last turn was cut off: killed", "it was asked: Plan it.")
    unknown = CutOffTurn(turn_id=TurnId("trn_1"), prompt="", actions=(), detail="")
    assert unknown.lines(is_last=False) == ("an earlier turn was cut off", "it was asked: not kept")


def test_a_stored_turn_has_each_report_of_its_tokens_in_order():
    told = tuple(UsageReported(tokens_used=used) for used in (10, 20))
    turn = StoredTurn(upstream_session_id=None, prompt="Plan it.", events=told)
    assert turn.told == told
