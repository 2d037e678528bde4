"""What turns took: as reported, estimated where it was not, and marked wherever it was not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from upthread.core.decision.model import FIRST, RESUME, RESUME_WITH_REPLAY, START_FRESH
from upthread.core.decision.words import Price, Spending, Tokens
from upthread.core.events import (
    PromptRecognised,
    PromptSent,
    RecoveryStarted,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
    Usage,
    UsageReported,
)
from upthread.core.turns import turn as turns
from upthread.core.turns.spent_tokens import (
    FAILED_KEPT_MAX,
    NO_TOTALS,
    NO_USAGE,
    NOTHING_COUNTED,
    NOTHING_SPENT,
    Counted,
    Totals,
    added,
    cost_of,
    ended_well,
    going_on,
    recognised_event,
    spending_in_words,
    spent_on_prompt,
    spent_on_turn,
    together,
    took_by_prompt,
    totals_before,
    unfinished,
    usage_of_prompt,
    with_request,
)
from upthread.core.turns.turn import Recognition
from upthread.core.types import Outcome, TurnId, UpstreamSessionId

SENT = PromptSent(prompt_seq=1)
PARKED = TurnParked(reason="permission", detail="", tokens_spent=300)
TAKEN_UP = RecoveryStarted(holder="host")


def counted(count: int) -> Tokens:
    return Tokens(count=count, is_estimate=False)


def guessed(count: int) -> Tokens:
    return Tokens(count=count, is_estimate=True)


def ended(tokens: int | None, *, is_estimated: bool = False) -> TurnEnded:
    return TurnEnded(outcome=Outcome.OK, tokens_spent=tokens, is_spent_estimated=is_estimated)


def test_a_prompt_took_what_was_read_and_written_else_what_is_held_else_an_estimate():
    nothing = NOTHING_COUNTED
    assert spent_on_prompt(nothing, characters=4, read=900, written=100) == counted(1000)
    assert spent_on_prompt(nothing, characters=4, held=700) == guessed(700)
    assert spent_on_prompt(nothing, characters=4, read=900, held=700) == guessed(700)
    assert spent_on_prompt(nothing, characters=41) == guessed(11)


def test_a_turn_took_what_its_end_and_its_stops_tell():
    assert spent_on_turn([SENT, PARKED, SENT, ended(200)]) == counted(500)
    assert spent_on_turn([SENT, ended(200, is_estimated=True)]) == guessed(200)
    assert spent_on_turn([TAKEN_UP, SENT, ended(200)]) == counted(200), "nothing else takes any"


def test_a_turn_whose_prompt_left_and_told_nothing_is_marked():
    assert spent_on_turn([SENT]) == guessed(0)
    assert spent_on_turn([SENT, ended(None)]) == guessed(0)
    # As is what the first process took of a turn that another one took up.
    assert spent_on_turn([SENT, TAKEN_UP, SENT, ended(1_000)]) == guessed(1_000)
    assert spent_on_turn([SENT, PARKED, TAKEN_UP, SENT, ended(200)]) == counted(500)


def read_back(recognition: Recognition, *read: int) -> PromptRecognised:
    session = UpstreamSessionId("s")
    found = NOTHING_COUNTED
    for tokens in read:
        told = UsageReported(
            upstream_session_id=session, tokens_used=None, tokens_read=tokens, tokens_written=1
        )
        found = found.and_one(told, is_own=True)
    return recognised_event(recognition, found)


def test_a_turn_that_was_cut_off_took_what_its_agents_history_counts():
    cut_off = read_back(Recognition.INCOMPLETE, 99)
    assert spent_on_turn([SENT, cut_off]) == guessed(100)
    assert spent_on_turn([SENT, cut_off, TAKEN_UP, SENT, ended(200)]) == guessed(300)
    (died, ends) = took_by_prompt([SENT, TAKEN_UP, cut_off, ended(None)])
    assert died.usage == Usage(requests=1, first_read=99)
    assert (died.tokens, ends.tokens) == (guessed(100), counted(0))
    whole = read_back(Recognition.COMPLETE, 99, 199)
    assert spent_on_turn([SENT, cut_off, whole, ended(None)]) == counted(300), "read again later"


def test_what_a_history_counts_is_not_added_to_what_an_end_or_a_stop_has_told():
    cut_off = read_back(Recognition.INCOMPLETE, 99)
    assert spent_on_turn([SENT, PARKED, cut_off, ended(None)]) == counted(300)
    assert spent_on_turn([SENT, read_back(Recognition.COMPLETE), ended(200)]) == counted(200)


def test_a_turn_whose_prompt_never_left_took_nothing():
    assert spent_on_turn([ended(None)]) == NOTHING_SPENT
    assert spent_on_turn([]) == NOTHING_SPENT


@pytest.mark.extended
@given(st.lists(st.builds(Tokens, count=st.integers(0, 9), is_estimate=st.booleans())))
def test_a_sum_is_marked_as_soon_as_one_of_it_is(spent):
    total = added(spent)
    assert total.count == sum(each.count for each in spent)
    assert total.is_estimate == any(each.is_estimate for each in spent)


def test_a_turn_costs_what_its_decision_gives_the_model():
    price = Price(resume=counted(40_000), briefing=guessed(2_000))
    assert cost_of(RESUME, price) == counted(40_000)
    for decision in (FIRST, START_FRESH, RESUME_WITH_REPLAY):
        assert cost_of(decision, price) == guessed(2_000)


def test_nothing_more_is_spent_when_all_is_spent_or_the_next_turn_would_pass_it():
    assert Spending(tokens_max=10, spent=counted(10)).is_over
    assert not Spending(tokens_max=10, spent=counted(9)).is_over
    assert Spending(tokens_max=10, spent=counted(9), next_turn=guessed(2)).is_over
    assert not Spending(tokens_max=10, spent=counted(8), next_turn=guessed(2)).is_over


def test_the_words_say_what_is_used_and_what_the_turn_would_take():
    spent = Spending(tokens_max=50_000, spent=guessed(51_000))
    assert spending_in_words(spent) == "~51k of at most 50000 tokens are used"
    near = Spending(tokens_max=50_000, spent=counted(41_000), next_turn=guessed(12_000))
    assert spending_in_words(near) == (
        "41k of at most 50000 tokens are used, and the next request would take ~12k or more"
    )


def request(read: int | None, written: int | None = 0) -> UsageReported:
    session = UpstreamSessionId("ses_1")
    return UsageReported(
        upstream_session_id=session, tokens_used=None, tokens_read=read, tokens_written=written
    )


def test_each_request_of_a_turn_is_added_and_the_first_of_its_own_session_is_kept():
    counted_so_far = NOTHING_COUNTED.and_one(request(6_000, 5), is_own=False)
    for read in (8_000, 8_100, 8_200):
        counted_so_far = counted_so_far.and_one(request(read, 10), is_own=True)
    usage = Usage(requests=4, read=30_300, written=35, first_read=8_000)
    expected = Counted(tokens=30_335, usage=usage)
    assert counted_so_far == expected
    holds = UsageReported(tokens_used=9_000)
    assert counted_so_far.and_one(holds, is_own=True) == counted_so_far
    # One of which nothing is told leaves no sum known.
    partly = counted_so_far.and_one(request(None, None), is_own=True)
    assert partly.is_estimate
    assert partly.usage == Usage(requests=5, first_read=8_000)
    # Where nobody said what a request wrote, the sum is marked.
    assert NOTHING_COUNTED.and_one(request(10, None), is_own=True).is_estimate


def test_what_the_requests_took_counts_where_the_agent_has_no_sum_or_a_smaller_one():
    six = Counted(tokens=51_090, usage=Usage(requests=6))
    assert spent_on_prompt(six, characters=4, held=8_685) == counted(51_090)
    assert spent_on_prompt(six, characters=4, read=9, written=1) == counted(51_090)
    assert spent_on_prompt(six, characters=4, read=60_000, written=1) == counted(60_001)
    guess = Counted(tokens=9, is_estimate=True, usage=Usage(requests=1))
    assert spent_on_prompt(guess, characters=4) == guessed(9)


ALLOWED = Spending(tokens_max=48_685, spent=counted(10_000))


def test_a_turn_that_goes_on_is_stopped_before_the_request_that_would_pass():
    assert not going_on(ALLOWED, taken=30_000, next_read=8_685).is_over
    assert going_on(ALLOWED, taken=30_000, next_read=8_686).is_over
    assert going_on(ALLOWED, taken=39_000, next_read=0).is_over


def test_the_words_of_a_stop_say_what_is_used_and_what_the_next_request_would_take():
    assert spending_in_words(going_on(ALLOWED, taken=31_000, next_read=8_700)) == (
        "41k of at most 48685 tokens are used, and the next request would take 9k or more"
    )
    stopped = going_on(ALLOWED, taken=40_000, next_read=8_700)
    assert spending_in_words(stopped) == "50k of at most 48685 tokens are used"


# --- the totals of a conversation, added up at each end -----------------------------------------

INTENDED = TurnIntended(decision="resume", reasons=("unchanged",), prompt_seq=1)
ATTACHED = SessionAttached(upstream_session_id=UpstreamSessionId("ses"), how="resumed", agent="a")


def turn(
    outcome: Outcome = Outcome.OK, *, spent: int | None = 5, calls_open: int = 0
) -> tuple[TurnEvent, ...]:
    ended = TurnEnded(outcome=outcome, tokens_spent=spent, calls_open=calls_open)
    return (INTENDED, ATTACHED, SENT, ended)


def named(number: int) -> TurnId:
    return TurnId(f"trn_{number}")


def test_a_turn_ends_well_that_was_sent_once_and_left_no_call_open() -> None:
    assert ended_well(turns.fold(turn()))
    assert not ended_well(turns.fold(turn(Outcome.CANCELLED)))
    assert not ended_well(turns.fold(turn(calls_open=1)))
    assert not ended_well(turns.fold((INTENDED, ATTACHED, SENT)))
    again = (*turn()[:3], RecoveryStarted(holder="another"), SENT, turn()[-1])
    assert not ended_well(turns.fold(again))


def test_nothing_is_known_before_a_turn_whose_end_does_not_tell() -> None:
    assert totals_before(()) is None
    assert totals_before(turn()[:3]) is None
    assert totals_before(turn()) is None


def test_of_more_failed_turns_than_are_named_nothing_is_kept() -> None:
    many = NO_TOTALS
    for number in range(FAILED_KEPT_MAX + 1):
        many = many.and_one(named(number), turn(Outcome.CANCELLED, spent=None))
    last = turn()
    kept = many.kept_in(last[-1])
    assert totals_before((*last[:-1], kept)) is None
    assert structs.replace(last[-1]) == kept


LIVES = st.tuples(
    st.sampled_from([Outcome.OK, Outcome.CANCELLED, Outcome.PROCESS_DIED]),
    st.none() | st.integers(min_value=0, max_value=10**9),
    st.integers(min_value=0, max_value=2),
)


@given(st.lists(LIVES, max_size=12))
def test_what_an_end_keeps_is_what_reading_all_turns_before_it_says(
    lives: list[tuple[Outcome, int | None, int]],
) -> None:
    every = NO_TOTALS
    for number, (outcome, spent, calls_open) in enumerate(lives):
        events = turn(outcome, spent=spent, calls_open=calls_open)
        kept = every.kept_in(events[-1])
        assert totals_before((*events[:-1], kept)) == every
        every = every.and_one(named(number), events)
    assert every == Totals(
        turns=len(lives),
        spent=Tokens(
            count=sum(spent or 0 for _, spent, _ in lives),
            is_estimate=any(spent is None for _, spent, _ in lives),
        ),
        failed=tuple(
            named(number)
            for number, (outcome, _, calls_open) in enumerate(lives)
            if outcome is not Outcome.OK or calls_open
        ),
    )


# --- figure by figure: what one request did not tell, no sum pretends to know -------------------


def asked(read: int, *, cached: int | None = None, written: int | None = 5) -> UsageReported:
    return UsageReported(
        upstream_session_id=UpstreamSessionId("ses_1"),
        tokens_used=None,
        tokens_read=read,
        tokens_written=written,
        tokens_cached=cached,
        tokens_cache_written=None if cached is None else read - cached,
    )


def test_requests_are_added_and_the_first_one_of_the_session_itself_is_kept():
    usage = with_request(NO_USAGE, asked(40, cached=10), is_own=False)
    usage = with_request(usage, asked(100, cached=90), is_own=True)
    usage = with_request(usage, asked(110, cached=100), is_own=True)
    sums = Usage(requests=3, read=250, written=15, cached=200, cache_written=50)
    assert usage == structs.replace(sums, first_read=100, first_cached=90)


ONE = with_request(NO_USAGE, asked(100, cached=90), is_own=True)


def test_a_sum_is_not_told_once_one_request_was_not():
    usage = with_request(ONE, asked(10, written=None), is_own=False)
    assert usage == Usage(requests=2, read=110, first_read=100, first_cached=90)


def test_an_agent_that_tells_only_a_sum_has_no_requests():
    assert usage_of_prompt(NO_USAGE, read=900, written=100) == Usage(read=900, written=100)
    assert usage_of_prompt(NO_USAGE, read=None, written=None) is None
    counted = with_request(NO_USAGE, asked(100), is_own=True)
    assert usage_of_prompt(counted, read=900, written=100) == counted


def test_of_a_prompt_that_was_cut_off_only_its_first_request_is_known():
    assert unfinished(ONE) == Usage(requests=1, first_read=100, first_cached=90)


def test_prompts_of_one_turn_are_added_and_nothing_adds_nothing():
    two = with_request(NO_USAGE, asked(200, cached=0), is_own=True)
    both = together(ONE, two)
    assert both is not None
    assert (both.read, both.first_read, both.first_cached) == (300, 100, 90)
    assert together(None, ONE) == together(ONE, None) == ONE
    assert together(None, None) is None
