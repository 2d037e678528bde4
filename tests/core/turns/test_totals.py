"""What a conversation's turns came to, added up at each end, is what reading all of them says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from upthread.core.decision.price import Tokens
from upthread.core.events import (
    PromptSent,
    RecoveryStarted,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
)
from upthread.core.turns import turn as turns
from upthread.core.turns.spent_tokens import (
    FAILED_KEPT_MAX,
    NO_TOTALS,
    Totals,
    ended_well,
    totals_before,
)
from upthread.core.types import Outcome, TurnId, UpstreamSessionId

INTENDED = TurnIntended(decision="resume", reasons=("unchanged",), prompt_seq=1)
ATTACHED = SessionAttached(upstream_session_id=UpstreamSessionId("ses"), how="resumed", agent="a")
SENT = PromptSent(prompt_seq=1)


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
    kept = structs.replace(last[-1], **many.as_before())
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
        kept = structs.replace(events[-1], **every.as_before())
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
