"""What turns took: as reported, estimated where it was not, and marked wherever it was not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from upthread.core.decisions import FIRST, RESUME, START_FRESH
from upthread.core.events import PromptSent, RecoveryStarted, TurnEnded, TurnParked
from upthread.core.price import Price, Spending, Tokens
from upthread.core.spending import (
    NOTHING_SPENT,
    Reported,
    added,
    cost_of,
    spending_in_words,
    spent_on_prompt,
    spent_on_turn,
)
from upthread.core.types import Outcome

SENT = PromptSent(prompt_seq=1, prompts_before=0)


def counted(count: int) -> Tokens:
    return Tokens(count=count, is_estimate=False)


def guessed(count: int) -> Tokens:
    return Tokens(count=count, is_estimate=True)


def ended(tokens: int | None, *, is_estimated: bool = False) -> TurnEnded:
    return TurnEnded(outcome=Outcome.OK, tokens_spent=tokens, is_spent_estimated=is_estimated)


def test_what_the_model_read_and_wrote_is_what_a_prompt_took():
    assert spent_on_prompt(Reported(read=900, written=100), characters=4) == counted(1000)


def test_what_the_session_holds_stands_for_it_where_nothing_else_is_reported():
    assert spent_on_prompt(Reported(held=700), characters=4) == guessed(700)
    assert spent_on_prompt(Reported(read=900, held=700), characters=4) == guessed(700)


def test_an_agent_that_reports_nothing_is_estimated_from_the_text():
    assert spent_on_prompt(Reported(), characters=41) == guessed(11)


def test_a_turn_took_what_its_end_and_its_stops_tell():
    parked = TurnParked(reason="permission", detail="", tokens_spent=300)
    assert spent_on_turn([SENT, parked, SENT, ended(200)]) == counted(500)
    assert spent_on_turn([SENT, ended(200, is_estimated=True)]) == guessed(200)


def test_what_else_happens_in_a_turn_takes_nothing():
    assert spent_on_turn([RecoveryStarted(holder="host"), SENT, ended(200)]) == counted(200)


def test_a_turn_whose_prompt_left_and_told_nothing_is_marked():
    assert spent_on_turn([SENT]) == guessed(0)
    assert spent_on_turn([SENT, ended(None)]) == guessed(0)


def test_a_turn_whose_prompt_never_left_took_nothing():
    assert spent_on_turn([ended(None)]) == NOTHING_SPENT
    assert spent_on_turn([]) == NOTHING_SPENT


@given(st.lists(st.builds(Tokens, count=st.integers(0, 9), is_estimate=st.booleans())))
def test_a_sum_is_marked_as_soon_as_one_of_it_is(spent):
    total = added(spent)
    assert total.count == sum(each.count for each in spent)
    assert total.is_estimate == any(each.is_estimate for each in spent)


def test_a_turn_costs_what_its_decision_gives_the_model():
    price = Price(resume=counted(40_000), briefing=guessed(2_000))
    assert cost_of(RESUME, price) == counted(40_000)
    assert cost_of(FIRST, price) == cost_of(START_FRESH, price) == guessed(2_000)


def test_nothing_more_is_spent_when_all_is_spent_or_the_next_turn_would_pass_it():
    assert Spending(tokens_max=10, spent=counted(10)).is_over
    assert not Spending(tokens_max=10, spent=counted(9)).is_over
    assert Spending(tokens_max=10, spent=counted(9), next_turn=guessed(2)).is_over
    assert not Spending(tokens_max=10, spent=counted(8), next_turn=guessed(2)).is_over


def test_the_words_say_what_is_used_and_what_the_turn_would_take():
    spent = Spending(tokens_max=50_000, spent=guessed(51_000))
    assert spending_in_words(spent) == "~51k of at most 50000 tokens"
    near = Spending(tokens_max=50_000, spent=counted(41_000), next_turn=guessed(12_000))
    assert spending_in_words(near) == (
        "41k of at most 50000 tokens are used, and the turn would take ~12k or more"
    )
