"""Rows to values. Every read is one statement, or two where names are looked up for many rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from upthread.core.codec import decode_part, encode_json
from upthread.core.making import maker
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Link,
    Message,
    Part,
    Speaker,
    UpstreamSessionId,
)
from upthread.errors import StoreError
from upthread.store._rules import ChainedPart, PartHeader
from upthread.store.base import Resolved
from upthread.store.sqlite.database import Database, Row, from_columns
from upthread.store.sqlite.queries import QUERIES

NAMES_MAX: Final = 4096
"""How many turn ids and upstream ids a store remembers the names of."""

_make_conversation: Final = maker(Conversation)
_make_link: Final = maker(Link)
_make_message: Final = maker(Message)
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


class Names:
    """The ids behind rows, looked up for many rows at once and remembered."""

    def __init__(self, database: Database, query: str) -> None:
        self._database = database
        self._query = QUERIES[query]
        self._names: dict[int | None, Any] = {None: None}

    def learn(self, row: int, name: str) -> None:
        """Remember a name that was just committed."""
        if len(self._names) > NAMES_MAX:
            self._names = {None: None}
        self._names[row] = name

    def of(self, rows: set[int | None]) -> Mapping[int | None, Any]:
        """Return a mapping that holds at least these rows. Whose ids they are, the caller knows."""
        missing = [row for row in rows if row not in self._names]
        if missing:
            if len(self._names) > NAMES_MAX:
                self._names = {None: None}
                missing = list(rows)
            found = self._database.rows(
                self._query, (encode_json(sorted(filter(None, missing))).decode(),)
            )
            self._names.update(map(from_columns, found))
        return self._names


_Head: TypeAlias = tuple[int, str, int, int | None, int, list[Part]]
"""A message as its first part tells it (seq, speaker, turn, upstream, time), and its parts."""


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
    heads: list[_Head] = []
    last_seq = after_seq
    parts: list[Part] = []
    try:
        for seq, ordinal, speaker, turn, upstream, at_ms, kind, call_id, content in rows:
            if ordinal == 0:
                if last_seq is not None and seq != last_seq + 1:
                    raise _gap(seq, last_seq + 1)
                parts = []
                heads.append((seq, speaker, turn, upstream, at_ms, parts))
            elif seq != last_seq or ordinal != len(parts):
                raise _gap((seq, ordinal), (last_seq, len(parts)))
            last_seq = seq
            if type(kind) is bytes or type(call_id) is bytes:
                kind, call_id = from_columns((kind, call_id))  # noqa: PLW2901  # as text
            parts.append(decode_part(kind, call_id, content))
        return _messages(conversation_id, heads, turns=turns, upstreams=upstreams)
    except (StoreError, KeyError) as error:
        raise StoreError(
            f"message {last_seq} of {conversation_id} is damaged: {error}",
            hint="run `upthread doctor`",
            conversation_id=conversation_id,
        ) from error


def _messages(
    conversation_id: ConversationId, heads: list[_Head], *, turns: Names, upstreams: Names
) -> tuple[Message, ...]:
    turn_ids = turns.of({turn for _, _, turn, _, _, _ in heads})
    upstream_ids = upstreams.of({upstream for _, _, _, upstream, _, _ in heads})
    return tuple(
        [
            _make_message(
                conversation_id,
                seq,
                _SPEAKERS[speaker],
                turn_ids[turn],
                upstream_ids[upstream],
                at_ms,
                tuple(parts),
            )
            for seq, speaker, turn, upstream, at_ms, parts in heads
        ]
    )


def _gap(place: object, expected: object) -> StoreError:
    return StoreError(f"{expected} should follow, and {place} does")


def chained_parts(conversation_id: ConversationId, rows: Iterable[Row]) -> Iterator[ChainedPart]:
    """Return parts with what their chain covers, from the columns of `-- chained_parts`."""
    for row in rows:
        columns = from_columns(row[:8])
        yield ChainedPart(PartHeader(conversation_id, *columns), *row[8:])
