"""Each write, once for every SQL backend: encoded before the transaction, checked and sent in it.

What is a conflict, a gap or the same again is `store._rules`; here is what they look at, and which
statement follows. What a backend does in its own way is a method of `Batch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from upthread.core import commands
from upthread.core.codec import encode_event, encode_json
from upthread.core.runs.pipeline import settles
from upthread.core.types import MAIN_SLOT
from upthread.errors import ConflictError
from upthread.store._rules import check_attempt, is_next, must_equal, must_exist
from upthread.store.sql.batch import Batch, Column, Owner, Step, ToColumns, from_columns
from upthread.store.sql.erasure import erase_conversation, erase_run
from upthread.store.sql.parts import record_parts
from upthread.store.sql.statements import COLUMNS

_columns_of_conversation: Final = attrgetter(
    *(f"key.{name}" if name in COLUMNS["key"] else name for name in COLUMNS["conversation"])
)
_columns_of_identity: Final = attrgetter(*COLUMNS["identity"])
_columns_of_link: Final = attrgetter(*COLUMNS["link"])
_columns_of_file: Final = attrgetter(*COLUMNS["examined"])


def prepared(write: commands.Write, to_columns: ToColumns) -> Step:
    """Encode a write and return what is left to do in the transaction."""
    return _PREPARE[type(write)](write, to_columns)


# --- projects, workstreams, conversations ------------------------------------------------------


def _record_project(write: commands.RecordProject, to_columns: ToColumns) -> Step:
    values = to_columns(write.project_id, *_columns_of_identity(write.identity))

    def apply(batch: Batch) -> None:
        batch.execute("record_project", values)

    return Step(apply)


def _open_workstream(write: commands.OpenWorkstream, to_columns: ToColumns) -> Step:
    given = (write.project_id, write.workstream, write.base_name, write.opened_at_ms)
    values = to_columns(*given)

    def apply(batch: Batch) -> None:
        stored = batch.row("workstream", values[:2])
        if stored is not None:
            return must_equal(stored, given, what=f"workstream {write.workstream!r}")
        # A unique key would stop it, too, but not say who has the name.
        owner = batch.row("workstream_of_base_name", (values[0], values[2]))
        if owner is not None:
            raise ConflictError(
                f"the base name {write.base_name!r} belongs to workstream {owner[0]!r}",
                hint="take another base name",
            )
        return batch.execute("open_workstream", values)

    return Step(apply)


def _open_conversation(write: commands.OpenConversation, to_columns: ToColumns) -> Step:
    new = write.conversation
    key = new.key
    given = _columns_of_conversation(new)
    values = to_columns(*given)

    def apply(batch: Batch) -> None:
        # First: what is there already would be found below as the one that has its key.
        stored = batch.row("conversation", values[:1])
        if stored is not None:
            return must_equal(stored, given, what=f"conversation {new.conversation_id}")
        taken = batch.row("conversation_of_key", values[1:6])
        # Children, slot 0, share a key and are not in each other's way.
        if key.slot >= MAIN_SLOT and taken is not None:
            raise ConflictError(
                f"{key.address} generation {new.generation} is conversation {taken[0]}",
                hint="use that one: resolve again",
            )
        found = batch.row("workstream", values[1:3])
        home = must_exist(found, what="workstream", name=key.workstream)
        must_equal(home[2], new.base_name, what=f"the base name of workstream {key.workstream!r}")
        # Read and not named by the step: nothing is written to it, so PostgreSQL need not lock it.
        parent = new.parent_conversation_id
        if parent is not None:
            must_exist(
                batch.row("conversation", to_columns(parent)), what="conversation", name=parent
            )
        return batch.open("conversation", new.conversation_id, values, given)

    return Step(apply)


# --- links -------------------------------------------------------------------------------------


def _open_link(write: commands.OpenLink, to_columns: ToColumns) -> Step:
    link = write.link
    owner = link.conversation_id
    given = _columns_of_link(link)
    values = to_columns(*given)

    def apply(batch: Batch) -> None:
        conversation = batch.owner("conversation", owner)
        last = batch.number("last_link", (conversation,))
        if is_next(link.seq, last=last, what="link", owner=owner):
            batch.execute("open_link", (conversation, *values))
        else:
            stored = batch.row("link", (conversation, link.seq))
            # Without its end: a link that has ended since it was opened is the same link.
            must_equal(stored, given, what=f"link {link.seq} of {owner}")
        if link.ended_because is not None:
            ended = to_columns(link.ended_because, link.ended_at_ms or 0)
            batch.execute("end_link", (conversation, link.seq, *ended))

    return Step(apply, conversation=owner)


def _end_link(write: commands.EndLink, to_columns: ToColumns) -> Step:
    ended = to_columns(write.ended_because, write.ended_at_ms)

    def apply(batch: Batch) -> None:
        place = (batch.owner("conversation", write.conversation_id), write.seq)
        must_exist(batch.row("link", place), what="link", name=str(write.seq))
        batch.execute("end_link", (*place, *ended))

    return Step(apply, conversation=write.conversation_id)


# --- turns, runs and their events --------------------------------------------------------------


def _open_turn(write: commands.OpenTurn, to_columns: ToColumns) -> Step:
    given = (write.conversation_id, write.run_id, write.opened_at_ms)
    name = to_columns(write.turn_id)

    def apply(batch: Batch) -> None:
        stored = batch.opened("turn", write.turn_id)
        if stored is not None:
            return must_equal(stored, given, what=f"turn {write.turn_id}")
        conversation = batch.owner("conversation", write.conversation_id)
        run = None if write.run_id is None else batch.owner("run", write.run_id)
        return batch.open(
            "turn", write.turn_id, (*name, conversation, run, write.opened_at_ms), given
        )

    return Step(apply, write.conversation_id, write.turn_id, write.run_id)


def _open_run(write: commands.OpenRun, to_columns: ToColumns) -> Step:
    given = (write.project_id, write.workstream, write.opened_at_ms)
    values = to_columns(write.run_id, *given)

    def apply(batch: Batch) -> None:
        stored = batch.opened("run", write.run_id)
        if stored is not None:
            return must_equal(stored, given, what=f"run {write.run_id}")
        home = batch.row("workstream", values[1:3])
        must_exist(home, what="workstream", name=write.workstream)
        return batch.open("run", write.run_id, values, given)

    return Step(apply, run=write.run_id)


def _record_turn_event(write: commands.RecordTurnEvent, to_columns: ToColumns) -> Step:
    append = _append_of("turn", write.turn_id, write, to_columns)

    def apply(batch: Batch) -> None:
        # Looked up for the error alone: the event is appended by the turn's name.
        batch.owner("turn", write.turn_id, within=write.conversation_id)
        append(batch)

    return Step(apply, turn=write.turn_id)


def _record_run_event(write: commands.RecordRunEvent, to_columns: ToColumns) -> Step:
    append = _append_of("run", write.run_id, write, to_columns)

    def apply(batch: Batch) -> None:
        # The same event again has settled what was before it in its own transaction.
        if append(batch) and settles(write.event):
            batch.execute("settle_transitions", (batch.owner("run", write.run_id), write.seq))

    return Step(apply, run=write.run_id)


def _append_of(
    table: Owner,
    name: str,
    write: commands.RecordTurnEvent | commands.RecordRunEvent,
    to_columns: ToColumns,
) -> Callable[[Batch], bool]:
    """Return what appends an event and returns True; False when the same one was there already."""
    kind, payload = encode_event(write.event)
    at_ms = write.recorded_at_ms
    event = (to_columns(kind)[0], payload, at_ms)
    seq = write.seq

    def append(batch: Batch) -> bool:
        # Most often it is next: only when it is not is anything read to compare with.
        if batch.append_event(table, name, seq, event):
            return True
        owner = batch.owner(table, name)
        # For the error of a gap; of what is no gap the place is taken.
        is_next(seq, last=batch.last_event(table, owner), what=f"{table} event", owner=name)
        stored = batch.content_row(f"{table}_event", (owner, seq))
        must_equal(stored, event, what=f"event {seq} of {table} {name}")
        return False

    return append


def _enqueue_transition(write: commands.EnqueueTransition, _to_columns: ToColumns) -> Step:
    def apply(batch: Batch) -> None:
        run = batch.owner("run", write.run_id)
        stored = batch.row("transition", (run, write.run_seq))
        if stored is not None:
            what = f"the transition after event {write.run_seq} of run {write.run_id}"
            # By its time alone: SQLite keeps no queue, and a move leaves it behind.
            return must_equal(stored[0], write.due_at_ms, what=what)
        last, owner = batch.last_event("run", run), write.run_id
        # What it follows must be there; what it leads to may be there already, by another process.
        is_next(write.run_seq + 1, last=last, what="a transition to event", owner=owner)
        return batch.enqueue(run, write)

    return Step(apply, run=write.run_id)


# --- what belongs to no message ----------------------------------------------------------------


def _record_quarantine(write: commands.RecordQuarantine, to_columns: ToColumns) -> Step:
    given = (*to_columns(write.reason), encode_json(write.raw), write.recorded_at_ms)

    def apply(batch: Batch) -> None:
        turn = batch.owner("turn", write.turn_id, within=write.conversation_id)
        place = (turn, write.ordinal)
        stored = batch.content_row("quarantine", place)
        if stored is not None:
            what = f"quarantined event {write.ordinal} of turn {write.turn_id}"
            return must_equal(stored, given, what=what)
        return batch.execute("record_quarantine", (*place, *given))

    return Step(apply, turn=write.turn_id)


def _record_decision(write: commands.RecordDecision, to_columns: ToColumns) -> Step:
    # It has no number of its own to compare by: the statement looks whether the same is there.
    reasons, inputs = encode_json(write.reasons), encode_json(write.inputs)
    given = (*to_columns(write.decision), reasons, inputs, write.decided_at_ms)

    def apply(batch: Batch) -> None:
        conversation = batch.owner("conversation", write.conversation_id)
        batch.execute("record_refusal", (conversation, *given))

    return Step(apply, conversation=write.conversation_id)


def _record_act(write: commands.RecordAct, to_columns: ToColumns) -> Step:
    given = to_columns(write.what, write.by_user, write.detail, write.recorded_at_ms)
    conversation_id, run_id = write.conversation_id, write.run_id

    def apply(batch: Batch) -> None:
        conversation = (
            None if conversation_id is None else batch.owner("conversation", conversation_id)
        )
        run = None if run_id is None else batch.owner("run", run_id)
        batch.execute("record_act", (conversation, run, *given))

    return Step(apply, conversation=conversation_id, run=run_id)


def _record_examined(write: commands.RecordExamined, to_columns: ToColumns) -> Step:
    files = [to_columns(*_columns_of_file(file), write.recorded_at_ms) for file in write.files]
    first = write.first_ordinal

    def apply(batch: Batch) -> None:
        conversation = batch.owner("conversation", write.conversation_id)
        turn = batch.owner("turn", write.turn_id)
        owners = (conversation, batch.upstream(write.upstream_session_id))
        stored = batch.place_files(turn, range(first, first + len(files)))
        for ordinal, file in enumerate(files, first):
            row: tuple[Column, ...] = (*owners, *file)
            if ordinal in stored:
                what = f"examined file {ordinal} of turn {write.turn_id}"
                must_equal(stored[ordinal], row, what=what)
            else:
                batch.execute("record_examined", (turn, ordinal, *row))

    return Step(apply, write.conversation_id, write.turn_id)


def _record_briefing_edit(write: commands.RecordBriefingEdit, _to_columns: ToColumns) -> Step:
    given = (encode_json(write.edit), write.recorded_at_ms)
    owner = write.conversation_id

    def apply(batch: Batch) -> None:
        place = (batch.owner("conversation", owner), write.seq)
        last = batch.number("last_briefing_edit", place[:1])
        if is_next(write.seq, last=last, what="edit of the briefing", owner=owner):
            return batch.execute("record_briefing_edit", (*place, *given))
        stored = batch.content_row("briefing_edit_of_seq", place)
        return must_equal(stored, given, what=f"edit {write.seq} of the briefing of {owner}")

    return Step(apply, conversation=owner)


def _record_once(write: commands.RecordOnce, to_columns: ToColumns) -> Step:
    given = (encode_json(write.receipt), write.recorded_at_ms)
    action = to_columns(write.project_id, write.key)
    attempt = to_columns(write.attempt_id, write.state)

    def apply(batch: Batch) -> None:
        # First: no step could follow itself, and the same again is accepted (S2).
        stored = batch.content_row("once_event", (*action, *attempt))
        if stored is not None:
            return must_equal(stored, given, what=f"{write.state} of the action {write.key!r}")
        last = batch.content_row("once", action)
        check_attempt(write, None if last is None else from_columns(last[:2]))
        return batch.append_attempt(last, (*action, *attempt, *given))

    return Step(apply)


_PREPARE: Final[Mapping[type[Any], Callable[[Any, ToColumns], Step]]] = MappingProxyType(
    {
        commands.RecordProject: _record_project,
        commands.OpenWorkstream: _open_workstream,
        commands.OpenConversation: _open_conversation,
        commands.OpenLink: _open_link,
        commands.EndLink: _end_link,
        commands.OpenTurn: _open_turn,
        commands.RecordParts: record_parts,
        commands.RecordTurnEvent: _record_turn_event,
        commands.OpenRun: _open_run,
        commands.RecordRunEvent: _record_run_event,
        commands.EnqueueTransition: _enqueue_transition,
        commands.RecordQuarantine: _record_quarantine,
        commands.RecordDecision: _record_decision,
        commands.RecordAct: _record_act,
        commands.RecordExamined: _record_examined,
        commands.RecordBriefingEdit: _record_briefing_edit,
        commands.RecordOnce: _record_once,
        commands.EraseConversation: erase_conversation,
        commands.EraseRun: erase_run,
    }
)
