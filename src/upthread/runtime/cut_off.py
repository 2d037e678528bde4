"""The turn that was cut off last, as the record has it: what was asked, and what came of it.

Blocking reads, nothing written.
"""

from __future__ import annotations

from collections.abc import Sequence

from upthread.core import turn as turns
from upthread.core.cut_off import CutOffTurn
from upthread.core.effects import effects_of
from upthread.core.types import Message, Speaker, TurnId
from upthread.store.base import Store


def cut_off_turn(store: Store, messages: Sequence[Message]) -> CutOffTurn | None:
    """Return what is known of the turn these messages end with, None if it came to its end."""
    turn_id = messages[-1].turn_id if messages else None
    if turn_id is None:
        return None
    view = turns.fold(store.turn_events(turn_id))
    if not view.was_cut_off:
        return None
    own = of_turn(messages, turn_id)
    asked = [message.text for message in own if message.speaker is Speaker.USER]
    return CutOffTurn(
        turn_id=turn_id,
        prompt=asked[0] if asked else "",
        actions=tuple(effect.in_words for effect in effects_of(own)),
        detail=view.ended.detail if view.ended else "",
    )


def of_turn(messages: Sequence[Message], turn_id: TurnId) -> list[Message]:
    """Return the messages of one turn."""
    return [message for message in messages if message.turn_id == turn_id]
