"""Rows to values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from upthread.core.codec import decode_json, decode_part, decode_text
from upthread.core.commands import RecordDecision
from upthread.core.examined import ExaminedFile
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Holder,
    Lease,
    Link,
    Message,
    Part,
    ProjectIdentity,
    Speaker,
    TextPart,
    UpstreamSessionId,
)
from upthread.errors import StoreError
from upthread.store._rules import ChainedPart, PartHeader, says_something
from upthread.store.base import KnownProject, Once, Resolved, Run, Turn, Workstream
from upthread.store.postgres.columns import Row, from_columns

_SEQ: Final = itemgetter(0)


def conversation_of(row: Row) -> Conversation:
    """Return a conversation from the columns of `-- conversation`."""
    conversation_id, project, workstream, role, slot, generation, base, at_ms, parent, call = (
        from_columns(row)
    )
    return Conversation(
        conversation_id=conversation_id,
        key=ConversationKey(project_id=project, workstream=workstream, role=role, slot=slot),
        generation=generation,
        base_name=base,
        opened_at_ms=at_ms,
        parent_conversation_id=parent,
        parent_call_id=call,
    )


def resolved_of(key: ConversationKey, row: Row) -> Resolved:
    """Return an address as it stands from the columns of `-- resolve`."""
    conversation_id, generation, base, at_ms, parent, call, *link = from_columns(row)
    conversation = Conversation(
        conversation_id=conversation_id,
        key=key,
        generation=generation,
        base_name=base,
        opened_at_ms=at_ms,
        parent_conversation_id=parent,
        parent_call_id=call,
    )
    is_linked = link[0] is not None
    return Resolved(
        conversation=conversation,
        link=_link_of(conversation_id, *link, None, None) if is_linked else None,
    )


def link_of(conversation_id: ConversationId, row: Row) -> Link:
    """Return a link from the columns of `-- links`."""
    return _link_of(conversation_id, *from_columns(row))


def _link_of(conversation_id: ConversationId, *columns: Any) -> Link:
    seq, upstream, agent, version, directory, because, at_ms, ended_because, ended_at_ms = columns
    return Link(
        conversation_id=conversation_id,
        seq=seq,
        upstream_session_id=UpstreamSessionId(upstream),
        agent=agent,
        agent_version=version,
        working_directory=directory,
        opened_because=because,
        opened_at_ms=at_ms,
        ended_because=ended_because,
        ended_at_ms=ended_at_ms,
    )


def messages_of(
    conversation_id: ConversationId, rows: Iterable[Row], *, after_seq: int | None
) -> tuple[Message, ...]:
    """Return messages from the columns of `-- messages`, the first of them right after `after_seq`.

    `after_seq` is None when the first may have any number. StoreError names the message that is
    missing or damaged: none is ever skipped.
    """
    messages: list[Message] = []
    last_seq = after_seq
    for seq, together in groupby(rows, _SEQ):
        parts = list(together)
        try:
            if last_seq is not None and seq != last_seq + 1:
                raise _gap(seq, last_seq + 1)
            messages.append(_message_of(conversation_id, parts))
        except (StoreError, ValueError) as error:
            raise _damaged(conversation_id, seq, error) from error
        last_seq = seq
    return tuple(messages)


def _message_of(conversation_id: ConversationId, parts: list[Row]) -> Message:
    ordinals = [part[1] for part in parts]
    if ordinals != list(range(len(parts))):
        raise _gap(ordinals, list(range(len(parts))))
    seq, _, *author = parts[0][:6]
    return _message(
        conversation_id,
        (seq, *author),
        tuple(_part_of(*part[6:9]) for part in parts),
    )


def _part_of(kind: bytes, call_id: bytes | None, content: bytes | None) -> Part:
    called = None if call_id is None else decode_text(call_id)
    return decode_part(decode_text(kind), called, content)


def said_of(
    conversation_id: ConversationId, rows: Iterable[Row], *, newest: int
) -> tuple[Message, ...]:
    """Return messages that say something, oldest first, from the columns of `-- prior_parts`.

    Rows come newest first, and none is taken that is not needed.
    """
    said: list[Message] = []
    for seq, together in groupby(rows, _SEQ):
        parts = list(together)[::-1]
        try:
            texts = tuple(TextPart(text=decode_text(part[6])) for part in parts)
            if says_something(texts):
                said.append(_message(conversation_id, (seq, *parts[0][2:6]), texts))
        except (StoreError, ValueError) as error:
            raise _damaged(conversation_id, seq, error) from error
        if len(said) >= newest:
            break
    return tuple(said[::-1])


def _message(conversation_id: ConversationId, head: Row, parts: tuple[Part, ...]) -> Message:
    seq, speaker, turn_id, upstream, at_ms = from_columns(head)
    return Message(
        conversation_id=conversation_id,
        seq=seq,
        speaker=Speaker(speaker),
        turn_id=turn_id,
        upstream_session_id=upstream,
        recorded_at_ms=at_ms,
        parts=parts,
    )


def chained_parts(conversation_id: ConversationId, rows: Iterable[Row]) -> Iterator[ChainedPart]:
    """Return parts with what their chain covers, from the columns of `-- chained_parts`."""
    for row in rows:
        columns = from_columns(row[:8])
        yield ChainedPart(PartHeader(conversation_id, *columns), *row[8:])


def workstream_of(row: Row) -> Workstream:
    """Return a workstream from the columns of `-- workstream`."""
    project_id, workstream, base_name, at_ms = from_columns(row)
    return Workstream(
        project_id=project_id, workstream=workstream, base_name=base_name, opened_at_ms=at_ms
    )


def project_of(row: Row) -> KnownProject:
    """Return a project's identity from the columns of `-- projects`."""
    project_id, path, root_commit, remote, owner = from_columns(row)
    identity = ProjectIdentity(path=path, root_commit=root_commit, remote=remote, owner=owner)
    return KnownProject(project_id=project_id, identity=identity)


def turn_of(conversation_id: ConversationId, row: Row) -> Turn:
    """Return a turn from the columns of `-- turns`."""
    turn_id, at_ms, run_id = from_columns(row)
    return Turn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=at_ms, run_id=run_id)


def run_of(row: Row) -> Run:
    """Return a run from the columns of `-- runs`."""
    run_id, project_id, workstream, at_ms = from_columns(row)
    return Run(run_id=run_id, project_id=project_id, workstream=workstream, opened_at_ms=at_ms)


def refusal_of(conversation_id: ConversationId, row: Row) -> RecordDecision:
    """Return a decision that led to no turn from the columns of `-- refusals`."""
    decision, reasons, inputs, at_ms = row
    codes = decode_json(reasons)
    assert isinstance(codes, list), "written as a list"
    return RecordDecision(
        conversation_id=conversation_id,
        decision=decode_text(decision),
        reasons=tuple(map(str, codes)),
        inputs=decode_json(inputs),
        decided_at_ms=at_ms,
    )


def examined_of(row: Row) -> ExaminedFile:
    """Return a file from the columns of `-- examined`."""
    path, how, state, size_bytes, mtime_ns, digest = from_columns(row)
    return ExaminedFile(
        path=path, how=how, state=state, size_bytes=size_bytes, mtime_ns=mtime_ns, digest=digest
    )


def once_of(key: str, row: Row) -> Once:
    """Return an action as it stands from the columns of `-- once`."""
    _, attempt_id, state, receipt, at_ms = row
    words = from_columns((attempt_id, state))
    return Once(
        key=key,
        attempt_id=words[0],
        state=words[1],
        receipt=decode_json(receipt),
        recorded_at_ms=at_ms,
    )


def lease_of(name: str, row: Row) -> Lease:
    """Return a lease from the columns of `-- lease`."""
    token, heartbeat, host, boot_id, pid, started_at_ticks, doing = from_columns(row)
    holder = (
        None
        if host is None
        else Holder(
            host=host, boot_id=boot_id, pid=pid, started_at_ticks=started_at_ticks, doing=doing
        )
    )
    return Lease(name=name, token=token, heartbeat=heartbeat, holder=holder)


def _damaged(conversation_id: ConversationId, seq: object, error: Exception) -> StoreError:
    return StoreError(
        f"message {seq} of {conversation_id} is damaged: {error}",
        hint="run `upthread doctor`",
        conversation_id=conversation_id,
    )


def _gap(place: object, expected: object) -> StoreError:
    return StoreError(f"{expected} should follow, and {place} does")
