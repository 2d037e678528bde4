import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from upthread.core.commands import OpenTurn
from upthread.core.decision.words import READ_BACK
from upthread.core.events import (
    AgentsCall,
    AttachFailed,
    PromptRecognised,
    PromptSent,
    RecoveryStarted,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)
from upthread.core.turns.turn import (
    NEXT_COMMAND,
    RESTORED,
    SENDS_MAX,
    TRANSITIONS,
    Recognition,
    TurnCommand,
    TurnState,
    TurnView,
    apply,
    attempts,
    fold,
)
from upthread.core.types import ConversationId, Outcome, TurnId, UpstreamSessionId

A = UpstreamSessionId("ses_a")
INTENDED = TurnIntended(decision="first", reasons=("none_yet",), prompt_seq=1)
ATTACHED = SessionAttached(upstream_session_id=A, how="new", agent="rehearsal")
SENT = PromptSent(prompt_seq=1)
RECOVERY = RecoveryStarted(holder="pid 1")
ENDED = TurnEnded(outcome=Outcome.OK)
PARKED = TurnParked(reason="undecidable", detail="")
FAILED = AttachFailed(upstream_session_id=A, outcome=Outcome.MISSING, detail="gone")
ABSENT = PromptRecognised(recognition="absent")
EVENTS: dict[type, TurnEvent] = {
    type(event): event
    for event in (INTENDED, ATTACHED, SENT, RECOVERY, ENDED, PARKED, FAILED, ABSENT)
}


DIED = TurnEnded(outcome=Outcome.PROCESS_DIED)
UNKNOWN = TurnParked(reason=Outcome.UNKNOWN, detail="no such model")
RESUMED = structs.replace(INTENDED, decision="resume")


@pytest.mark.parametrize(
    ("events", "command"),
    [
        ([], TurnCommand.INTEND),
        ([INTENDED], TurnCommand.ATTACH),
        ([INTENDED, FAILED, INTENDED], TurnCommand.ATTACH),
        ([INTENDED, ATTACHED], TurnCommand.SEND),
        ([INTENDED, ATTACHED, SENT], TurnCommand.STREAM),
        ([INTENDED, ATTACHED, SENT, ENDED], TurnCommand.NOTHING),
        ([INTENDED, RECOVERY], TurnCommand.ATTACH),
        ([INTENDED, ATTACHED, RECOVERY], TurnCommand.ATTACH),
        ([INTENDED, ATTACHED, SENT, RECOVERY], TurnCommand.RECOGNISE),
        ([INTENDED, ATTACHED, SENT, RECOVERY, RECOVERY], TurnCommand.RECOGNISE),
        ([INTENDED, ATTACHED, SENT, RECOVERY, ATTACHED, ABSENT, SENT], TurnCommand.STREAM),
        ([INTENDED, ATTACHED, SENT, RECOVERY, FAILED], TurnCommand.ATTACH),
        ([INTENDED, ATTACHED, SENT, PARKED], TurnCommand.NOTHING),
        ([INTENDED, FAILED, INTENDED, PARKED], TurnCommand.NOTHING),
        ([INTENDED, FAILED, INTENDED, PARKED, RECOVERY], TurnCommand.ATTACH),
        ([INTENDED, ATTACHED, SENT, PARKED, RECOVERY], TurnCommand.RECOGNISE),
        ([INTENDED, ATTACHED, SENT, PARKED, ENDED], TurnCommand.NOTHING),
    ],
)
def test_what_is_next_after_each_beginning_of_a_turn(events: list[TurnEvent], command: TurnCommand):
    assert NEXT_COMMAND[fold(events).state] is command


@given(st.lists(st.sampled_from(list(EVENTS.values())), max_size=30))
def test_a_walk_through_the_table_keeps_what_the_runtime_relies_on(wanted: list[TurnEvent]):
    view = TurnView()
    for event in wanted:
        is_one_send_too_many = isinstance(event, PromptSent) and view.sends >= SENDS_MAX
        if type(event) not in TRANSITIONS[view.state] or is_one_send_too_many:
            continue
        view = apply(view, event)
        assert view.sends <= SENDS_MAX
        if view.state in {TurnState.SENT, TurnState.UNCERTAIN}:
            assert view.sent is not None, "only a prompt that may have left can be looked for"
        assert (view.parked is not None) == (view.state is TurnState.PARKED) or view.ended
        assert (view.ended is not None) == (view.state is TurnState.ENDED)
        assert view.is_over == (view.state in {TurnState.ENDED, TurnState.PARKED})


def test_every_state_has_a_row_and_a_command():
    assert set(TRANSITIONS) == set(NEXT_COMMAND) == set(TurnState)
    reached = {state for row in TRANSITIONS.values() for state in row.values()}
    assert reached == set(TurnState) - {TurnState.NEW}


@pytest.mark.parametrize(
    "events",
    [
        *([SENT], [INTENDED, SENT], [INTENDED, ATTACHED, PARKED], [PARKED]),
        *([INTENDED, ATTACHED, SENT, ENDED, each] for each in EVENTS.values()),
    ],
)
def test_an_event_out_of_place_is_a_bug_of_ours(events: list[TurnEvent]):
    with pytest.raises(AssertionError, match="cannot follow"):
        fold(events)


def test_a_turn_that_is_interrupted_again_and_again_is_continued_and_not_for_ever():
    again = [RECOVERY, ATTACHED, ABSENT, SENT]
    often = [INTENDED, ATTACHED, SENT, *again * (SENDS_MAX - 1)]
    views = [fold(each) for each in (often[:-4], often[:-1], often)]
    assert [each.may_send for each in views] == [True, True, False]
    assert [each.may_be_continued for each in views] == [True, False, False]
    with pytest.raises(AssertionError, match=f"left {SENDS_MAX} times"):
        fold([*often, *again])


def test_a_person_who_looked_at_a_parked_turn_allows_one_more_prompt():
    twice = [INTENDED, ATTACHED, SENT, RECOVERY, ATTACHED, ABSENT, SENT, RECOVERY, ATTACHED, PARKED]
    view = fold([*twice, RECOVERY])
    assert (view.is_person_asked, view.sends) == (True, 1)
    assert fold([*twice, RECOVERY, ATTACHED, ABSENT, SENT]).is_person_asked is False


def test_a_turn_tells_its_session_its_call_and_what_is_next():
    begun = AgentsCall(agent="codex", main_session="ses_main", call_id="c1")
    new, view = fold([]), fold([structs.replace(INTENDED, call=begun), ATTACHED])
    session = ATTACHED.upstream_session_id
    assert (new.call, new.is_in(session), new.command) == (None, False, TurnCommand.INTEND)
    assert (view.call, view.is_in(session), view.command) == (begun, True, TurnCommand.SEND)


def test_what_happens_in_a_turn_that_is_over_is_numbered_from_one():
    opened = OpenTurn(turn_id=TurnId("t"), conversation_id=ConversationId("c"), opened_at_ms=7)
    assert [each.seq for each in opened.with_events(INTENDED, ATTACHED)] == [1, 2]


CANCELLED = TurnEnded(outcome=Outcome.CANCELLED)


@pytest.mark.parametrize(
    ("events", "was_cut_off", "was_left_open"),
    [
        ([SENT], True, True),
        ([SENT, PARKED], False, True),
        ([SENT, DIED], True, True),
        ([SENT, ENDED], False, False),
        ([SENT, CANCELLED], True, True),
        ([SENT, TurnEnded(outcome=Outcome.UNKNOWN)], False, True),
        ([SENT, TurnEnded(outcome=Outcome.TIMED_OUT)], False, True),
        ([SENT, TurnEnded(outcome=Outcome.TRANSIENT)], False, True),
        ([SENT, TurnEnded(outcome=Outcome.CONTEXT_FULL)], False, True),
        ([SENT, TurnEnded(outcome=Outcome.RATE_LIMITED)], False, False),
        ([SENT, TurnEnded(outcome=Outcome.AUTH)], False, False),
    ],
)
def test_a_turn_was_cut_off_before_its_end_and_left_open_unless_its_agent_ended_it(
    events, was_cut_off, was_left_open
):
    view = fold([INTENDED, ATTACHED, *events])
    assert (view.was_cut_off, view.was_left_open) == (was_cut_off, was_left_open)


def test_a_turn_tells_what_stopped_it():
    failed = TurnEnded(outcome=Outcome.UNKNOWN, detail="no such model")
    for rest, stopped_by in (
        ((), ("", "")),
        ((PARKED,), ("undecidable", "")),
        ((failed,), ("unknown", "no such model")),
    ):
        assert fold([INTENDED, ATTACHED, SENT, *rest]).stopped_by == stopped_by


def test_a_turn_is_refused_when_it_stops_and_no_session_took_its_prompt():
    again = structs.replace(ATTACHED, how=RESTORED)
    assert not fold([INTENDED]).was_refused, "it is under way"
    failed = TurnEnded(outcome=Outcome.TRANSIENT, detail="overloaded")
    twice = [INTENDED, ATTACHED, SENT, RECOVERY, ATTACHED, ABSENT, SENT, failed]
    assert fold(twice).may_be_unheard
    assert not fold([INTENDED, ATTACHED, SENT, failed]).may_be_unheard
    assert fold([INTENDED, FAILED, INTENDED, PARKED]).was_refused
    assert fold([INTENDED, ATTACHED, SENT, again, PARKED]).was_refused
    assert not fold([INTENDED, ATTACHED, SENT, PARKED]).was_refused


REFUSED = RecoveryStarted(holder="w", refused_as=Outcome.UNKNOWN, detail="row 7")


def test_a_turn_has_an_attempt_for_each_time_that_a_person_asked():
    sent, again = [RESUMED, ATTACHED, SENT, UNKNOWN], [RECOVERY, UNKNOWN, RECOVERY, ABSENT, SENT]
    for events, found in (
        ([], [(0, False, False)]),
        ([INTENDED, DIED], [(0, True, True)]),
        ([RESUMED, FAILED, INTENDED], [(0, True, False)]),
        ([*sent[:-1], DIED], [(1, False, False)]),
        ([*sent, DIED], [(1, False, True)]),
        ([*sent, *again], [(1, False, False), (0, False, True), (1, False, True)]),
        (
            [*sent[:3], RECOVERY, REFUSED, RECOVERY],
            [(0, False, False), (0, False, True), (1, False, False)],
        ),
        ([*sent[:3], REFUSED, REFUSED], [(0, False, False), (0, False, True), (1, False, True)]),
    ):
        assert [(a.sends, a.asked_new, a.is_refused) for a in attempts(events)] == found


def test_a_turn_that_was_read_back_is_not_known_to_its_role():
    intended = TurnIntended(decision="resume", reasons=(READ_BACK,), prompt_seq=1)
    assert fold([intended, ATTACHED, SENT, ENDED]).was_read_back


@pytest.mark.parametrize(
    ("events", "was_interrupted"),
    [
        ([SENT, ENDED], False),
        ([RECOVERY, ATTACHED, SENT, ENDED], False),
        ([SENT, PARKED, RECOVERY, ATTACHED, ABSENT, SENT, ENDED], False),
        ([SENT, RECOVERY, ATTACHED, ABSENT, SENT, ENDED], True),
        ([SENT, RECOVERY, ATTACHED, PARKED, RECOVERY, ATTACHED, ABSENT, SENT, ENDED], True),
    ],
)
def test_a_turn_that_was_taken_on_after_it_stopped_stays_interrupted(events, was_interrupted):
    assert fold([INTENDED, ATTACHED, *events]).was_interrupted is was_interrupted


def test_another_agent_may_go_on_with_a_prompt_that_left():
    view = fold([INTENDED, ATTACHED, SENT, RECOVERY, INTENDED])
    assert (view.state, view.was_sent_again) == (TurnState.INTENDED, False)
    twice = fold([INTENDED, ATTACHED, SENT, RECOVERY, INTENDED, ATTACHED, SENT])
    assert twice.was_sent_again


def test_a_turn_that_was_taken_on_is_parked_no_more():
    view = fold([INTENDED, ATTACHED, SENT, PARKED])
    assert view.parked == PARKED
    assert apply(view, RECOVERY).parked is None


def test_a_prompt_counts_for_the_session_it_went_to():
    other = SessionAttached(upstream_session_id=UpstreamSessionId("b"), how="new", agent="x")
    sent = [INTENDED, ATTACHED, SENT, RECOVERY]
    assert fold([*sent, ATTACHED]).is_prompted
    assert not fold([*sent, other]).is_prompted
    assert not fold([INTENDED, ATTACHED]).is_prompted


def test_the_newest_of_each_kind_is_kept():
    again = [INTENDED, ATTACHED, SENT, RECOVERY, ATTACHED, ABSENT, SENT]
    assert fold(again).recognised is None, "what it was before it was sent again"
    view = fold([*again, ABSENT, ENDED])
    assert (view.intended, view.attached) == (INTENDED, ATTACHED)
    assert (view.sent, view.ended) == (SENT, ENDED)
    assert view.recognised is Recognition.ABSENT
    assert view.events == 9
