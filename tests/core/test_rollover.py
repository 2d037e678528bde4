"""Rollover: every outcome has its row, and only a positive word closes a link."""

from __future__ import annotations

import pytest

from upthread.core.rollover import (
    GONE,
    POISON_DETECTORS,
    ROLLOVER,
    PoisonSigns,
    Recovery,
    poison,
)
from upthread.core.types import Outcome


def test_every_outcome_has_one_row():
    assert set(ROLLOVER) == set(Outcome)


@pytest.mark.parametrize("outcome", [Outcome.RATE_LIMITED, Outcome.CREDIT_EXHAUSTED])
def test_a_limit_leaves_the_session_resumable_and_waits(outcome):
    assert ROLLOVER[outcome].keeps_session
    assert ROLLOVER[outcome].recovery is Recovery.WAIT


def test_only_what_rolls_over_or_relays_closes_the_link():
    closing = {outcome for outcome, row in ROLLOVER.items() if not row.keeps_session}
    assert closing == GONE | {Outcome.CONTEXT_FULL}
    assert Outcome.UNKNOWN not in closing


def signs(**changes: object) -> PoisonSigns:
    known: dict[str, object] = {
        "was_interrupted": False,
        "prompt_characters": 100,
        "duration_s": 5.0,
        "tokens_in": 5_000,
        "tokens_out": 50,
    }
    return PoisonSigns(**{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("turn", "detector"),
    [
        (signs(), None),
        (signs(was_interrupted=True, tokens_in=20), "interrupt_replay"),
        (signs(was_interrupted=True, tokens_in=21), None),
        (signs(was_interrupted=True, tokens_in=20, prompt_characters=50), None),
        (signs(was_interrupted=True, tokens_in=None), None),
        (signs(duration_s=0.049, tokens_in=20), "deferred_replay"),
        (signs(duration_s=0.05, tokens_in=20), None),
        (signs(duration_s=0.01, tokens_in=20, tokens_out=0), None),
        (signs(is_reply_empty=True), None),
    ],
)
def test_detectors_fire_at_their_thresholds_and_nowhere_else(turn, detector):
    assert poison(turn) == detector


def test_an_empty_reply_is_poison_only_where_somebody_says_so():
    (empty,) = (row for row in POISON_DETECTORS if row.name == "empty_reply")
    assert not empty.is_on
