"""Writes to rows. Each write is encoded before the transaction begins and applied within it.

`prepared` does what needs no lock (JSON, hashes) and returns what is left to do; a Batch does it.
What is a conflict, a gap or the same again is `store._rules`; here is only what they look at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from upthread.core.codec import StoredPart, encode_event, encode_json, encode_part
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
from upthread.core.queueing import settles
from upthread.core.types import MAIN_SLOT
from upthread.errors import ConflictError
from upthread.store._rules import (
    PartHeader,
    chained,
    check_attempt,
    digest_of,
    header_of,
    is_next,
    must_equal,
    must_exist,
)
from upthread.store.sqlite.batch import Batch, Tail
from upthread.store.sqlite.database import (
    from_columns,
    to_column,
    to_optional_column,
)
from upthread.store.sqlite.erasing import prepare_erase_conversation, prepare_erase_run

Apply: TypeAlias = "Callable[[Batch], None]"


def prepared(write: Write) -> Apply:
    """Encode a write and return what is left to do under the lock."""
    return _PREPARE[type(write)](write)


# --- projects, workstreams, conversations ------------------------------------------------------


def _record_project(write: RecordProject) -> Apply:
    identity = write.identity
    bindings = (
        to_column(write.project_id),
        to_column(identity.path),
        to_optional_column(identity.root_commit),
        to_optional_column(identity.remote),
        to_optional_column(identity.owner),
    )
    return lambda batch: batch.execute("record_project", bindings)


def _open_workstream(write: OpenWorkstream) -> Apply:
    given = (write.project_id, write.workstream, write.base_name, write.opened_at_ms)
    project, name, base_name = map(to_column, given[:3])

    def apply(batch: Batch) -> None:
        stored = batch.row("workstream", (project, name))
        if stored is not None:
            return must_equal(stored, given, what=f"workstream {write.workstream!r}")
        owner = batch.row("workstream_of_base_name", (project, base_name))
        if owner is not None:
            raise ConflictError(
                f"the base name {write.base_name!r} belongs to workstream {owner[0]!r}",
                hint="take another base name",
            )
        return batch.execute("open_workstream", (project, name, base_name, write.opened_at_ms))

    return apply


def _open_conversation(write: OpenConversation) -> Apply:
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
    bindings = tuple(to_column(each) if isinstance(each, str) else each for each in given)

    def apply(batch: Batch) -> None:
        stored = batch.row("conversation", bindings[:1])
        if stored is not None:
            return must_equal(stored, given, what=f"conversation {new.conversation_id}")
        taken = batch.row("conversation_of_key", bindings[1:6])
        if key.slot >= MAIN_SLOT and taken is not None:
            raise ConflictError(
                f"{key.address} generation {new.generation} is conversation {taken[0]}",
                hint="use that one: resolve again",
            )
        home = must_exist(
            batch.row("workstream", bindings[1:3]), what="workstream", name=key.workstream
        )
        must_equal(home[2], new.base_name, what=f"the base name of workstream {key.workstream!r}")
        if new.parent_conversation_id is not None:
            batch.row_of("conversation", new.parent_conversation_id)
        return batch.insert(
            "open_conversation", bindings, table="conversation", name=new.conversation_id
        )

    return apply


# --- links -------------------------------------------------------------------------------------


def _open_link(write: OpenLink) -> Apply:
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
    bindings = tuple(to_column(each) if isinstance(each, str) else each for each in given)

    def apply(batch: Batch) -> None:
        conversation = batch.row_of("conversation", link.conversation_id)
        last = batch.number("last_link", (conversation,))
        if is_next(link.seq, last=last, what="link", owner=link.conversation_id):
            batch.execute("open_link", (conversation, *bindings))
        else:
            stored = batch.row("link", (conversation, link.seq))
            must_equal(stored, given, what=f"link {link.seq} of {link.conversation_id}")
        if link.ended_because is not None:
            _end(batch, conversation, link.seq, link.ended_because, link.ended_at_ms or 0)

    return apply


def _end_link(write: EndLink) -> Apply:
    def apply(batch: Batch) -> None:
        conversation = batch.row_of("conversation", write.conversation_id)
        _end(batch, conversation, write.seq, write.ended_because, write.ended_at_ms)

    return apply


def _end(batch: Batch, conversation: int, seq: int, because: str, at_ms: int) -> None:
    found = batch.row("link_row", (conversation, seq))
    link = must_exist(found, what="link", name=str(seq))[0]
    batch.execute("end_link", (link, to_column(because), at_ms))


# --- turns, runs and their events --------------------------------------------------------------


def _open_turn(write: OpenTurn) -> Apply:
    given = (write.conversation_id, write.run_id, write.opened_at_ms)
    name = to_column(write.turn_id)

    def apply(batch: Batch) -> None:
        stored = batch.row("turn", (name,))
        if stored is not None:
            return must_equal(stored, given, what=f"turn {write.turn_id}")
        conversation = batch.row_of("conversation", write.conversation_id)
        run = None if write.run_id is None else batch.row_of("run", write.run_id)
        bindings = (name, conversation, run, write.opened_at_ms)
        return batch.insert("open_turn", bindings, table="turn", name=write.turn_id)

    return apply


def _open_run(write: OpenRun) -> Apply:
    given = (write.project_id, write.workstream, write.opened_at_ms)
    names = tuple(map(to_column, (write.run_id, write.project_id, write.workstream)))

    def apply(batch: Batch) -> None:
        stored = batch.row("run", names[:1])
        if stored is not None:
            return must_equal(stored, given, what=f"run {write.run_id}")
        must_exist(batch.row("workstream", names[1:]), what="workstream", name=write.workstream)
        return batch.insert(
            "open_run", (*names, write.opened_at_ms), table="run", name=write.run_id
        )

    return apply


def _record_turn_event(write: RecordTurnEvent) -> Apply:
    return _record_event("turn", write.turn_id, write)


def _record_run_event(write: RecordRunEvent) -> Apply:
    record = _record_event("run", write.run_id, write)

    def apply(batch: Batch) -> None:
        record(batch)
        if settles(write.event):
            batch.execute("settle_transitions", (batch.row_of("run", write.run_id), write.seq))

    return apply


def _record_event(table: str, owner: str, write: RecordTurnEvent | RecordRunEvent) -> Apply:
    given = (*encode_event(write.event), write.recorded_at_ms)
    record = f"record_{table}_event"

    def apply(batch: Batch) -> None:
        row = batch.row_of(table, owner)
        if batch.is_changed(record, (row, write.seq, *given)):
            return None
        last = batch.number(f"last_{table}_event", (row,))
        is_next(write.seq, last=last, what=f"{table} event", owner=owner)
        stored = batch.content_row(f"{table}_event", (row, write.seq))
        return must_equal(stored, given, what=f"event {write.seq} of {table} {owner}")

    return apply


def _enqueue_transition(write: EnqueueTransition) -> Apply:
    def apply(batch: Batch) -> None:
        run = batch.row_of("run", write.run_id)
        stored = batch.row("transition", (run, write.run_seq))
        if stored is not None:
            what = f"the transition after event {write.run_seq} of run {write.run_id}"
            return must_equal(stored[0], write.due_at_ms, what=what)
        last = batch.number("last_run_event", (run,))
        is_next(write.run_seq + 1, last=last, what="a transition to event", owner=write.run_id)
        return batch.execute("enqueue_transition", (run, write.run_seq, write.due_at_ms))

    return apply


# --- what belongs to no message ----------------------------------------------------------------


def _record_quarantine(write: RecordQuarantine) -> Apply:
    given = (to_column(write.reason), encode_json(write.raw), write.recorded_at_ms)

    def apply(batch: Batch) -> None:
        turn = batch.row_of("turn", write.turn_id)
        stored = batch.content_row("quarantine", (turn, write.ordinal))
        if stored is not None:
            what = f"quarantined event {write.ordinal} of turn {write.turn_id}"
            return must_equal(stored, given, what=what)
        return batch.execute("record_quarantine", (turn, write.ordinal, *given))

    return apply


def _record_decision(write: RecordDecision) -> Apply:
    reasons, inputs = encode_json(write.reasons), encode_json(write.inputs)
    given = (to_column(write.decision), reasons, inputs, write.decided_at_ms)

    def apply(batch: Batch) -> None:
        conversation = batch.row_of("conversation", write.conversation_id)
        batch.execute("record_refusal", (conversation, *given))

    return apply


def _record_act(write: RecordAct) -> Apply:
    given = (*map(to_column, (write.what, write.by_user, write.detail)), write.recorded_at_ms)

    def apply(batch: Batch) -> None:
        owners = (("conversation", write.conversation_id), ("run", write.run_id))
        rows = (None if name is None else batch.row_of(table, name) for table, name in owners)
        batch.execute("record_act", (*rows, *given))

    return apply


def _record_examined(write: RecordExamined) -> Apply:
    rows = [
        (
            *map(to_column, (file.path, file.how, file.state)),
            *(file.size_bytes, file.mtime_ns, to_optional_column(file.digest)),
            write.recorded_at_ms,
        )
        for file in write.files
    ]

    def apply(batch: Batch) -> None:
        conversation = batch.row_of("conversation", write.conversation_id)
        turn = batch.row_of("turn", write.turn_id)
        upstream = batch.upstream_row_of(write.upstream_session_id)
        for ordinal, row in enumerate(rows, write.first_ordinal):
            given = (conversation, upstream, *row)
            if not batch.is_changed("record_examined", (turn, ordinal, *given)):
                stored = batch.content_row("examined_file", (turn, ordinal))
                what = f"examined file {ordinal} of turn {write.turn_id}"
                must_equal(stored, given, what=what)

    return apply


def _record_briefing_edit(write: RecordBriefingEdit) -> Apply:
    given = (encode_json(write.edit), write.recorded_at_ms)

    def apply(batch: Batch) -> None:
        owner = write.conversation_id
        conversation = batch.row_of("conversation", owner)
        last = batch.number("last_briefing_edit", (conversation,))
        if is_next(write.seq, last=last, what="edit of the briefing", owner=owner):
            return batch.execute("record_briefing_edit", (conversation, write.seq, *given))
        stored = batch.content_row("briefing_edit_of_seq", (conversation, write.seq))
        return must_equal(stored, given, what=f"edit {write.seq} of the briefing of {owner}")

    return apply


def _record_once(write: RecordOnce) -> Apply:
    given = (encode_json(write.receipt), write.recorded_at_ms)
    action = (to_column(write.project_id), to_column(write.key))
    step = (to_column(write.attempt_id), write.state)

    def apply(batch: Batch) -> None:
        stored = batch.content_row("once_event", (*action, *step))
        if stored is not None:
            return must_equal(stored, given, what=f"{write.state} of the action {write.key!r}")
        last = batch.content_row("once", action)
        check_attempt(write, None if last is None else (from_columns(last[:1])[0], last[1]))
        return batch.execute("record_once", (*action, *step, *given))

    return apply


# --- parts -------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A part on its way: all that does not depend on what is stored."""

    header: PartHeader
    digest: bytes
    stored: StoredPart


def _record_parts(write: RecordParts) -> Apply:
    pieces = [
        _piece(write, ordinal, encode_part(part))
        for ordinal, part in enumerate(write.parts, write.first_ordinal)
    ]

    def apply(batch: Batch) -> None:
        conversation = batch.row_of("conversation", write.conversation_id)
        turn = batch.row_of("turn", write.turn_id)
        upstream = batch.upstream_row_of(write.upstream_session_id)
        tail = batch.tail_of(conversation)
        for piece in pieces:
            tail = _place(batch, piece, tail, (conversation, turn, upstream))

    return apply


def _piece(write: RecordParts, ordinal: int, stored: StoredPart) -> _Piece:
    header = header_of(write, ordinal, stored)
    return _Piece(header, stored.digest or digest_of(stored.content), stored)


def _place(batch: Batch, piece: _Piece, tail: Tail, owners: tuple[int, int, int | None]) -> Tail:
    """Append a part after the tail, or see that the same one is already there."""
    header, digest, stored = piece
    conversation, turn, upstream = owners
    if not _follows(header, tail, owners):
        _must_be_there(batch, conversation, piece)
        return tail
    chain = chained(tail.chain, digest, header)
    tail = Tail(header.seq, header.ordinal, header.speaker, turn, upstream, chain)
    place = (
        conversation,
        *(header.seq, header.ordinal, header.speaker, turn, upstream, header.recorded_at_ms),
        *(to_column(stored.kind), to_optional_column(stored.call_id), chain),
    )
    if stored.content is None:
        outline = (*place, digest, stored.size_bytes)
        batch.append_part(conversation, tail, outline, query="record_erased_part")
    else:
        batch.append_part(conversation, tail, (*place, None, stored.content))
    return tail


def _follows(header: PartHeader, tail: Tail, owners: tuple[int, int, int | None]) -> bool:
    """Return whether a part comes right after the tail; False: there should be one in its place."""
    owner, seq, ordinal, speaker = header[:4]
    is_same_message = seq == tail.seq
    if is_same_message and tail[2:5] != (speaker, *owners[1:]):
        must_equal(tail[2:5], (speaker, *owners[1:]), what=f"message {seq} of {owner}")
    # The usual case first, and without the words that only a conflict needs.
    last_ordinal = tail.ordinal if is_same_message else -1
    if ordinal == last_ordinal + 1 and (is_same_message or seq == tail.seq + 1):
        return True
    if not is_next(seq, last=tail.seq, what="message", owner=owner) and not is_same_message:
        return False
    return is_next(ordinal + 1, last=last_ordinal + 1, what=f"in message {seq}, part", owner=owner)


def _must_be_there(batch: Batch, conversation: int, piece: _Piece) -> None:
    header = piece.header
    where = f"part {header.ordinal} of message {header.seq} of {header.conversation_id}"
    found = batch.content_row("part", (conversation, header.seq, header.ordinal))
    if found is None:  # an earlier message has fewer parts, and can have no more
        raise ConflictError(f"{where} would come after a later message", hint="read again")
    columns = from_columns(found[:6])
    digest = found[6] if found[7] is None else digest_of(found[7])
    must_equal((*columns, digest), (*header[3:], piece.digest), what=where)


_PREPARE: Final[Mapping[type[Any], Callable[[Any], Apply]]] = MappingProxyType(
    {
        RecordProject: _record_project,
        OpenWorkstream: _open_workstream,
        OpenConversation: _open_conversation,
        OpenLink: _open_link,
        EndLink: _end_link,
        OpenTurn: _open_turn,
        RecordParts: _record_parts,
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
        EraseConversation: prepare_erase_conversation,
        EraseRun: prepare_erase_run,
    }
)
