"""Erasing: content out of the tables. What an event keeps is the core's word.

A row that was changed leaves its old version behind until the table is written anew: `scrub` in
store.py. The server's write-ahead log and its backups are not reached from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from upthread.core.codec import (
    decode_run_event,
    decode_text,
    decode_turn_event,
    encode_event,
    encode_json,
    encode_text,
)
from upthread.core.commands import EraseConversation, EraseRun
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.keeping import NO_EDIT, forgotten, without_text
from upthread.store._rules import is_before
from upthread.store.postgres.batch import Batch, Step
from upthread.store.postgres.columns import Row

_NOTHING: Final = encode_json(None)
_NO_EDIT: Final = encode_json(NO_EDIT)


def erase_conversation(write: EraseConversation) -> Step:
    """Return what forgets a conversation in the transaction."""
    conversation, before_ms = encode_text(write.conversation_id), write.before_ms

    def apply(batch: Batch) -> None:
        batch.tail_of(conversation)
        batch.execute("erase_parts", (conversation, before_ms))
        batch.execute("erase_quarantined", (conversation, before_ms, _NOTHING))
        batch.execute("erase_examined", (conversation, before_ms))
        batch.execute("erase_briefing_edits", (conversation, before_ms, _NO_EDIT))
        stored = batch.content_rows("turn_events_to_erase", (conversation,))
        told = [
            without_text(decode_turn_event(decode_text(kind), payload))
            for _, _, kind, payload, _ in stored
        ]
        _retell(batch, "change_turn_event", zip(stored, told, strict=True), before_ms)

    return Step(apply=apply, conversation=conversation)


def erase_run(write: EraseRun) -> Step:
    """Return what forgets a run in the transaction."""
    run = encode_text(write.run_id)

    def apply(batch: Batch) -> None:
        batch.run_of(run)
        stored = batch.content_rows("run_events_to_erase", (run,))
        events = [decode_run_event(decode_text(kind), payload) for _, _, kind, payload, _ in stored]
        told = forgotten(events, write.role)
        _retell(batch, "change_run_event", zip(stored, told, strict=True), write.before_ms)

    return Step(apply=apply, run=run)


def _retell(
    batch: Batch,
    query: str,
    events: Iterable[tuple[Row, TurnEvent | RunEvent]],
    before_ms: int | None,
) -> None:
    for (owner, seq, _, payload, recorded_at_ms), event in events:
        _, retold = encode_event(event)
        if is_before(recorded_at_ms, before_ms) and retold != payload:
            batch.execute(query, (owner, seq, retold))
