"""Rows to values, for every SQL backend. Text may come as bytes, as PostgreSQL has it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, cast

from upthread.core.codec import (
    SAID,
    decode_json,
    decode_part,
    decode_run_event,
    decode_text,
    decode_turn_event,
)
from upthread.core.commands import RecordDecision, RecordRunEvent, RecordTurnEvent
from upthread.core.decision.examined import ExaminedFile
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
    RunId,
    Speaker,
    TextPart,
    TurnId,
)
from upthread.errors import StoreError
from upthread.store._rules import ChainedPart, PartHeader, must_count, says_something
from upthread.store.base import (
    KnownProject,
    Once,
    Quarantined,
    Resolved,
    Run,
    StoredEdit,
    Turn,
    Workstream,
)
from upthread.store.sql.batch import Row, from_columns
from upthread.store.sql.statements import COLUMNS

# By position, in the order of the fields: by name takes twice as long, and `resolve` and the reads
# of whole conversations are where it is felt.
_make_link: Callable[..., Link] = Link
_make_message: Callable[..., Message] = Message

_OF_A_LINK: Final = ("conversation_id", *COLUMNS["link"], "ended_because", "ended_at_ms")
assert Link.__struct_fields__ == _OF_A_LINK, "a link is made by position"

_COLUMNS_OF_A_FILE: Final = len(COLUMNS["examined"])

# By the word as text and as bytes: there is one for each part, and decoding it would be felt.
# Dictionaries: a look into a read-only view of one takes longer.
_SPEAKERS: Final[dict[str | bytes, Speaker]] = {
    word: each for each in Speaker for word in (each.value, each.value.encode())
}
_SAID: Final[dict[str | bytes, Callable[[str], Part]]] = {
    word: make for kind, make in SAID.items() for word in (kind, kind.encode())
}


# --- projects, workstreams, conversations ------------------------------------------------------


def project_of(row: Row) -> KnownProject:
    """Return a project's identity from the columns of `-- projects`."""
    project_id, *identity = from_columns(row)
    return KnownProject(project_id=project_id, identity=ProjectIdentity(*identity))


def workstream_of(row: Row) -> Workstream:
    """Return a workstream from the columns of `-- workstream`."""
    return Workstream(*from_columns(row))


def conversation_of(row: Row) -> Conversation:
    """Return a conversation from the columns of `-- conversation`."""
    conversation_id, project, workstream, role, slot, *others = from_columns(row)
    key = ConversationKey(project_id=project, workstream=workstream, role=role, slot=slot)
    return Conversation(conversation_id, key, *others)


def resolved_of(key: ConversationKey, row: Row) -> Resolved:
    """Return an address as it stands from the columns of `-- resolve`."""
    conversation_id, generation, base, at_ms, parent, call, seq, *opened = from_columns(row)
    return Resolved(
        Conversation(conversation_id, key, generation, base, at_ms, parent, call),
        None if seq is None else _make_link(conversation_id, seq, *opened, None, None),
    )


def links_of(conversation_id: ConversationId, rows: Collection[Row]) -> tuple[Link, ...]:
    """Return all links of a conversation from the columns of `-- links`; none may be missing."""
    # A row that is gone has no seal to tell of it; the numbers of those around it do.
    must_count((row[0] for row in rows), what="link", owner=conversation_id)
    return tuple(_make_link(conversation_id, *from_columns(row)) for row in rows)


def link_of(conversation_id: ConversationId, row: Row) -> Link:
    """Return a link that has not ended from its columns."""
    return _make_link(conversation_id, *from_columns(row), None, None)


# --- messages ----------------------------------------------------------------------------------


def messages_of(
    conversation_id: ConversationId,
    rows: Iterable[Row],
    *,
    after_seq: int | None,
    turns: Mapping[Any, Any],
    upstreams: Mapping[Any, Any],
) -> tuple[Message, ...]:
    """Return messages from the columns of `-- messages`, the first of them right after `after_seq`.

    `after_seq` is None when the first may have any number. `turns` and `upstreams` have the ids
    behind the columns, None behind None. StoreError names the message that is missing or damaged:
    none is ever skipped. Rows are taken one at a time, so that of a long conversation only the
    values are held.
    """
    messages: list[Message] = []
    head: tuple[Any, ...] = ()
    parts: list[Part] = []
    last_seq = after_seq
    said = _SAID.get
    try:
        # The loop over all rows of a conversation: calls and comparisons are counted here.
        for seq, ordinal, speaker, turn, upstream, at_ms, kind, call_id, content in rows:
            if ordinal == 0:
                if last_seq is not None and seq != last_seq + 1:
                    last_seq += 1  # the one that is missing
                    raise _gap(seq, last_seq)
                if parts:
                    messages.append(_make_message(conversation_id, *head, tuple(parts)))
                    parts.clear()
                last_seq = seq
                head = (seq, _SPEAKERS[speaker], turns[turn], upstreams[upstream], at_ms)
            elif seq != last_seq or ordinal != len(parts):
                expected, last_seq = (last_seq, len(parts)), seq
                raise _gap((seq, ordinal), expected)
            make_said = said(kind)
            if make_said is not None and content is not None:
                parts.append(make_said(decode_text(content)))
                continue
            if type(kind) is bytes or type(call_id) is bytes:
                kind, call_id = from_columns((kind, call_id))  # noqa: PLW2901  # as text
            parts.append(decode_part(kind, call_id, content))
    except (StoreError, KeyError) as error:
        raise _damaged(conversation_id, last_seq, error) from error
    if parts:
        messages.append(_make_message(conversation_id, *head, tuple(parts)))
    return tuple(messages)


def said_of(
    conversation_id: ConversationId,
    rows: Iterable[Row],
    *,
    readable: Collection[str | None],
    turns: Mapping[Any, Any],
    upstreams: Mapping[Any, Any],
) -> Iterator[Message]:
    """Yield messages that say something, newest first, from the columns of `-- prior_parts`.

    Rows come newest first, and none is taken that is not needed. `readable` are the upstream
    sessions whose words count; `turns` and `upstreams` are as in `messages_of`.
    """
    texts: list[TextPart] = []
    head: tuple[Any, ...] = ()
    last_seq = 0
    try:
        for seq, speaker, turn, upstream, at_ms, content in rows:
            if seq != last_seq:
                if texts and says_something(texts):
                    yield _make_message(*head, tuple(texts[::-1]))
                texts = []
                last_seq = seq
            session = upstreams[upstream]
            # Asked here for SQLite, whose statement reads the texts of all sessions.
            if session in readable:
                if not texts:
                    speaker_of = _SPEAKERS[speaker]
                    head = (conversation_id, seq, speaker_of, turns[turn], session, at_ms)
                texts.append(TextPart(decode_text(content)))
    except (StoreError, KeyError) as error:
        raise _damaged(conversation_id, last_seq, error) from error
    if texts and says_something(texts):
        yield _make_message(*head, tuple(texts[::-1]))


def chained_parts(conversation_id: ConversationId, rows: Iterable[Row]) -> Iterator[ChainedPart]:
    """Return parts with what their chain covers, from the columns of `-- chained_parts`."""
    for row in rows:
        columns = from_columns(row[:8])
        yield ChainedPart(PartHeader(conversation_id, *columns), *row[8:])


def _damaged(conversation_id: ConversationId, seq: object, error: Exception) -> StoreError:
    return StoreError(
        f"message {seq} of {conversation_id} is damaged: {error}",
        hint="run `upthread doctor`",
        conversation_id=conversation_id,
    )


def _gap(place: object, expected: object) -> StoreError:
    return StoreError(f"{expected} should follow, and {place} does")


# --- turns, runs and their events --------------------------------------------------------------


def turn_of(conversation_id: ConversationId, row: Row) -> Turn:
    """Return a turn from the columns of `-- turns`."""
    turn_id, at_ms, run_id = from_columns(row)
    return Turn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=at_ms, run_id=run_id)


def run_of(row: Row) -> Run:
    """Return a run from the columns of `-- runs`."""
    return Run(*from_columns(row))


def turn_events_of(
    conversation_id: ConversationId, turn_id: TurnId, rows: Collection[Row]
) -> tuple[RecordTurnEvent, ...]:
    """Return a turn's events from the columns of `-- turn_events`; none may be missing."""
    must_count((row[0] for row in rows), what="event", owner=turn_id)
    return tuple(turn_event_of(conversation_id, turn_id, row) for row in rows)


def turn_event_of(conversation_id: ConversationId, turn_id: TurnId, row: Row) -> RecordTurnEvent:
    """Return one event of a turn from the columns of `-- turn_events`."""
    seq, kind, payload, at_ms = row
    return RecordTurnEvent(
        conversation_id=conversation_id,
        turn_id=turn_id,
        seq=seq,
        event=decode_turn_event(_text(kind), payload),
        recorded_at_ms=at_ms,
    )


def run_events_of(run_id: RunId, rows: Collection[Row]) -> tuple[RecordRunEvent, ...]:
    """Return a run's events from the columns of `-- run_events`; none may be missing."""
    must_count((row[0] for row in rows), what="event", owner=run_id)
    return tuple(run_event_of(run_id, row) for row in rows)


def run_event_of(run_id: RunId, row: Row) -> RecordRunEvent:
    """Return one event of a run from the columns of `-- run_events`."""
    seq, kind, payload, at_ms = row
    event = decode_run_event(_text(kind), payload)
    return RecordRunEvent(run_id=run_id, seq=seq, event=event, recorded_at_ms=at_ms)


# --- what belongs to no message ----------------------------------------------------------------


def refusal_of(conversation_id: ConversationId, row: Row) -> RecordDecision:
    """Return a decision that led to no turn from the columns of `-- refusals`."""
    decision, reasons, inputs, at_ms = row
    return RecordDecision(
        conversation_id=conversation_id,
        decision=_text(decision),
        reasons=tuple(map(str, cast("list[str]", decode_json(reasons)))),
        inputs=decode_json(inputs),
        decided_at_ms=at_ms,
    )


def quarantined_of(turn_id: TurnId, row: Row) -> Quarantined:
    """Return an event without an owner from the columns of `-- quarantined`."""
    ordinal, reason, raw = row
    return Quarantined(turn_id=turn_id, ordinal=ordinal, reason=_text(reason), raw=decode_json(raw))


def examined_of(row: Row) -> ExaminedFile:
    """Return a file from the first columns of `-- examined`."""
    return ExaminedFile(*from_columns(row[:_COLUMNS_OF_A_FILE]))


def briefing_edit_of(row: Row) -> StoredEdit:
    """Return an edit from the columns of `-- briefing_edit`."""
    seq, edit, at_ms = row
    return StoredEdit(seq=seq, edit=decode_json(edit), recorded_at_ms=at_ms)


def once_of(key: str, row: Row) -> Once:
    """Return an action as it stands from the first columns of `-- once`."""
    attempt_id, state, receipt, at_ms = row[:4]
    return Once(
        key=key,
        attempt_id=_text(attempt_id),
        state=cast("Any", _text(state)),
        receipt=decode_json(receipt),
        recorded_at_ms=at_ms,
    )


def lease_of(name: str, row: Row) -> Lease:
    """Return a lease from the columns of `-- lease`."""
    token, heartbeat, host, boot_id, pid, started_at_ticks, doing, call = from_columns(row)
    holder = (
        None
        if host is None
        else Holder(
            host=host,
            boot_id=boot_id,
            pid=pid,
            started_at_ticks=started_at_ticks,
            doing=doing,
            call=call,
        )
    )
    return Lease(name=name, token=token, heartbeat=heartbeat, holder=holder)


def _text(value: str | bytes) -> str:
    return decode_text(value) if isinstance(value, bytes) else value
