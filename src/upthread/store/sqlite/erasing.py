"""Erasing: content out of the tables, then out of the file. What an event keeps is the core's word.

Within a transaction content becomes NULL, and SQLite overwrites what it frees (`secure_delete`).
That leaves the log, and what b-trees have moved about before: `scrub` writes the database anew and
empties the log, so that no file holds what was erased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from upthread.core.codec import decode_run_event, decode_turn_event, encode_event, encode_json
from upthread.core.commands import EraseConversation, EraseRun
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.keeping import NO_EDIT, forgotten, without_text
from upthread.errors import StoreError
from upthread.store._rules import is_before
from upthread.store.sqlite.batch import Batch
from upthread.store.sqlite.database import Database, Row

_NOTHING: Final = encode_json(None)
_NO_EDIT: Final = encode_json(NO_EDIT)
_TEMPORARY_FILE: Final = 1
_TEMPORARY_MEMORY: Final = 2


def prepare_erase_conversation(write: EraseConversation) -> Callable[[Batch], None]:
    """Return what forgets a conversation under the lock."""
    before_ms = write.before_ms

    def apply(batch: Batch) -> None:
        conversation = batch.row_of("conversation", write.conversation_id)
        batch.execute("erase_parts", (conversation, before_ms))
        batch.execute("erase_quarantined", (conversation, before_ms, _NOTHING))
        batch.execute("erase_examined", (conversation, before_ms))
        batch.execute("erase_briefing_edits", (conversation, before_ms, _NO_EDIT))
        stored = batch.rows("turn_events_to_erase", (conversation,))
        told = [without_text(decode_turn_event(kind, payload)) for _, kind, payload, _ in stored]
        _retell(batch, "change_turn_event", zip(stored, told, strict=True), before_ms)

    return apply


def prepare_erase_run(write: EraseRun) -> Callable[[Batch], None]:
    """Return what forgets a run under the lock."""

    def apply(batch: Batch) -> None:
        stored = batch.rows("run_events_to_erase", (batch.row_of("run", write.run_id),))
        events = [decode_run_event(kind, payload) for _, kind, payload, _ in stored]
        told = forgotten(events, write.role)
        _retell(batch, "change_run_event", zip(stored, told, strict=True), write.before_ms)

    return apply


def _retell(
    batch: Batch,
    query: str,
    events: Iterable[tuple[Row, TurnEvent | RunEvent]],
    before_ms: int | None,
) -> None:
    for (row, _, payload, recorded_at_ms), event in events:
        _, retold = encode_event(event)
        if is_before(recorded_at_ms, before_ms) and retold != payload:
            batch.execute(query, (row, retold))


def scrub(database: Database) -> None:
    """Write the database anew and empty its log. StoreError when somebody reads or writes it."""
    with database.worded("scrub"):
        connection = database.connection
        # The copy is as large as what is left: on disk it is a file without a name. The engine
        # would not encrypt that file.
        place = _TEMPORARY_MEMORY if database.is_encrypted else _TEMPORARY_FILE
        connection.pragma("temp_store", str(place))
        try:
            connection.execute("VACUUM")
        finally:
            connection.pragma("temp_store", str(_TEMPORARY_MEMORY))
        ((is_busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if is_busy:
        raise StoreError(
            f"the log of {database.path} still holds what was erased: another process reads it",
            hint="end what uses upthread, then do it again",
        )
