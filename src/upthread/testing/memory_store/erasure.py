"""Erasing in memory: content replaced by nothing. What an event keeps is the core's word."""

from __future__ import annotations

from collections.abc import Sequence

from upthread.core.codec import (
    decode_run_event,
    decode_turn_event,
    encode_event,
    encode_json,
)
from upthread.core.commands import EraseConversation, EraseRun
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.record_policy import NO_EDIT, forgotten, forgotten_receipt, without_text
from upthread.store._rules import is_before, must_exist
from upthread.testing.memory_store.tables import StoredEvent, Tables, digest_in


def erase_conversation(tables: Tables, write: EraseConversation) -> None:
    """Forget a conversation. NotFoundError leaves the tables as they were."""
    conversation_id, before_ms = write.conversation_id, write.before_ms
    must_exist(tables.conversations.get(conversation_id), what="conversation", name=conversation_id)
    tables.parts[conversation_id] = tuple(
        part._replace(content=None, digest=digest_in(part), erased_bytes=len(part.content))
        if isinstance(part.content, bytes) and is_before(part.header.recorded_at_ms, before_ms)
        else part
        for part in tables.parts.get(conversation_id, ())
    )
    own = [
        each.turn_id for each in tables.turns.values() if each.conversation_id == conversation_id
    ]
    for turn_id in own:
        stored = tables.turn_events.get(turn_id, ())
        told = tuple(without_text(decode_turn_event(each.kind, each.payload)) for each in stored)
        tables.turn_events[turn_id] = _retold(stored, told, before_ms)
    for place, event in tables.quarantine.items():
        if place[0] in own and is_before(event.recorded_at_ms, before_ms):
            tables.quarantine[place] = event._replace(raw=encode_json(None))
    tables.briefing_edits[conversation_id] = tuple(
        kept._replace(edit=encode_json(NO_EDIT))
        if is_before(kept.recorded_at_ms, before_ms)
        else kept
        for kept in tables.briefing_edits.get(conversation_id, ())
    )
    tables.examined = {
        place: known
        for place, known in tables.examined.items()
        if known.conversation_id != conversation_id
        or not is_before(known.recorded_at_ms, before_ms)
    }
    is_gone = all(part.content is None for part in tables.parts.get(conversation_id, ()))
    for key, steps in tables.once.items():
        tables.once[key] = tuple(
            step._replace(receipt=forgotten_receipt(step.receipt, conversation_id))
            if is_gone or is_before(step.recorded_at_ms, before_ms)
            else step
            for step in steps
        )


def erase_run(tables: Tables, write: EraseRun) -> None:
    """Forget a run, or what one role said in it."""
    must_exist(tables.runs.get(write.run_id), what="run", name=write.run_id)
    stored = tables.run_events.get(write.run_id, ())
    events = [decode_run_event(each.kind, each.payload) for each in stored]
    told = forgotten(events, write.role)
    tables.run_events[write.run_id] = _retold(stored, told, write.before_ms)


def _retold(
    stored: tuple[StoredEvent, ...],
    told: Sequence[TurnEvent | RunEvent],
    before_ms: int | None,
) -> tuple[StoredEvent, ...]:
    return tuple(
        old._replace(payload=encode_event(new)[1])
        if is_before(old.recorded_at_ms, before_ms)
        else old
        for old, new in zip(stored, told, strict=True)
    )
