"""What was spent so far: by a run over all its processes, in a conversation over all its turns."""

from __future__ import annotations

from upthread.core.decision.price import Tokens
from upthread.core.events import StepStarted
from upthread.core.turns.spent_tokens import added, spent_on_turn
from upthread.core.types import ConversationId, RunId, TurnId
from upthread.store.base import Store


def spent_on_run(store: Store, run_id: RunId) -> Tokens:
    """Return what the turns of a run took. Blocking."""
    steps = (each for each in store.run_events(run_id) if isinstance(each, StepStarted))
    turn_ids = dict.fromkeys(TurnId(step.turn_id) for step in steps)
    return added(spent_on_turn(store.turn_events(turn_id)) for turn_id in turn_ids)


def spent_in_conversation(store: Store, conversation_id: ConversationId) -> Tokens:
    """Return what the turns of a conversation took. Blocking."""
    turns = store.turns(conversation_id)
    return added(spent_on_turn(store.turn_events(turn.turn_id)) for turn in turns)
