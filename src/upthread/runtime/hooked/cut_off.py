"""Turns that were cut off, as the record has them: what was asked, and what came of it.

Blocking reads, nothing written.
"""

from __future__ import annotations

from collections.abc import Sequence

from upthread.core.turns import turn as turns
from upthread.core.turns.hooked_call import CutOffTurn
from upthread.core.types import Message, Speaker, TurnId
from upthread.store.base import Store


def cut_off_turn(store: Store, messages: Sequence[Message]) -> CutOffTurn | None:
    """Return what is known of the turn these messages end with, None if it came to its end."""
    turn_id = messages[-1].turn_id if messages else None
    if turn_id is None:
        return None
    return _stopped(store, messages, turn_id)


def turns_cut_off(store: Store, messages: Sequence[Message]) -> list[CutOffTurn]:
    """Return what is known of each turn of these messages that was cut off, oldest first."""
    known = dict.fromkeys(each.turn_id for each in messages)
    found = (_stopped(store, messages, turn_id) for turn_id in known)
    return [each for each in found if each is not None]


def _stopped(store: Store, messages: Sequence[Message], turn_id: TurnId) -> CutOffTurn | None:
    view = turns.fold(store.turn_events(turn_id))
    if not view.was_cut_off:
        return None
    from upthread.core.turns.effects import effects_of  # noqa: PLC0415  # it judges commands: late

    own = of_turn(messages, turn_id)
    asked = [message.text for message in own if message.speaker is Speaker.USER]
    return CutOffTurn(
        turn_id=turn_id,
        prompt=next(filter(None, asked), ""),
        actions=tuple(effect.in_words for effect in effects_of(own)),
        detail=view.ended.detail if view.ended else "",
    )


def of_turn(messages: Sequence[Message], turn_id: TurnId) -> list[Message]:
    """Return the messages of one turn."""
    return [message for message in messages if message.turn_id == turn_id]
