"""What tells a decision is found to tell it, and no other one."""

import pytest
from tests.support.decisions_told import decisions_told

from upthread.core.decision.handshake import RULES
from upthread.core.decision.words import (
    NO_WORKSTREAM,
    NOT_RESUMED,
    RESUME,
    decision_line,
    done_in_words,
)

DECISIONS = sorted({rule.decision for rule in RULES})


@pytest.mark.parametrize("session", [None, "ses_1"])
@pytest.mark.parametrize("decision", DECISIONS)
def test_a_line_tells_its_own_decision_and_no_other(decision, session):
    line = decision_line("w/planner", decision, session, turn_number=2, because="why", cost="")
    assert decisions_told(line) == decisions_told(line.encode()) == [decision]
    assert decisions_told(f"{line}\n{done_in_words(RESUME, None)}") == [decision, RESUME]


def test_what_was_not_done_is_not_told():
    assert decisions_told(f"{NO_WORKSTREAM}\n{NOT_RESUMED}") == []
    assert decisions_told("") == []
