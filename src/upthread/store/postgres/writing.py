"""Each write: encoded before the transaction, checked and sent within it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from upthread.core.codec import decode_text, encode_event, encode_json, encode_text, encode_word
from upthread.core.commands import (
    EndLink,
    EnqueueTransition,
    EraseConversation,
    EraseRun,
    OpenConversation,
    OpenLink,
    OpenRun,
    OpenTurn,
    OpenWorkstream,
    RecordAct,
    RecordBriefingEdit,
    RecordDecision,
    RecordExamined,
    RecordOnce,
    RecordParts,
    RecordProject,
    RecordQuarantine,
    RecordRunEvent,
    RecordTurnEvent,
    Write,
)
from upthread.core.examined import ExaminedFile
from upthread.core.queueing import settles
from upthread.core.types import MAIN_SLOT, ConversationId
from upthread.errors import ConflictError
from upthread.store._rules import check_attempt, is_next, must_equal, must_exist
from upthread.store.postgres.batch import NO_PART, Batch, Opened, Step
from upthread.store.postgres.columns import Column, Row, from_columns, to_columns
from upthread.store.postgres.erasing import erase_conversation, erase_run
from upthread.store.postgres.parts import record_parts


def prepared(write: Write) -> Step:
    """Encode a write and return what is left to do in the transaction."""
    return _PREPARE[type(write)](write)


# --- projects, workstreams, conversations ------------------------------------------------------


def _record_project(write: RecordProject) -> Step:
    identity = write.identity
    values = to_columns(
        write.project_id, identity.path, identity.root_commit, identity.remote, identity.owner
    )

    def apply(batch: Batch) -> None:
        batch.execute("record_project", values)

    return Step(apply=apply)


def _open_workstream(write: OpenWorkstream) -> Step:
    given = (write.project_id, write.workstream, write.base_name, write.opened_at_ms)
    values = to_columns(*given)

    def apply(batch: Batch) -> None:
        stored = batch.row("workstream", values[:2])
        if stored is not None:
            return must_equal(stored, given, what=f"workstream {write.workstream!r}")
        owner = batch.row("workstream_of_base_name", (values[0], values[2]))
        if owner is not None:
            raise ConflictError(
                f"the base name {write.base_name!r} belongs to workstream {owner[0]!r}",
                hint="take another base name",
            )
        return batch.execute("open_workstream", values)

    return Step(apply=apply)


def _open_conversation(write: OpenConversation) -> Step:
    new = write.conversation
    key = new.key
    given = (
        new.conversation_id,
        key.project_id,
        key.workstream,
        key.role,
        key.slot,
        new.generation,
        new.base_name,
        new.opened_at_ms,
        new.parent_conversation_id,
        new.parent_call_id,
    )
    values = to_columns(*given)

    def apply(batch: Batch) -> None:
        stored = batch.row("conversation", values[:1])
        if stored is not None:
            return must_equal(stored, given, what=f"conversation {new.conversation_id}")
        taken = batch.row("conversation_of_key", values[1:6])
        if key.slot >= MAIN_SLOT and taken is not None:
            raise ConflictError(
                f"{key.address} generation {new.generation} is conversation {taken[0]}",
                hint="use that one: resolve again",
            )
        found = batch.row("workstream", values[1:3])
        home = must_exist(found, what="workstream", name=key.workstream)
        must_equal(home[2], new.base_name, what=f"the base name of workstream {key.workstream!r}")
        _check_parent(batch, new.parent_conversation_id)
        batch.execute("open_conversation", values)
        return batch.tails.update({encode_text(new.conversation_id): NO_PART})

    return Step(apply=apply)


def _check_parent(batch: Batch, parent: ConversationId | None) -> None:
    if parent is not None:
        found = batch.row("conversation", to_columns(parent))
        must_exist(found, what="conversation", name=parent)


# --- links -------------------------------------------------------------------------------------


def _open_link(write: OpenLink) -> Step:
    link = write.link
    given = (
        link.seq,
        link.upstream_session_id,
        link.agent,
        link.agent_version,
        link.working_directory,
        link.opened_because,
        link.opened_at_ms,
    )
    conversation = encode_text(link.conversation_id)
    values = (conversation, *to_columns(*given))

    def apply(batch: Batch) -> None:
        batch.tail_of(conversation)
        last = batch.number("last_link", (conversation,))
        if is_next(link.seq, last=last, what="link", owner=owner):
            batch.execute("open_link", values)
        else:
            stored = batch.row("link", values[:2])
            must_equal(stored, given, what=f"link {link.seq} of {link.conversation_id}")
        if link.ended_because is not None:
            ended = to_columns(link.ended_because, link.ended_at_ms or 0)
            batch.execute("end_link", (*values[:2], *ended))

    owner = link.conversation_id
    return Step(apply=apply, conversation=conversation)


def _end_link(write: EndLink) -> Step:
    conversation = encode_text(write.conversation_id)
    values = to_columns(write.seq, write.ended_because, write.ended_at_ms)

    def apply(batch: Batch) -> None:
        batch.tail_of(conversation)
        found = batch.row("link", (conversation, write.seq))
        must_exist(found, what="link", name=str(write.seq))
        batch.execute("end_link", (conversation, *values))

    return Step(apply=apply, conversation=conversation)


# --- turns, runs and their events --------------------------------------------------------------


def _open_turn(write: OpenTurn) -> Step:
    given = (write.conversation_id, write.run_id, write.opened_at_ms)
    turn, conversation, run, at_ms = to_columns(write.turn_id, *given)
    turn_id, owner = encode_text(write.turn_id), encode_text(write.conversation_id)
    run_id = None if write.run_id is None else encode_text(write.run_id)

    def apply(batch: Batch) -> None:
        stored = batch.turns.get(turn_id)
        if stored is not None:
            return must_equal(stored.columns, given, what=f"turn {write.turn_id}")
        batch.tail_of(owner)
        if run_id is not None:
            batch.run_of(run_id)
        batch.execute("open_turn", (turn, conversation, run, at_ms))
        return batch.turns.update({turn_id: Opened(given, 0)})

    return Step(apply=apply, conversation=owner, turn=turn_id, run=run_id)


def _open_run(write: OpenRun) -> Step:
    given = (write.project_id, write.workstream, write.opened_at_ms)
    values = to_columns(write.run_id, *given)
    run_id = encode_text(write.run_id)

    def apply(batch: Batch) -> None:
        stored = batch.runs.get(run_id)
        if stored is not None:
            return must_equal(stored.columns, given, what=f"run {write.run_id}")
        home = batch.row("workstream", values[1:3])
        must_exist(home, what="workstream", name=write.workstream)
        batch.execute("open_run", values)
        return batch.runs.update({run_id: Opened(given, 0)})

    return Step(apply=apply, run=run_id)


def _record_turn_event(write: RecordTurnEvent) -> Step:
    event = (*encode_event(write.event), write.recorded_at_ms)
    turn, seq = encode_word(write.turn_id), write.seq

    def apply(batch: Batch) -> None:
        opened = batch.turn_of(turn)
        if _is_recorded(batch, "turn", (turn, seq), opened, event):
            batch.turns[turn] = Opened(opened.columns, seq, opened.next_file)

    return Step(apply, None, turn)


def _record_run_event(write: RecordRunEvent) -> Step:
    event = (*encode_event(write.event), write.recorded_at_ms)
    run = encode_text(write.run_id)

    def apply(batch: Batch) -> None:
        opened = batch.run_of(run)
        if _is_recorded(batch, "run", (run, write.seq), opened, event):
            batch.runs[run] = opened._replace(last_event=write.seq)
            if settles(write.event):
                batch.execute("settle_transitions", (run, write.seq))

    return Step(apply=apply, run=run)


def _is_recorded(
    batch: Batch,
    table: str,
    place: tuple[bytes, int],
    opened: Opened,
    event: tuple[str, bytes, int],
) -> bool:
    """Append an event and return True; False when the same one was there already."""
    kind, payload, at_ms = event
    owner, seq = place
    if seq == opened.last_event + 1:
        batch.execute(f"record_{table}_event", (owner, seq, encode_word(kind), payload, at_ms))
        return True
    name = decode_text(owner)
    is_next(seq, last=opened.last_event, what=f"{table} event", owner=name)
    stored = batch.content_row(f"{table}_event", place)
    given = (encode_text(kind), payload, at_ms)
    must_equal(stored, given, what=f"event {seq} of {table} {name}")
    return False


def _enqueue_transition(write: EnqueueTransition) -> Step:
    run = encode_text(write.run_id)
    queue = encode_text(write.queue) if write.queue else None

    def apply(batch: Batch) -> None:
        opened = batch.run_of(run)
        stored = batch.row("transition", (run, write.run_seq))
        if stored is not None:
            what = f"the transition after event {write.run_seq} of run {write.run_id}"
            return must_equal(stored[0], write.due_at_ms, what=what)
        last, owner = opened.last_event, write.run_id
        is_next(write.run_seq + 1, last=last, what="a transition to event", owner=owner)
        due = (write.due_at_ms, write.delay_ms)
        batch.execute("enqueue_transition", (run, write.run_seq, *due, queue))
        return batch.execute("enqueue_job", (run, write.run_seq, write.delay_ms))

    return Step(apply=apply, run=run)


# --- what belongs to no message ----------------------------------------------------------------


def _record_quarantine(write: RecordQuarantine) -> Step:
    given = (encode_text(write.reason), encode_json(write.raw), write.recorded_at_ms)
    turn = encode_text(write.turn_id)

    def apply(batch: Batch) -> None:
        batch.turn_of(turn)
        stored = batch.content_row("quarantine", (turn, write.ordinal))
        if stored is not None:
            what = f"quarantined event {write.ordinal} of turn {write.turn_id}"
            return must_equal(stored, given, what=what)
        return batch.execute("record_quarantine", (turn, write.ordinal, *given))

    return Step(apply=apply, turn=turn)


def _record_decision(write: RecordDecision) -> Step:
    conversation = encode_text(write.conversation_id)
    values: tuple[Column, ...] = (
        conversation,
        encode_text(write.decision),
        encode_json(write.reasons),
        encode_json(write.inputs),
        write.decided_at_ms,
    )

    def apply(batch: Batch) -> None:
        batch.tail_of(conversation)
        batch.execute("record_refusal", values)

    return Step(apply=apply, conversation=conversation)


def _record_act(write: RecordAct) -> Step:
    values = to_columns(
        write.conversation_id,
        write.run_id,
        write.what,
        write.by_user,
        write.detail,
        write.recorded_at_ms,
    )
    conversation = None if write.conversation_id is None else encode_text(write.conversation_id)
    run = None if write.run_id is None else encode_text(write.run_id)

    def apply(batch: Batch) -> None:
        if conversation is not None:
            batch.tail_of(conversation)
        if run is not None:
            batch.run_of(run)
        batch.execute("record_act", values)

    return Step(apply=apply, conversation=conversation, run=run)


def _record_examined(write: RecordExamined) -> Step:
    conversation, turn = encode_text(write.conversation_id), encode_text(write.turn_id)
    given = {
        ordinal: _examined_row(write, file)
        for ordinal, file in enumerate(write.files, write.first_ordinal)
    }

    def apply(batch: Batch) -> None:
        batch.tail_of(conversation)
        opened = batch.turn_of(turn)
        stored = _stored_files(batch, turn, given.keys(), opened.next_file)
        for ordinal, row in given.items():
            if ordinal in stored:
                what = f"examined file {ordinal} of turn {write.turn_id}"
                must_equal(stored[ordinal], row, what=what)
            else:
                batch.execute("record_examined", (turn, ordinal, *row))
        after = max((ordinal + 1 for ordinal in given), default=0)
        batch.turns[turn] = opened._replace(next_file=max(opened.next_file, after))

    return Step(apply=apply, conversation=conversation, turn=turn)


def _examined_row(write: RecordExamined, file: ExaminedFile) -> tuple[Column, ...]:
    return to_columns(
        write.conversation_id,
        write.upstream_session_id,
        file.path,
        file.how,
        file.state,
        file.size_bytes,
        file.mtime_ns,
        file.digest,
        write.recorded_at_ms,
    )


def _stored_files(
    batch: Batch, turn: bytes, ordinals: Collection[int], next_file: int
) -> dict[int, Row]:
    """Return what is stored at some places of a turn; most often that is known to be nothing."""
    if min(ordinals, default=next_file) >= next_file:
        return {}
    rows = batch.content_rows("examined_files", (turn, min(ordinals), max(ordinals)))
    return {row[0]: row[1:] for row in rows}


def _record_briefing_edit(write: RecordBriefingEdit) -> Step:
    owner = write.conversation_id
    conversation = encode_text(owner)
    place = (conversation, write.seq)
    given = (encode_json(write.edit), write.recorded_at_ms)

    def apply(batch: Batch) -> None:
        batch.tail_of(conversation)
        last = batch.number("last_briefing_edit", (conversation,))
        if is_next(write.seq, last=last, what="edit of the briefing", owner=owner):
            return batch.execute("record_briefing_edit", (*place, *given))
        stored = batch.content_row("briefing_edit_of_seq", place)
        return must_equal(stored, given, what=f"edit {write.seq} of the briefing of {owner}")

    return Step(apply=apply, conversation=conversation)


def _record_once(write: RecordOnce) -> Step:
    given = (encode_json(write.receipt), write.recorded_at_ms)
    action = to_columns(write.project_id, write.key)
    attempt = to_columns(write.attempt_id, write.state)

    def apply(batch: Batch) -> None:
        stored = batch.content_row("once_event", (*action, *attempt))
        if stored is not None:
            return must_equal(stored, given, what=f"{write.state} of the action {write.key!r}")
        last = batch.content_row("once", action)
        check_attempt(write, None if last is None else from_columns(last[1:3]))
        step = 1 if last is None else last[0] + 1
        return batch.execute("record_once", (*action, step, *attempt, *given))

    return Step(apply=apply)


_PREPARE: Final[Mapping[type[Any], Callable[[Any], Step]]] = MappingProxyType(
    {
        RecordProject: _record_project,
        OpenWorkstream: _open_workstream,
        OpenConversation: _open_conversation,
        OpenLink: _open_link,
        EndLink: _end_link,
        OpenTurn: _open_turn,
        RecordParts: record_parts,
        RecordTurnEvent: _record_turn_event,
        OpenRun: _open_run,
        RecordRunEvent: _record_run_event,
        EnqueueTransition: _enqueue_transition,
        RecordQuarantine: _record_quarantine,
        RecordDecision: _record_decision,
        RecordAct: _record_act,
        RecordExamined: _record_examined,
        RecordBriefingEdit: _record_briefing_edit,
        RecordOnce: _record_once,
        EraseConversation: erase_conversation,
        EraseRun: erase_run,
    }
)
