"""The reads of messages. Whole conversations are read by them, so calls are counted here."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import closing
from itertools import groupby
from typing import Any, Final

import msgspec

from upthread.core.context.prior_context import newest_exchanges
from upthread.core.types import ConversationId, Message, Part, TextPart
from upthread.errors import StoreError
from upthread.store import entries
from upthread.store.entries import SpokenRow
from upthread.store.kinds import PARTS, SAID, Place
from upthread.store.stream_reads import LAST, PAGE_ENTRIES, Span, StreamReads, conversation_state
from upthread.store.streams import Head

_SEARCHED_BY_ONE: Final = 64
_SAID_OF_AN_EXCHANGE: Final = 4

_Piece = tuple[int, Place, tuple[TextPart, ...]]
"""The time, the place and the texts of an entry that somebody said."""


class MessageReads(StreamReads):
    """What is read of messages."""

    def messages(
        self,
        conversation_id: ConversationId,
        *,
        after_seq: int = 0,
        first: int | None = None,
        newest: int | None = None,
    ) -> tuple[Message, ...]:
        """Return messages after `after_seq`, oldest first.

        With `first` only the first so many of them: whoever reads a long conversation whole reads
        it in pages. With `newest` only the last so many; it is asked for without `first`.
        """
        if newest is not None:
            return self._newest_messages(conversation_id, after_seq, newest)
        head = self.head("conversation", conversation_id)
        if head is None:
            return ()
        last = conversation_state(head).messages
        until = last if first is None else min(last, after_seq + max(first, 0))
        if after_seq >= until:
            return ()
        found = self._spoken(head, after_seq, None if first is None else until)
        # Else an error that somebody keeps would keep the reading open, too.
        with closing(found):
            return messages_of(conversation_id, found, after_seq=after_seq, until=until)

    def _newest_messages(
        self, conversation_id: ConversationId, after_seq: int, newest: int
    ) -> tuple[Message, ...]:
        head = self.head("conversation", conversation_id)
        if head is None or newest <= 0:
            return ()
        found: list[SpokenRow] = []  # newest first
        before, last, first = LAST, 0, 0
        while page := list(self.spoken(Span(head.row, PARTS, before=before, newest=newest))):
            found += page
            last = last or entries.place_of(page[0][2]).seq
            first = max(after_seq, last - newest) + 1
            place = entries.place_of(page[-1][2])
            if (place.seq, place.first_ordinal) <= (first, 0):
                break
            before = page[-1][0]
        if last < first or not found:
            return ()
        return messages_of(conversation_id, reversed(found), after_seq=first - 1, until=last)

    def said_in_messages(
        self, conversation_id: ConversationId, *, after_seq: int = 0, first: int
    ) -> tuple[bytes | None, ...]:
        """Return the JSON of what was said in messages, which are chosen as by `messages`.

        None for what was forgotten. For whoever looks for words and reads messages only where they
        are; nothing is checked.
        """
        head = self.head("conversation", conversation_id)
        if head is None:
            return ()
        found = self._spoken(head, after_seq, after_seq + first)
        return tuple(
            entries.as_bytes(said)
            for _, _, kept, said in found
            if entries.place_of(kept).seq > after_seq
        )

    def prior_messages(
        self,
        conversation_id: ConversationId,
        *,
        upstream_session_ids: Collection[str],
        newest: int,
    ) -> tuple[Message, ...]:
        """Return what was said in the newest so many exchanges, oldest message first (S22).

        An exchange is a prompt and its reply (core/context/prior_context.py), of a long one the
        beginning and the end. Of messages of users and assistants, with a text that is not blank,
        under no upstream session or one of the given; their other parts are left out.
        """
        head = self.head("conversation", conversation_id)
        if head is None or newest <= 0:
            return ()
        readable = frozenset({None, *upstream_session_ids})
        return newest_exchanges(self._said(conversation_id, head.row, readable, newest), newest)

    def _said(
        self, conversation_id: ConversationId, row: int, readable: frozenset[Any], newest: int
    ) -> Iterator[Message]:
        """Yield messages that say something, newest first, with their texts alone."""
        for _, parts in groupby(
            self._pieces(row, readable, newest), key=lambda piece: piece[1].seq
        ):
            pieces = list(parts)
            at_ms, place, _ = pieces[-1]
            texts = tuple(text for piece in reversed(pieces) for text in piece[2])
            message = _message(conversation_id, at_ms, place, texts)
            if message.text.strip():
                yield message

    def _pieces(self, row: int, readable: frozenset[Any], newest: int) -> Iterator[_Piece]:
        """Yield the texts of each entry that can be read, newest first."""
        before, limit = LAST, newest * _SAID_OF_AN_EXCHANGE
        while page := list(self.spoken(Span(row, (SAID,), before=before, newest=limit))):
            for _, at_ms, kept, said in page:
                place = entries.place_of(kept)
                if said is not None and place.upstream_session_id in readable:
                    parts = entries.parts_of(kept, said)
                    yield at_ms, place, tuple([each for each in parts if type(each) is TextPart])
            if len(page) < limit:
                return
            before, limit = page[-1][0], PAGE_ENTRIES

    def message_count(self, conversation_id: ConversationId) -> int:
        """Return the last message's `seq`, 0 for none."""
        head = self.head("conversation", conversation_id)
        return 0 if head is None else conversation_state(head).messages

    def _spoken(
        self, head: Head, after_seq: int, until: int | None
    ) -> Generator[SpokenRow, None, None]:
        """Yield what messages after one are made of, up to another; None: to the last."""
        row, after = head.row, self.place_of_message(head, after_seq + 1)
        if until is None:
            yield from self.spoken(Span(row, PARTS, after))
            return
        limit = until - after_seq + 1
        while page := list(self.spoken(Span(row, PARTS, after, first=limit))):
            for each in page:
                if entries.place_of(each[2]).seq > until:
                    return
                yield each
            after = page[-1][0]

    def place_of_message(self, head: Head, seq: int) -> int:
        """Return a place in a conversation's stream after which the message comes, not far away."""
        # Messages are in order, so halving finds one: there is no index to be kept by each commit.
        low, high = 0, head.last if seq > 1 else 0
        while high - low > _SEARCHED_BY_ONE:
            middle = (low + high) // 2
            page = list(self.spoken(Span(head.row, PARTS, middle, first=1)))
            if page and entries.place_of(page[0][2]).seq < seq:
                low = page[0][0]
            else:
                high = middle
        return low


def _message(
    conversation_id: ConversationId, at_ms: int, place: Place, parts: tuple[Part, ...]
) -> Message:
    return Message(
        conversation_id,
        place.seq,
        place.speaker,
        place.turn_id,
        place.upstream_session_id,
        at_ms,
        parts,
    )


_UNMARKED: Final = frozenset({"{", "[", ord("{"), ord("[")})
_UNREADABLE: Final = (
    *(StoreError, msgspec.MsgspecError, UnicodeDecodeError),
    *(TypeError, IndexError),  # another program wrote another type, or nothing
)


def messages_of(
    conversation_id: ConversationId, found: Iterable[SpokenRow], *, after_seq: int, until: int
) -> tuple[Message, ...]:
    """Return the messages after one from what they are made of, up to another at least.

    StoreError names the message that is missing or damaged: none is ever skipped.
    """
    messages: list[Message] = []
    seq, count, last_at_ms = after_seq, 0, 0
    place_of, parts_of = entries.PLACE.plain, entries.PARTS_OF_MESSAGE.plain
    place: Place | None = None
    # The loop over all entries of a conversation: calls and comparisons are counted here.
    for _, at_ms, kept, said in found:
        try:
            given = place_of(kept) if kept[0] in _UNMARKED else entries.place_of(kept)
            if given.seq <= after_seq:
                continue
            if said is not None and said[0] in _UNMARKED:
                parts = parts_of(said)
            else:
                parts = entries.parts_of(kept, said)
        except _UNREADABLE as error:
            raise _damaged(conversation_id, _seq_of(kept) or seq + 1, str(error)) from error
        if not given.first_ordinal and given.seq == seq + 1:
            seq, place, count, last_at_ms = seq + 1, given, len(parts), at_ms
            messages.append(_message(conversation_id, at_ms, given, parts))
        elif place is not None and given.seq == seq and given.first_ordinal == count:
            count += len(parts)
            parts = (*messages.pop().parts, *parts)
            messages.append(_message(conversation_id, last_at_ms, place, parts))
        else:
            missing = seq if given.seq == seq else seq + 1
            follows = f"part {given.first_ordinal} of message {given.seq} follows"
            raise _damaged(conversation_id, missing, follows)
    if seq < until:
        raise _damaged(conversation_id, seq + 1, "it is missing")
    return tuple(messages)


def _seq_of(kept: str | bytes) -> int | None:
    """Return the message that a damaged entry belongs to, None where even that is damaged."""
    try:
        return entries.place_of(kept).seq
    except StoreError:
        return None


def _damaged(conversation_id: ConversationId, seq: int, why: str) -> StoreError:
    return StoreError(
        f"message {seq} of {conversation_id} is damaged: {why}",
        hint="run `upthread doctor`",
        conversation_id=conversation_id,
    )
