"""The events of a turn or run without their times, and what they fold to. Blocking reads."""

from __future__ import annotations

from upthread.core.events import RunEvent, TurnEvent
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import RunView
from upthread.core.turns import turn as turns
from upthread.core.turns.turn import TurnView
from upthread.core.types import ConversationId, ProjectId, RunId, TurnId
from upthread.store.base import Store


def turn_events(
    store: Store, conversation_id: ConversationId, turn_id: TurnId
) -> tuple[TurnEvent, ...]:
    """Return the events of a conversation's turn in order; empty for an unknown turn."""
    return tuple([each.event for each in store.turn_events(conversation_id, turn_id)])


def turn_view(store: Store, conversation_id: ConversationId, turn_id: TurnId) -> TurnView:
    """Return the view of a conversation's turn."""
    return turns.fold(turn_events(store, conversation_id, turn_id))


def events_by_turn(store: Store, project_id: ProjectId, turn_id: TurnId) -> tuple[TurnEvent, ...]:
    """Return a turn's events as `turn_events` does, whatever conversation of a project has it."""
    owner = store.owner(project_id, turn_id=turn_id)
    return turn_events(store, owner.conversation_id, turn_id) if owner else ()


def run_events(store: Store, run_id: RunId) -> tuple[RunEvent, ...]:
    """Return a run's events in order; empty for an unknown run."""
    return tuple([each.event for each in store.run_events(run_id)])


def run_view(store: Store, run_id: RunId) -> RunView:
    """Return the view of a run."""
    return pipelines.fold(run_events(store, run_id))
