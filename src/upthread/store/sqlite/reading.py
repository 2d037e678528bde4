"""Rows to values. Every read is one statement, or two where names are looked up for many rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from upthread.core.codec import SAID, decode_json, decode_part, decode_text
from upthread.core.examined import ExaminedFile
from upthread.core.making import maker
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Link,
    Message,
    Part,
    Speaker,
    TextPart,
    UpstreamSessionId,
)
from upthread.errors import StoreError
from upthread.store._rules import ChainedPart, PartHeader, says_something
from upthread.store.base import Once, Resolved
from upthread.store.sqlite.database import Database, Row, from_columns
from upthread.store.sqlite.queries import QUERIES

NAMES_MAX: Final = 4096
"""How many turn ids and upstream ids a store remembers the names of."""

_make_conversation: Final = maker(Conversation)
_make_examined: Final = maker(ExaminedFile)
_make_link: Final = maker(Link)
_make_message: Final = maker(Message)
_make_text: Final = maker(TextPart)
_make_resolved: Final = maker(Resolved)
_SPEAKERS: Final[Mapping[str, Speaker]] = MappingProxyType({each.value: each for each in Speaker})


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
    conversation_id, generation, base, at_ms, parent, call, seq, *opened = row
    return _make_resolved(
        _make_conversation(conversation_id, key, generation, base, at_ms, parent, call),
        None if seq is None else _make_link(conversation_id, seq, *opened, None, None),
    )


def link_of(  # noqa: PLR0917  # the columns of `-- links`
    conversation_id: ConversationId,
    seq: int,
    upstream: str,
    agent: str,
    version: str,
    directory: str,
    because: str,
    at_ms: int,
    ended_because: str | None = None,
    ended_at_ms: int | None = None,
) -> Link:
    """Return a link from its columns, in their order."""
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


class Names(dict[int | None, Any]):
    """The ids behind rows, remembered. One that is missing is looked up with those that follow it.

    KeyError for a row that does not exist.
    """

    def __init__(self, database: Database, query: str) -> None:
        super().__init__({None: None})
        self._database = database
        self._query = QUERIES[query]

    def __missing__(self, row: int) -> Any:
        found: dict[int, Any] = {}
        found.update(map(from_columns, self._database.rows(self._query, (row,))))
        for each, name in found.items():
            self.learn(each, name)
        return found[row]

    def learn(self, row: int, name: str) -> None:
        """Remember a name that was committed."""
        if len(self) > NAMES_MAX:
            self.clear()
            self[None] = None
        self[row] = name


def messages_of(
    conversation_id: ConversationId,
    rows: Iterable[Row],
    *,
    after_seq: int | None,
    turns: Names,
    upstreams: Names,
) -> tuple[Message, ...]:
    """Return messages from the columns of `-- messages`, the first of them right after `after_seq`.

    `after_seq` is None when the first may have any number. StoreError names the message that is
    missing or damaged: none is ever skipped. Rows are taken one at a time, so that of a long
    conversation only the values are held.
    """
    messages: list[Message] = []
    head: tuple[Any, ...] = ()
    parts: list[Part] = []
    last_seq = after_seq
    said = SAID
    try:
        # The loop over all rows of a conversation: calls and comparisons are counted here.
        for seq, ordinal, speaker, turn, upstream, at_ms, kind, call_id, content in rows:
            if ordinal == 0:
                if last_seq is not None and seq != last_seq + 1:
                    raise _gap(seq, last_seq + 1)
                if parts:
                    messages.append(_make_message(*head, tuple(parts)))
                    parts.clear()
                last_seq = seq
                speaker_of = _SPEAKERS[speaker]
                head = (conversation_id, seq, speaker_of, turns[turn], upstreams[upstream], at_ms)
            elif seq != last_seq or ordinal != len(parts):
                raise _gap((seq, ordinal), (last_seq, len(parts)))
            make_said = said.get(kind)
            if make_said is not None and content is not None:
                parts.append(make_said(decode_text(content)))
                continue
            if type(kind) is bytes or type(call_id) is bytes:
                kind, call_id = from_columns((kind, call_id))  # noqa: PLW2901  # as text
            parts.append(decode_part(kind, call_id, content))
    except (StoreError, KeyError) as error:
        raise _damaged(conversation_id, last_seq, error) from error
    if parts:
        messages.append(_make_message(*head, tuple(parts)))
    return tuple(messages)


def said_of(
    conversation_id: ConversationId,
    rows: Iterable[Row],
    *,
    newest: int,
    readable: Collection[str | None],
    turns: Names,
    upstreams: Names,
) -> tuple[Message, ...]:
    """Return messages that say something, oldest first, from the columns of `-- prior_parts`.

    Rows come newest first, and none is taken that is not needed.
    """
    said: list[Message] = []
    texts: list[TextPart] = []
    head: tuple[Any, ...] = ()
    last_seq = 0
    try:
        for seq, speaker, turn, upstream, at_ms, content in rows:
            if seq != last_seq:
                if texts and says_something(texts):
                    said.append(_make_message(*head, tuple(texts[::-1])))
                    if len(said) >= newest:
                        return tuple(said[::-1])
                texts = []
                last_seq = seq
            session = upstreams[upstream]
            if session in readable:
                if not texts:
                    speaker_of = _SPEAKERS[speaker]
                    head = (conversation_id, seq, speaker_of, turns[turn], session, at_ms)
                texts.append(_make_text(decode_text(content)))
    except (StoreError, KeyError) as error:
        raise _damaged(conversation_id, last_seq, error) from error
    if texts and says_something(texts):
        said.append(_make_message(*head, tuple(texts[::-1])))
    return tuple(said[::-1])


def examined_of(row: Row) -> ExaminedFile:
    """Return a file from the columns of `-- examined`."""
    return _make_examined(*from_columns(row[:6]))


def once_of(key: str, row: Row) -> Once:
    """Return an action as it stands, from the columns of `-- once`."""
    attempt_id, state, receipt, at_ms = row
    return Once(
        key=key,
        attempt_id=from_columns((attempt_id,))[0],
        state=state,
        receipt=decode_json(receipt),
        recorded_at_ms=at_ms,
    )


def _damaged(conversation_id: ConversationId, seq: object, error: Exception) -> StoreError:
    return StoreError(
        f"message {seq} of {conversation_id} is damaged: {error}",
        hint="run `upthread doctor`",
        conversation_id=conversation_id,
    )


def _gap(place: object, expected: object) -> StoreError:
    return StoreError(f"{expected} should follow, and {place} does")


def chained_parts(conversation_id: ConversationId, rows: Iterable[Row]) -> Iterator[ChainedPart]:
    """Return parts with what their chain covers, from the columns of `-- chained_parts`."""
    for row in rows:
        columns = from_columns(row[:8])
        yield ChainedPart(PartHeader(conversation_id, *columns), *row[8:])
