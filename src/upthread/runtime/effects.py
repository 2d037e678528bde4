"""Recorded effects: what the agents of a workstream did to the world, read from the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upthread.core.effects import Effect, effects_of
from upthread.core.types import Conversation
from upthread.store.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEffect:
    """An effect and the conversation it belongs to, a child's own one included."""

    conversation: Conversation
    effect: Effect


def recorded_effects(
    store: Store, conversations: Sequence[Conversation], *, outward_patterns: Sequence[str]
) -> tuple[RecordedEffect, ...]:
    """Return the effects of conversations, one after the other, each in order. Blocking."""
    return tuple(
        RecordedEffect(conversation=conversation, effect=effect)
        for conversation in conversations
        for effect in effects_of(
            store.messages(conversation.conversation_id), outward_patterns=outward_patterns
        )
    )
