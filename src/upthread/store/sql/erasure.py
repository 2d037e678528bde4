"""Erasing: content out of the tables. What an event keeps is the core's word.

A row that was changed may leave its old version behind; `scrub` of a backend sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from upthread.core.codec import decode_run_event, decode_turn_event, encode_event, encode_json
from upthread.core.commands import EraseConversation, EraseRun
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.record_policy import NO_EDIT, forgotten, forgotten_receipt, without_text
from upthread.store._rules import is_before
from upthread.store.sql.batch import Batch, Row, Step, ToColumns, from_columns

# JSON, and not NULL: what is left is read by the same decoder as what is whole.
_NOTHING: Final = encode_json(None)
_NO_EDIT: Final = encode_json(NO_EDIT)


def erase_conversation(write: EraseConversation, _to_columns: ToColumns) -> Step:
    """Return the step that erases what a conversation said before a time, None: all of it (S26)."""
    before_ms = write.before_ms

    def apply(batch: Batch) -> None:
        conversation = batch.owner("conversation", write.conversation_id)
        batch.execute("erase_parts", (conversation, before_ms))
        batch.execute("erase_quarantined", (conversation, before_ms, _NOTHING))
        batch.execute("erase_examined", (conversation, before_ms))
        batch.execute("erase_briefing_edits", (conversation, before_ms, _NO_EDIT))
        # Read to be retold: text stands within a payload, which no statement can open.
        stored = batch.content_rows("turn_events_to_erase", (conversation,))
        told = [without_text(decode_turn_event(*_kind_and_payload(row))) for row in stored]
        _retell(batch, "change_turn_event", zip(stored, told, strict=True), before_ms)
        for *place, receipt in batch.content_rows("receipts_to_erase", (conversation, before_ms)):
            left = forgotten_receipt(receipt, write.conversation_id)
            batch.execute("change_receipt", (*place, left))

    return Step(apply, conversation=write.conversation_id)


def erase_run(write: EraseRun, _to_columns: ToColumns) -> Step:
    """Return the step that erases what one role, or every role, said in a run before a time."""

    def apply(batch: Batch) -> None:
        stored = batch.content_rows("run_events_to_erase", (batch.owner("run", write.run_id),))
        events = [decode_run_event(*_kind_and_payload(row)) for row in stored]
        # Of all events, whatever their time: whose an answer is, a question before it tells.
        told = forgotten(events, write.role)
        _retell(batch, "change_run_event", zip(stored, told, strict=True), write.before_ms)

    return Step(apply, run=write.run_id)


def _kind_and_payload(row: Row) -> tuple[str, bytes]:
    # Before them is the place: one column on SQLite, two on PostgreSQL.
    *_, kind, payload, _ = row
    return from_columns((kind,))[0], payload


def _retell(
    batch: Batch,
    query: str,
    events: Iterable[tuple[Row, TurnEvent | RunEvent]],
    before_ms: int | None,
) -> None:
    for (*place, _, payload, recorded_at_ms), event in events:
        _, retold = encode_event(event)
        # What has no text is left alone: a row that is changed leaves its old self for `scrub`.
        if is_before(recorded_at_ms, before_ms) and retold != payload:
            batch.execute(query, (*place, retold))
