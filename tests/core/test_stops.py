"""Why something does not go on by itself: each reason has words and a cure, and no time in them."""

from __future__ import annotations

import pytest

from upthread.core.rollover import ROLLOVER, Recovery
from upthread.core.stops import (
    LIMITS,
    NO_WORDS,
    NOTHING_SAID,
    REFUSAL,
    shortfall,
    stop_in_words,
)
from upthread.core.types import Outcome


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.OK])
def test_each_failure_of_an_agent_has_words_and_a_cure(outcome: Outcome):
    said, cure = stop_in_words(outcome)
    assert said != str(outcome)
    assert said
    assert cure


def test_what_nobody_has_words_for_stands_for_itself():
    assert stop_in_words("rejected_too_often") == ("rejected too often", "")
    assert stop_in_words("ok") == ("ok", "")


def test_a_limit_is_what_a_turn_waits_for_by_itself():
    waiting = {each for each, row in ROLLOVER.items() if row.recovery is Recovery.WAIT}
    assert waiting == LIMITS


def test_a_turn_that_went_well_without_an_answer_says_so():
    assert shortfall(Outcome.OK, "") is None
    assert shortfall(Outcome.OK, NO_WORDS) is None
    assert shortfall(Outcome.OK, "max_tokens: cut off") is None
    assert shortfall(Outcome.CANCELLED, NOTHING_SAID) is None
    said, detail, cure = shortfall(Outcome.OK, NOTHING_SAID) or ("", "", "")
    assert (said, detail) == ("the agent answered nothing", "")
    assert cure
    said, detail, _ = shortfall(Outcome.OK, f"{REFUSAL}not that") or ("", "", "")
    assert (said, detail) == ("the agent declined to go on", "not that")
