"""The events of a turn or run without their times, and what they fold to. Blocking reads."""

from __future__ import annotations

from upthread.core.events import RunEvent, TurnEvent
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import RunView
from upthread.core.turns import turn as turns
from upthread.core.turns.turn import TurnView
from upthread.core.types import RunId, TurnId
from upthread.store.base import Store


def turn_events(store: Store, turn_id: TurnId) -> tuple[TurnEvent, ...]:
    """Return a turn's events in order; empty for an unknown turn."""
    return tuple([each.event for each in store.turn_events(turn_id)])


def turn_view(store: Store, turn_id: TurnId) -> TurnView:
    """Return the view of a turn."""
    return turns.fold(turn_events(store, turn_id))


def run_events(store: Store, run_id: RunId) -> tuple[RunEvent, ...]:
    """Return a run's events in order; empty for an unknown run."""
    return tuple([each.event for each in store.run_events(run_id)])


def run_view(store: Store, run_id: RunId) -> RunView:
    """Return the view of a run."""
    return pipelines.fold(run_events(store, run_id))
