from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from upthread.core import plain_case
from upthread.core.decisions import Continuity, HandshakeInputs
from upthread.core.freshness import Freshness
from upthread.core.handshake import FIRST, RESUME, START_FRESH, decide
from upthread.core.plain_case import plain_decision
from upthread.core.types import ConversationId, Outcome


@given(
    turns=st.integers(0, 2),
    current_agent=st.sampled_from([None, "opencode", "claude-code"]),
    continuity=st.sampled_from(get_args(Continuity)),
    is_fresh_asked=st.booleans(),
    failed=st.sampled_from([None, Outcome.MISSING, Outcome.CONTEXT_FULL]),
    was_interrupted=st.booleans(),
    condition=st.sampled_from([(None, None), (None, "a"), ("a", "a"), ("a", "b"), ("a", None)]),
    changed_count=st.integers(0, 7),
)
def test_wherever_it_answers_the_whole_table_says_the_same(
    turns,
    current_agent,
    continuity,
    is_fresh_asked,
    failed,
    was_interrupted,
    condition,
    changed_count,
):
    plain = plain_decision(
        turns=turns,
        agent="opencode",
        current_agent=current_agent,
        continuity=continuity,
        is_fresh_asked=is_fresh_asked,
        has_failed=failed is not None,
        was_interrupted=was_interrupted,
        has_condition_changed=condition[0] is not None and condition[0] != condition[1],
        has_moved=changed_count > 0,
    )
    whole = decide(
        HandshakeInputs(
            conversation_id=ConversationId("con_1"),
            agent="opencode",
            continuity=continuity,
            turns=turns,
            current_agent=current_agent,
            is_fresh_asked=is_fresh_asked,
            session_lost=failed,
            was_interrupted=was_interrupted,
            condition_before=condition[0],
            condition_now=condition[1],
            freshness=Freshness(changed_count=changed_count),
        )
    )
    if plain is not None:
        assert plain == (whole.decision, whole.reasons[0])


def test_it_answers_the_usual_case_and_leaves_what_moved_to_the_table():
    usual = {
        "turns": 3,
        "agent": "opencode",
        "current_agent": "opencode",
        "continuity": "resume",
        "is_fresh_asked": False,
        "has_failed": False,
        "was_interrupted": False,
        "has_condition_changed": False,
        "has_moved": False,
    }
    assert plain_decision(**usual) == (plain_case.RESUME, "unchanged")
    for doubt in ("has_failed", "was_interrupted", "has_condition_changed", "has_moved"):
        assert plain_decision(**{**usual, doubt: True}) is None
    assert plain_decision(**{**usual, "current_agent": "claude-code"}) is None


def test_its_words_are_the_handshakes():
    words = (plain_case.FIRST, plain_case.RESUME, plain_case.START_FRESH)
    assert words == (FIRST, RESUME, START_FRESH)
