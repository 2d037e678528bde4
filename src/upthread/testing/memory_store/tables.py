"""What the store in memory holds, and what each write does to it.

Plain dicts in the order of commits. Content is kept encoded, so that nothing a caller holds can
change what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from msgspec import Struct, field, structs

from upthread.core import commands
from upthread.core.codec import StoredPart, encode_event, encode_json, encode_part
from upthread.core.decision.examined import ExaminedFile
from upthread.core.types import (
    MAIN_SLOT,
    Conversation,
    ConversationId,
    Durability,
    Lease,
    Link,
    RunId,
    TurnId,
)
from upthread.errors import ConflictError
from upthread.store._rules import (
    FIRST_CHAIN,
    ChainedPart,
    PartHeader,
    chained,
    check_attempt,
    digest_of,
    header_of,
    is_next,
    must_equal,
    must_exist,
)
from upthread.store.base import KnownProject, Run, Turn, Workstream


class StoredEvent(NamedTuple):
    """A turn's or a run's event."""

    kind: str
    payload: bytes
    recorded_at_ms: int


class StoredQuarantine(NamedTuple):
    """An event without an owner."""

    reason: str
    raw: bytes
    recorded_at_ms: int


class StoredRefusal(NamedTuple):
    """A decision that led to no turn."""

    conversation_id: ConversationId
    decision: str
    reasons: tuple[str, ...]
    inputs: bytes
    decided_at_ms: int


class StoredExamined(NamedTuple):
    """A file as an upstream session knew it from then on."""

    conversation_id: ConversationId
    upstream_session_id: str
    file: ExaminedFile
    recorded_at_ms: int


class KeptEdit(NamedTuple):
    """What a person made of a briefing."""

    edit: bytes
    recorded_at_ms: int


class StoredOnce(NamedTuple):
    """One step of an attempt at an action that is to be done once."""

    attempt_id: str
    state: commands.OnceState
    receipt: bytes
    recorded_at_ms: int


class Tables(Struct):
    """All there is, by key, in the order of commits. Values are immutable."""

    projects: dict[KnownProject, None] = field(default_factory=dict[KnownProject, None])
    workstreams: dict[tuple[str, str], Workstream] = field(
        default_factory=dict[tuple[str, str], Workstream]
    )
    conversations: dict[str, Conversation] = field(default_factory=dict[str, Conversation])
    links: dict[tuple[str, int], Link] = field(default_factory=dict[tuple[str, int], Link])
    turns: dict[str, Turn] = field(default_factory=dict[str, Turn])
    turn_events: dict[str, tuple[StoredEvent, ...]] = field(
        default_factory=dict[str, tuple[StoredEvent, ...]]
    )
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    run_events: dict[str, tuple[StoredEvent, ...]] = field(
        default_factory=dict[str, tuple[StoredEvent, ...]]
    )
    transitions: dict[tuple[RunId, int], int] = field(default_factory=dict[tuple[RunId, int], int])
    parts: dict[str, tuple[ChainedPart, ...]] = field(
        default_factory=dict[str, tuple[ChainedPart, ...]]
    )
    quarantine: dict[tuple[str, int], StoredQuarantine] = field(
        default_factory=dict[tuple[str, int], StoredQuarantine]
    )
    refusals: dict[StoredRefusal, None] = field(default_factory=dict[StoredRefusal, None])
    examined: dict[tuple[str, int], StoredExamined] = field(
        default_factory=dict[tuple[str, int], StoredExamined]
    )
    briefing_edits: dict[str, tuple[KeptEdit, ...]] = field(
        default_factory=dict[str, tuple[KeptEdit, ...]]
    )
    once: dict[tuple[str, str], tuple[StoredOnce, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[StoredOnce, ...]]
    )
    acts: dict[commands.RecordAct, None] = field(default_factory=dict[commands.RecordAct, None])
    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])

    def copy(self) -> Tables:
        """Return tables that can change without these."""
        return Tables(*(getattr(self, name).copy() for name in Tables.__struct_fields__))

    def links_of(self, conversation_id: str) -> list[Link]:
        """Return a conversation's links, oldest first."""
        return [link for (owner, _), link in self.links.items() if owner == conversation_id]


def apply(tables: Tables, write: commands.Write) -> None:
    """Do one write. ConflictError or NotFoundError leave the tables half done: drop them."""
    _APPLY[type(write)](tables, write)


def _record_project(tables: Tables, write: commands.RecordProject) -> None:
    known = KnownProject(project_id=write.project_id, identity=write.identity)
    tables.projects.setdefault(known)


def _open_workstream(tables: Tables, write: commands.OpenWorkstream) -> None:
    new = Workstream(
        project_id=write.project_id,
        workstream=write.workstream,
        base_name=write.base_name,
        opened_at_ms=write.opened_at_ms,
    )
    key = (write.project_id, write.workstream)
    must_equal(tables.workstreams.get(key, new), new, what=f"workstream {write.workstream!r}")
    for (project_id, workstream), other in tables.workstreams.items():
        if project_id == key[0] and workstream != key[1] and other.base_name == write.base_name:
            raise ConflictError(
                f"the base name {write.base_name!r} belongs to workstream {workstream!r}",
                hint="take another base name",
            )
    tables.workstreams[key] = new


def _open_conversation(tables: Tables, write: commands.OpenConversation) -> None:
    new = write.conversation
    key = new.key
    stored = tables.conversations.get(new.conversation_id)
    if stored is not None:
        return must_equal(stored, new, what=f"conversation {new.conversation_id}")
    for other in tables.conversations.values():
        if key.slot >= MAIN_SLOT and (other.key, other.generation) == (key, new.generation):
            raise ConflictError(
                f"{key.address} generation {new.generation} is conversation"
                f" {other.conversation_id}",
                hint="use that one: resolve again",
            )
    home = must_exist(
        tables.workstreams.get((key.project_id, key.workstream)),
        what="workstream",
        name=key.workstream,
    )
    must_equal(home.base_name, new.base_name, what=f"the base name of {key.workstream!r}")
    if new.parent_conversation_id is not None:
        _conversation(tables, new.parent_conversation_id)
    tables.conversations[new.conversation_id] = new
    return None


def _conversation(tables: Tables, conversation_id: ConversationId) -> Conversation:
    found = tables.conversations.get(conversation_id)
    return must_exist(found, what="conversation", name=conversation_id)


def _open_link(tables: Tables, write: commands.OpenLink) -> None:
    link = write.link
    _conversation(tables, link.conversation_id)
    last = len(tables.links_of(link.conversation_id))
    as_opened = structs.replace(link, ended_because=None, ended_at_ms=None)
    if is_next(link.seq, last=last, what="link", owner=link.conversation_id):
        tables.links[link.conversation_id, link.seq] = as_opened
    stored = tables.links[link.conversation_id, link.seq]
    must_equal(
        structs.replace(stored, ended_because=None, ended_at_ms=None),
        as_opened,
        what=f"link {link.seq} of {link.conversation_id}",
    )
    if link.ended_because is not None:
        _end(tables, link.conversation_id, link.seq, (link.ended_because, link.ended_at_ms or 0))


def _end_link(tables: Tables, write: commands.EndLink) -> None:
    _conversation(tables, write.conversation_id)
    _end(tables, write.conversation_id, write.seq, (write.ended_because, write.ended_at_ms))


def _end(tables: Tables, conversation_id: ConversationId, seq: int, cause: tuple[str, int]) -> None:
    link = must_exist(tables.links.get((conversation_id, seq)), what="link", name=str(seq))
    if link.ended_because is None:
        because, at_ms = cause
        ended = structs.replace(link, ended_because=because, ended_at_ms=at_ms)
        tables.links[conversation_id, seq] = ended


def _open_turn(tables: Tables, write: commands.OpenTurn) -> None:
    new = Turn(
        turn_id=write.turn_id,
        conversation_id=write.conversation_id,
        opened_at_ms=write.opened_at_ms,
        run_id=write.run_id,
    )
    must_equal(tables.turns.get(write.turn_id, new), new, what=f"turn {write.turn_id}")
    _conversation(tables, write.conversation_id)
    if write.run_id is not None:
        _run(tables, write.run_id)
    tables.turns.setdefault(write.turn_id, new)


def _turn(tables: Tables, turn_id: TurnId) -> Turn:
    return must_exist(tables.turns.get(turn_id), what="turn", name=turn_id)


def _own_turn(tables: Tables, write: commands.RecordTurnEvent | commands.RecordQuarantine) -> None:
    if _turn(tables, write.turn_id).conversation_id != write.conversation_id:
        must_exist(None, what="turn", name=write.turn_id)


def _open_run(tables: Tables, write: commands.OpenRun) -> None:
    new = Run(
        run_id=write.run_id,
        project_id=write.project_id,
        workstream=write.workstream,
        opened_at_ms=write.opened_at_ms,
    )
    must_equal(tables.runs.get(write.run_id, new), new, what=f"run {write.run_id}")
    home = tables.workstreams.get((write.project_id, write.workstream))
    must_exist(home, what="workstream", name=write.workstream)
    tables.runs.setdefault(write.run_id, new)


def _run(tables: Tables, run_id: RunId) -> Run:
    return must_exist(tables.runs.get(run_id), what="run", name=run_id)


def _record_turn_event(tables: Tables, write: commands.RecordTurnEvent) -> None:
    _own_turn(tables, write)
    _append_event(tables.turn_events, write.turn_id, write)


def _record_run_event(tables: Tables, write: commands.RecordRunEvent) -> None:
    _run(tables, write.run_id)
    _append_event(tables.run_events, write.run_id, write)


def _append_event(
    table: dict[str, tuple[StoredEvent, ...]],
    owner: str,
    write: commands.RecordTurnEvent | commands.RecordRunEvent,
) -> None:
    stored = table.get(owner, ())
    new = StoredEvent(*encode_event(write.event), write.recorded_at_ms)
    if is_next(write.seq, last=len(stored), what="event", owner=owner):
        table[owner] = (*stored, new)
    must_equal(table[owner][write.seq - 1], new, what=f"event {write.seq} of {owner}")


def _enqueue_transition(tables: Tables, write: commands.EnqueueTransition) -> None:
    _run(tables, write.run_id)
    last = len(tables.run_events.get(write.run_id, ()))
    is_next(write.run_seq + 1, last=last, what="a transition to event", owner=write.run_id)
    due = tables.transitions.setdefault((write.run_id, write.run_seq), write.due_at_ms)
    what = f"the transition after event {write.run_seq} of run {write.run_id}"
    must_equal(due, write.due_at_ms, what=what)


def _record_quarantine(tables: Tables, write: commands.RecordQuarantine) -> None:
    _own_turn(tables, write)
    new = StoredQuarantine(write.reason, encode_json(write.raw), write.recorded_at_ms)
    stored = tables.quarantine.setdefault((write.turn_id, write.ordinal), new)
    must_equal(stored, new, what=f"quarantined event {write.ordinal} of turn {write.turn_id}")


def _record_decision(tables: Tables, write: commands.RecordDecision) -> None:
    _conversation(tables, write.conversation_id)
    new = StoredRefusal(
        write.conversation_id,
        write.decision,
        write.reasons,
        encode_json(write.inputs),
        write.decided_at_ms,
    )
    tables.refusals.setdefault(new)


def _record_act(tables: Tables, write: commands.RecordAct) -> None:
    if write.conversation_id is not None:
        _conversation(tables, write.conversation_id)
    if write.run_id is not None:
        _run(tables, write.run_id)
    tables.acts.setdefault(structs.replace(write, durability=Durability.PROCESS))


def _record_examined(tables: Tables, write: commands.RecordExamined) -> None:
    _conversation(tables, write.conversation_id)
    _turn(tables, write.turn_id)
    for ordinal, file in enumerate(write.files, write.first_ordinal):
        new = StoredExamined(
            write.conversation_id, write.upstream_session_id, file, write.recorded_at_ms
        )
        stored = tables.examined.setdefault((write.turn_id, ordinal), new)
        must_equal(stored, new, what=f"examined file {ordinal} of turn {write.turn_id}")


def _record_briefing_edit(tables: Tables, write: commands.RecordBriefingEdit) -> None:
    owner = write.conversation_id
    _conversation(tables, owner)
    stored = tables.briefing_edits.get(owner, ())
    new = KeptEdit(encode_json(write.edit), write.recorded_at_ms)
    if is_next(write.seq, last=len(stored), what="edit of the briefing", owner=owner):
        tables.briefing_edits[owner] = stored = (*stored, new)
    must_equal(stored[write.seq - 1], new, what=f"edit {write.seq} of the briefing of {owner}")


def _record_once(tables: Tables, write: commands.RecordOnce) -> None:
    new = StoredOnce(
        write.attempt_id, write.state, encode_json(write.receipt), write.recorded_at_ms
    )
    owner = (write.project_id, write.key)
    steps = tables.once.get(owner, ())
    for step in steps:
        if step[:2] == new[:2]:
            return must_equal(step, new, what=f"{new.state} of the action {write.key!r}")
    check_attempt(write, steps[-1][:2] if steps else None)
    tables.once[owner] = (*steps, new)
    return None


def _record_parts(tables: Tables, write: commands.RecordParts) -> None:
    _conversation(tables, write.conversation_id)
    _turn(tables, write.turn_id)
    for ordinal, part in enumerate(write.parts, write.first_ordinal):
        stored = encode_part(part)
        header = header_of(write, ordinal, stored)
        _place(tables, header, stored)


def _place(tables: Tables, header: PartHeader, piece: StoredPart) -> None:
    digest = piece.digest or digest_of(piece.content)
    stored = tables.parts.get(header.conversation_id, ())
    what = f"part {header.ordinal} of message {header.seq} of {header.conversation_id}"
    last = stored[-1].header if stored else None
    # They are in order: one that would come last is not looked for among all.
    written = stored if last and header[1:3] <= last[1:3] else ()
    for part in written:
        if part.header[1:3] == header[1:3]:
            return must_equal((part.header, digest_in(part)), (header, digest), what=what)
    last_seq, last_ordinal = (last.seq, last.ordinal) if last else (0, -1)
    owner = header.conversation_id
    if is_next(header.seq, last=last_seq, what="message", owner=owner):
        last_ordinal = -1
    elif last and header.seq == last.seq:
        must_equal(last[3:6], header[3:6], what=f"message {header.seq} of {owner}")
    else:
        raise ConflictError(f"{what} would come after a later message", hint="read again")
    is_next(header.ordinal + 1, last=last_ordinal + 1, what=what, owner=owner)
    previous = cast("bytes", stored[-1].chain) if stored else FIRST_CHAIN
    kept_digest = digest if piece.content is None else None
    chain = chained(previous, digest, header)
    new = ChainedPart(header, chain, kept_digest, piece.content, piece.size_bytes)
    tables.parts[owner] = (*stored, new)
    return None


def digest_in(part: ChainedPart) -> object:
    """Return the digest of a stored part, whether its content is there or was erased."""
    return part.digest if part.content is None else digest_of(cast("bytes", part.content))


_APPLY: Final[Mapping[type[Any], Callable[[Tables, Any], None]]] = MappingProxyType(
    {
        commands.RecordProject: _record_project,
        commands.OpenWorkstream: _open_workstream,
        commands.OpenConversation: _open_conversation,
        commands.OpenLink: _open_link,
        commands.EndLink: _end_link,
        commands.OpenTurn: _open_turn,
        commands.RecordParts: _record_parts,
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
    }
)
