"""Whether a role's last turn has finished, and how: a few words, whatever came after it."""

from __future__ import annotations

import msgspec
import pytest

from upthread.core.events import (
    PromptSent,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)
from upthread.core.roles.reports import Report, ReportedQuestion, Verdict
from upthread.core.runs.stops import NOTHING_SAID
from upthread.core.turns.endings import NO_TURN, UNDER_WAY, Ending, ending_of
from upthread.core.turns.turn import TurnView, fold
from upthread.core.types import Outcome, UpstreamSessionId

SENT: tuple[TurnEvent, ...] = (
    TurnIntended(decision="first", reasons=("none_yet",), prompt_seq=1),
    SessionAttached(upstream_session_id=UpstreamSessionId("ses_1"), how="new", agent="codex"),
    PromptSent(prompt_seq=1, prompts_before=0),
)
APPROVES = Report(status="done", verdict=Verdict(result="approved"))
ASKS = Report(status="needs_input", questions=(ReportedQuestion(id="q1", text="Which?"),))


def turn(*events: TurnEvent) -> TurnView:
    return fold((*SENT, *events))


def ended(report: Report | None = None) -> TurnEnded:
    return TurnEnded(outcome=Outcome.OK, report=msgspec.to_builtins(report) if report else None)


@pytest.mark.parametrize(
    ("report", "how"),
    [
        (None, "finished"),
        (Report(status="done"), "finished: done"),
        (APPROVES, "finished: approved"),
        (ASKS, "finished: it asks"),
        (Report(status="blocked"), "finished: it is blocked"),
    ],
)
def test_a_turn_that_ended_well_has_finished_as_its_report_says(report: Report | None, how: str):
    assert ending_of(turn(ended(report)), is_held=False) == Ending(is_finished=True, how=how)


@pytest.mark.parametrize(
    ("events", "how"),
    [
        ((), "cut off"),
        ((TurnParked(reason="permission", detail="x"),), "stopped: it needs a permission"),
        ((TurnEnded(outcome=Outcome.PROCESS_DIED),), "ended: the agent died"),
        (
            (TurnEnded(outcome=Outcome.OK, detail=NOTHING_SAID),),
            "ended: the agent answered nothing",
        ),
    ],
)
def test_any_other_has_not(events: tuple[TurnEvent, ...], how: str):
    assert ending_of(turn(*events), is_held=False) == Ending(is_finished=False, how=how)


def test_what_is_under_way_or_was_never_asked_is_neither():
    assert ending_of(turn(ended()), is_held=True) == UNDER_WAY
    assert ending_of(None, is_held=True) == UNDER_WAY
    assert ending_of(None, is_held=False) == NO_TURN
