"""What a decision rests on: kept with it and read back, and taken from the record's own rows."""

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.core.decision.test_handshake import INPUTS, inputs

from upthread.core.codec import decode_json, encode_json
from upthread.core.decision.freshness import (
    NOTHING_KNOWN,
    ChangedFile,
    Freshness,
    Shift,
    Surroundings,
)
from upthread.core.decision.handshake import decide
from upthread.core.decision.model import (
    CALLER_DEPTH_MAX,
    AgentLimit,
    HandshakeInputs,
    freshness_in,
    has_looked,
    inputs_from,
    lacking_in,
    limit_in,
    price_in,
    recorded_inputs,
    worth_keeping,
)
from upthread.core.decision.words import NOTHING_PRICED, Price, Tokens
from upthread.core.events import TurnEnded, TurnIntended, TurnParked
from upthread.core.turns.turn import TurnState, TurnView
from upthread.core.types import ConversationId, Link, Outcome
from upthread.testing.store_conformance import samples


def test_what_a_decision_rested_on_is_read_back_from_the_store():
    found = Freshness(
        examined_count=3,
        changed=(ChangedFile(path="a", how="deleted", is_critical=True),),
        changed_count=1,
        critical_count=1,
        branch=Shift(was="main", now=None),
    )
    own = Tokens(count=4, is_estimate=False)
    price = Price(
        resume=Tokens(count=9, is_estimate=True), fixed=own, cache="warm", window_tokens=10
    )
    limit = AgentLimit(reason=Outcome.RATE_LIMITED, until_ms=7)
    here = Surroundings(working_directory="/w", agent="rehearsal")
    decided = decide(inputs(freshness=found, price=price, surroundings=here, agent_limit=limit))
    stored = decode_json(encode_json(decided.inputs))
    assert freshness_in(stored) == found
    assert price_in(stored) == inputs_from(stored).price == price
    assert limit_in(stored) == limit


def test_a_limit_lasts_until_its_time_or_until_the_agent_is_asked():
    named = AgentLimit(reason=Outcome.RATE_LIMITED, until_ms=7)
    assert named.lasts(6)
    assert not named.lasts(7)
    assert AgentLimit(reason=Outcome.CREDIT_EXHAUSTED, until_ms=None).lasts(7)


def test_a_decision_that_was_stored_without_them_rested_on_nothing():
    for stored in (None, {}, []):
        assert freshness_in(stored) == NOTHING_KNOWN
        assert price_in(stored) == NOTHING_PRICED
        assert limit_in(stored) is None


@given(drawn=INPUTS)
def test_inputs_are_read_back_as_they_were_stored_but_for_what_is_looked_at_anew(drawn):
    stored = decode_json(encode_json(dict(worth_keeping(drawn))))
    assert inputs_from(stored) == replace(drawn, freshness=NOTHING_KNOWN, surroundings=None)


def test_whether_it_was_looked_is_known_by_the_surroundings():
    assert has_looked({"surroundings": {}})
    assert not has_looked({"freshness": {}})
    assert not has_looked(None)


def test_what_the_record_lacked_is_read_back_with_the_decision():
    lacking = inputs(turns_lacking=2, not_compared="it cannot be read", turns_gone="turn 3")
    stored = decode_json(encode_json(worth_keeping(lacking)))
    assert lacking_in(stored) == (2, "it cannot be read", "turn 3")
    assert inputs_from(stored).turns_lacking == 2
    assert lacking_in(worth_keeping(inputs())) == lacking_in(None) == (0, "", "")
    assert lacking_in({"turns_lacking": "2", "not_compared": 1}) == (0, "", "")


# --- what the record's own rows say ---------------------------------------------------------------


OWN = samples.CONVERSATION
PARKED = TurnParked(reason="permission", detail="")
INTENDED = TurnIntended(decision="first", reasons=("none_yet",), prompt_seq=1, condition="d1")
LINK = replace(samples.link(), agent="opencode")


def recorded(last: TurnView | None, link: Link | None = LINK, **known: Any) -> HandshakeInputs:
    return recorded_inputs(OWN, link, last, turns=2, other_host="far", **known)


def test_a_conversation_that_never_worked_has_no_session_and_nothing_before_it():
    found = recorded(None, None, continuity="auto", agent="codex")
    assert (found.current_agent, found.condition_before) == (None, None)
    assert (found.was_interrupted, found.depth_max) == (False, CALLER_DEPTH_MAX)


def test_what_the_record_says_and_who_asks_are_inputs():
    view = TurnView(state=TurnState.ENDED, intended=INTENDED, ended=TurnEnded(outcome=Outcome.OK))
    asks = {"callers": (ConversationId("con_2"),), "condition_now": "d2", "holder": "pid 1"}
    found = recorded(view, continuity="resume", agent="codex", **asks)
    assert (found.current_agent, found.agent, found.turns) == ("opencode", "codex", 2)
    assert (found.condition_before, found.condition_now) == ("d1", "d2")
    assert (found.holder, found.other_host, found.continuity) == ("pid 1", "far", "resume")
    assert found.callers == ("con_2",)


@pytest.mark.parametrize(
    ("view", "is_cut_off"),
    [
        (TurnView(state=TurnState.SENT, intended=INTENDED), True),
        (TurnView(state=TurnState.PARKED, parked=PARKED), False),
    ],
)
def test_a_turn_that_was_cut_off_interrupted_what_comes_next(view, is_cut_off):
    found = recorded(view, continuity="auto", agent="opencode")
    assert found.was_interrupted is view.was_cut_off is is_cut_off


@pytest.mark.parametrize("sends", [0, 1])
def test_no_session_heard_of_a_turn_that_was_cut_off_before_its_prompt_left(sends):
    died = TurnEnded(outcome=Outcome.PROCESS_DIED)
    view = TurnView(state=TurnState.ENDED, ended=died, sends=sends)
    found = recorded(view, continuity="auto", agent="opencode")
    assert found.was_unheard is (sends == 0)
