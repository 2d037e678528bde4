"""Endings: whether a role's last turn has finished, and how, in a few words.

A state says what somebody has to do; this says what became of the last prompt, whatever came after
it. Words of strangers are in neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from upthread.core.events import TurnEnded
from upthread.core.roles.reports import Report
from upthread.core.runs.stops import shortfall, stop_in_words
from upthread.core.turns.turn import TurnView
from upthread.core.types import Outcome


class Ending(Struct, frozen=True, kw_only=True):
    """What became of a turn. `is_finished` is None where there was none, or it is under way."""

    is_finished: bool | None
    how: str


NO_TURN: Final = Ending(is_finished=None, how="no turn yet")
UNDER_WAY: Final = Ending(is_finished=None, how="under way")

_REPORTED: Final[Mapping[str, str]] = {
    "done": "finished: done",
    "needs_input": "finished: it asks",
    "blocked": "finished: it is blocked",
}


def ending_of(turn: TurnView | None, *, is_held: bool) -> Ending:
    """Return what became of a role's last turn; `is_held` while a living process is at it."""
    # First: a turn that a process is at has no end yet, whatever its last event says.
    if is_held:
        return UNDER_WAY
    if turn is None:
        return NO_TURN
    if turn.ended is not None:
        return _of_end(turn.ended)
    if turn.parked is not None:
        parked = stop_in_words(turn.parked.reason, turn.parked.detail)
        return Ending(is_finished=False, how=f"stopped: {parked.said}")
    return Ending(is_finished=False, how="cut off")


def _of_end(ended: TurnEnded) -> Ending:
    # An end without an answer is none, whatever its agent calls it.
    missing = shortfall(ended.outcome, ended.detail)
    if ended.outcome is not Outcome.OK or missing is not None:
        stop = missing or stop_in_words(ended.outcome, ended.detail)
        return Ending(is_finished=False, how=f"ended: {stop.said}")
    if ended.report is None:
        return Ending(is_finished=True, how="finished")
    report = msgspec.convert(ended.report, Report)
    if report.status == "done" and report.verdict is not None:
        return Ending(is_finished=True, how=f"finished: {report.verdict.result}")
    return Ending(is_finished=True, how=_REPORTED[report.status])
