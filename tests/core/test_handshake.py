from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import upthread.core.handshake as handshake_module
from upthread.core.codec import encode_json
from upthread.core.handshake import (
    DECISIONS,
    FIRST,
    REFUSE,
    RESUME,
    RESUME_WITH_REPLAY,
    RESUME_WITH_UPDATE,
    RULES,
    START_FRESH,
    HandshakeInputs,
    decide,
    in_words,
)
from upthread.core.rollover import LOST, ROLLOVER
from upthread.core.types import ConversationId, Outcome

OWN = ConversationId("con_own")
OTHER = ConversationId("con_other")
IDS = st.sampled_from([OWN, OTHER, ConversationId("con_third")])
DIGESTS = st.none() | st.sampled_from(["d1", "d2"])

INPUTS = st.builds(
    HandshakeInputs,
    conversation_id=IDS,
    agent=st.sampled_from(["opencode", "codex"]),
    continuity=st.sampled_from(["resume", "fresh", "auto"]),
    turns=st.integers(0, 3),
    current_agent=st.none() | st.sampled_from(["opencode", "codex"]),
    holder=st.none() | st.just("pid 1 on here"),
    was_interrupted=st.booleans(),
    is_fresh_asked=st.booleans(),
    callers=st.lists(IDS, max_size=4).map(tuple),
    depth_max=st.integers(1, 4),
    session_lost=st.none() | st.sampled_from(list(Outcome)),
    condition_before=DIGESTS,
    condition_now=DIGESTS,
)


def inputs(**changes: object) -> HandshakeInputs:
    """A role with a session that nothing stands against."""
    usual: dict[str, object] = {
        "conversation_id": OWN,
        "agent": "opencode",
        "continuity": "resume",
        "turns": 1,
        "current_agent": "opencode",
    }
    return HandshakeInputs(**{**usual, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "decision", "reason"),
    [
        ({}, RESUME, "unchanged"),
        ({"continuity": "auto"}, RESUME, "unchanged"),
        ({"was_interrupted": True}, RESUME, "interrupted"),
        ({"turns": 0, "current_agent": None}, FIRST, "none_yet"),
        ({"turns": 0}, RESUME, "unchanged"),  # a session that was adopted
        ({"current_agent": None}, RESUME_WITH_REPLAY, "no_session"),
        ({"current_agent": "codex"}, RESUME_WITH_REPLAY, "other_agent"),
        ({"continuity": "fresh"}, START_FRESH, "policy"),
        ({"is_fresh_asked": True}, START_FRESH, "asked"),
        ({"condition_before": "d1", "condition_now": "d2"}, START_FRESH, "input_changed"),
        ({"condition_before": "d1"}, START_FRESH, "input_changed"),
        ({"condition_before": "d1", "condition_now": "d1"}, RESUME, "unchanged"),
        ({"condition_now": "d2"}, RESUME, "unchanged"),
        ({"session_lost": Outcome.MISSING, "current_agent": None}, RESUME_WITH_REPLAY, "missing"),
        ({"holder": "pid 1"}, REFUSE, "busy"),
        ({"callers": (OWN,)}, REFUSE, "own_or_ancestor"),
        ({"callers": (OWN, OTHER)}, REFUSE, "own_or_ancestor"),
        ({"callers": (OTHER,) * 3}, REFUSE, "depth"),
        ({"callers": (OTHER,) * 2}, RESUME, "unchanged"),
        ({"callers": (OTHER,), "depth_max": 1}, REFUSE, "depth"),
    ],
)
def test_each_situation_has_its_decision_and_its_first_reason(
    changes: dict[str, object], decision: str, reason: str
):
    made = decide(inputs(**changes))
    assert (made.decision, made.reasons[0]) == (decision, reason)


def test_a_lost_session_is_told_even_when_no_turn_was_ever_taken_in_it():
    made = decide(inputs(turns=0, current_agent=None, session_lost=Outcome.EXPIRED))
    assert (made.decision, made.reasons[0]) == (RESUME_WITH_REPLAY, "expired")


@pytest.mark.parametrize("outcome", sorted(LOST))
def test_a_session_that_was_given_up_is_replayed_and_the_cause_is_the_reason(outcome: Outcome):
    made = decide(inputs(current_agent=None, session_lost=outcome))
    assert (made.decision, made.reasons) == (RESUME_WITH_REPLAY, (outcome, "no_session"))
    assert in_words(outcome) == ROLLOVER[outcome].says


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - LOST))
def test_only_a_session_that_is_gone_for_certain_is_given_up(outcome: Outcome):
    assert decide(inputs(session_lost=outcome)).decision == RESUME


@given(INPUTS)
def test_every_situation_has_exactly_one_known_decision(given_inputs: HandshakeInputs):
    made = decide(given_inputs)
    assert made.decision in DECISIONS
    assert made.reasons
    assert len(set(made.reasons)) == len(made.reasons)
    assert made == decide(given_inputs)


@given(INPUTS)
def test_a_refusal_comes_before_anything_else_and_tells_the_cure(given_inputs: HandshakeInputs):
    is_refused = (
        given_inputs.conversation_id in given_inputs.callers
        or len(given_inputs.callers) >= given_inputs.depth_max
        or given_inputs.holder is not None
    )
    made = decide(given_inputs)
    assert (made.decision == REFUSE) == is_refused
    assert bool(made.hint) == is_refused


@given(INPUTS)
def test_nothing_is_resumed_when_fresh_was_asked_for(given_inputs: HandshakeInputs):
    if given_inputs.is_fresh_asked or given_inputs.continuity == "fresh":
        assert not decide(given_inputs).decision.startswith("resume")


@given(INPUTS)
def test_nothing_is_resumed_without_an_open_session_of_the_same_agent(
    given_inputs: HandshakeInputs,
):
    if given_inputs.current_agent != given_inputs.agent:
        assert decide(given_inputs).decision not in {RESUME, RESUME_WITH_UPDATE}


@given(INPUTS)
def test_a_conversation_with_turns_is_never_silently_a_first_one(given_inputs: HandshakeInputs):
    if given_inputs.turns:
        assert decide(given_inputs).decision != FIRST


@given(INPUTS)
def test_a_decision_can_be_stored_with_its_inputs(given_inputs: HandshakeInputs):
    made = decide(given_inputs)
    assert made.inputs["agent"] == given_inputs.agent
    assert encode_json(made.inputs)


@given(INPUTS)
def test_further_reasons_are_those_that_lead_to_the_same_decision(given_inputs: HandshakeInputs):
    made = decide(given_inputs)
    by_reason = {rule.reason: rule for rule in RULES}
    assert {by_reason[reason].decision for reason in made.reasons} == {made.decision}
    assert all(by_reason[reason].applies(given_inputs) for reason in made.reasons)


def test_all_reasons_for_a_fresh_session_are_told_the_deciding_one_first():
    changed = {"condition_before": "d1", "condition_now": "d2"}
    made = decide(inputs(is_fresh_asked=True, continuity="fresh", **changed))
    assert made.reasons == ("asked", "policy", "input_changed")


def test_every_reason_has_words_for_a_person():
    assert len({rule.reason for rule in RULES}) == len(RULES)
    assert all(in_words(rule.reason) == rule.says for rule in RULES)
    assert in_words("from_the_future") == "from the future"


def test_refusals_stand_first_in_the_table():
    decisions = [rule.decision for rule in RULES]
    count = decisions.count(REFUSE)
    assert decisions[:count] == [REFUSE] * count
    assert decisions[-1] == RESUME


def test_the_whole_protocol_fits_in_two_hundred_lines():
    source = Path(handshake_module.__file__).read_text(encoding="utf-8")
    assert len(source.splitlines()) < 200
