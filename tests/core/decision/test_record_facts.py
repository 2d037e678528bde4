import pytest

from upthread.core.decision.model import CALLER_DEPTH_MAX
from upthread.core.decision.record_facts import RecordFacts
from upthread.core.events import TurnEnded, TurnIntended, TurnParked
from upthread.core.roles.role import Role
from upthread.core.turns.turn import TurnState, TurnView
from upthread.core.types import ConversationId, Link, Outcome, UpstreamSessionId

OWN = ConversationId("con_1")
PARKED = TurnParked(reason="permission", detail="")
INTENDED = TurnIntended(decision="first", reasons=("none_yet",), prompt_seq=1, condition="d1")
LINK = Link(
    conversation_id=OWN,
    seq=1,
    upstream_session_id=UpstreamSessionId("ses_1"),
    agent="opencode",
    agent_version="",
    working_directory="/w",
    opened_because="none_yet",
    opened_at_ms=0,
)


def facts(last: TurnView | None, link: Link | None = LINK) -> RecordFacts:
    return RecordFacts(conversation_id=OWN, turns=2, link=link, last=last, other_host="far")


def test_a_conversation_that_never_worked_has_no_session_and_nothing_before_it():
    inputs = facts(None, link=None).inputs(role=Role(name="planner"), agent="codex")
    assert (inputs.current_agent, inputs.condition_before, inputs.was_interrupted) == (
        None,
        None,
        False,
    )
    assert inputs.depth_max == CALLER_DEPTH_MAX


def test_what_the_record_says_and_who_asks_are_inputs():
    view = TurnView(state=TurnState.ENDED, intended=INTENDED, ended=TurnEnded(outcome=Outcome.OK))
    inputs = facts(view).inputs(
        role=Role(name="planner", continuity="resume"),
        agent="codex",
        callers=(ConversationId("con_2"),),
        condition_now="d2",
        holder="pid 1",
    )
    assert (inputs.current_agent, inputs.agent, inputs.turns) == ("opencode", "codex", 2)
    assert (inputs.condition_before, inputs.condition_now) == ("d1", "d2")
    assert (inputs.holder, inputs.other_host, inputs.continuity) == ("pid 1", "far", "resume")
    assert inputs.callers == ("con_2",)


@pytest.mark.parametrize(
    ("view", "is_cut_off"),
    [
        (TurnView(state=TurnState.SENT, intended=INTENDED), True),
        (TurnView(state=TurnState.ENDED, ended=TurnEnded(outcome=Outcome.PROCESS_DIED)), True),
        (TurnView(state=TurnState.ENDED, ended=TurnEnded(outcome=Outcome.CANCELLED)), False),
        (
            TurnView(state=TurnState.PARKED, parked=TurnParked(reason="permission", detail="")),
            False,
        ),
    ],
)
def test_a_turn_was_cut_off_when_it_is_open_or_its_process_died(view, is_cut_off):
    assert view.was_cut_off is is_cut_off
    inputs = facts(view).inputs(role=Role(name="planner"), agent="opencode")
    assert inputs.was_interrupted is is_cut_off


@pytest.mark.parametrize("sends", [0, 1])
def test_no_session_heard_of_a_turn_that_was_cut_off_before_its_prompt_left(sends):
    died = TurnEnded(outcome=Outcome.PROCESS_DIED)
    view = TurnView(state=TurnState.ENDED, ended=died, sends=sends)
    inputs = facts(view).inputs(role=Role(name="planner"), agent="opencode")
    assert inputs.was_unheard is (sends == 0)
