"""The three reads that a store has, the messages made of them, and what every other read needs.

Whole conversations are read as messages, so calls are counted in their reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, Final, NamedTuple, cast

import msgspec

from upthread.core.context.prior_context import newest_exchanges
from upthread.core.types import ConversationId, Message, Part, Speaker, TextPart, TurnId
from upthread.errors import StoreError
from upthread.store import entries
from upthread.store.entries import Entry, SpokenRow, kept_of, not_whole, proved
from upthread.store.kinds import PARTS, SAID, ConversationState, Place
from upthread.store.streams import Head
from upthread.store.tags import StreamKind, own_tag

PAGE_ENTRIES: Final = 1_000
"""How many entries are read at once where all might be more than memory should hold."""

LAST: Final = 2**31 - 1
"""More than a stream has entries."""

_SEARCHED_BY_ONE: Final = 64
_SAID_OF_AN_EXCHANGE: Final = 4

_NOWHERE: Final = Place(0, Speaker.USER, TurnId(""))


class Found(NamedTuple):
    """A stream that was found by a tag: its head, the entry that was tagged, and its place."""

    head: Head
    seq: int
    nth: int


class Rows(NamedTuple):
    """All rows of a store as they are, for its proof; texts may be bytes.

    `tags` have a text, its `nth`, the stream and the entry; `streams` are those that entries name;
    `heads` have the columns that `head_of` reads.
    """

    tags: Sequence[tuple[Any, ...]]
    streams: Sequence[tuple[Any, ...]]
    heads: Sequence[tuple[Any, ...]]


class Span(NamedTuple):
    """Entries of one stream, of all kinds unless some are named: after `after`, before `before`.

    With `first` the first so many, with `newest` the last; with `only` the entries of these
    numbers, and nothing else is asked.
    """

    row: int
    kinds: tuple[str, ...] = ()
    after: int = 0
    before: int = LAST
    first: int | None = None
    newest: int | None = None
    only: tuple[int, ...] | None = None

    @property
    def limit(self) -> int | None:
        """How many entries are read at most; None: all of them."""
        is_whole = self.first is None and self.newest is None
        return None if is_whole else max(0, self.first or self.newest or 0)


class StreamReads(ABC):
    """What can be read of a store. What names an unknown id reads as nothing: None, 0 or empty."""

    @abstractmethod
    def found(self, text: str, *, newest: bool = False) -> tuple[Found, ...]:
        """Return the streams under a tag, oldest first; with `newest` the last one alone."""

    @abstractmethod
    def heads(self, project_id: str | None, kind: StreamKind) -> tuple[Head, ...]:
        """Return a project's heads of one kind in the order they were opened; None: of all."""

    @abstractmethod
    def entries(self, span: Span) -> Sequence[Entry]:
        """Return the entries of a span, in order."""

    @abstractmethod
    def spoken(self, span: Span) -> Iterable[SpokenRow]:
        """Return what messages are made of, in order; with `newest`, newest first. Read once.

        Apart from `entries`, because whole conversations are read by it.
        """

    def moment(self) -> AbstractContextManager[None]:
        """Return a block in which a store may read each head and each span once."""
        return nullcontext()

    def all_entries(self, row: int, kinds: tuple[str, ...] = ()) -> Iterator[Entry]:
        """Yield all entries of a stream, in pages: it may be larger than memory should hold."""
        after = -1
        while page := self.entries(Span(row, kinds, after, first=PAGE_ENTRIES)):
            yield from page
            after = page[-1].seq

    def head(self, kind: StreamKind, name: str, project_id: str = "") -> Head | None:
        """Return a stream's head, None for one that was never opened."""
        for head, *_ in self.found(own_tag(kind, name, project_id)):
            if head.name != name or head.kind != kind:
                raise not_whole(f"the name of {kind} {name}, which leads to {head.name},")
            return head
        return None

    def _values(self, head: Head, span: Span) -> list[tuple[Entry, Any]]:
        """Return entries of a stream with what they keep, each of them proved."""
        found = proved(self.entries(span), what=f"{head.kind} {head.name}", first=head.first)
        return [(entry, kept_of(entry)) for entry in found]

    def _values_of(
        self, conversation_id: ConversationId, kind: str, *, newest: int | None = None
    ) -> list[tuple[Entry, Any]]:
        head = self.head("conversation", conversation_id)
        if head is None:
            return []
        return self._values(head, Span(head.row, (kind,), newest=newest))

    # --- messages ---------------------------------------------------------------------------------

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
        # One more than the exchanges have, most often: the one before tells that they are whole.
        before, limit = LAST, newest * _SAID_OF_AN_EXCHANGE + 2
        at, said_at_ms = _NOWHERE, 0
        texts: tuple[TextPart, ...] = ()
        while page := list(self.spoken(Span(row, (SAID,), before=before, newest=limit))):
            for _, at_ms, kept, said in page:
                place = entries.place_of(kept)
                if said is None or place.upstream_session_id not in readable:
                    continue
                parts = entries.parts_of(kept, said)
                found = tuple([each for each in parts if type(each) is TextPart])
                if place.seq != at.seq:
                    if any(each.text.strip() for each in texts):
                        yield _message(conversation_id, said_at_ms, at, texts)
                    texts = ()
                # A long message has several entries. It has the time and the place of its first.
                at, said_at_ms, texts = place, at_ms, (*found, *texts)
            if len(page) < limit:
                break
            before, limit = page[-1][0], min(2 * limit, PAGE_ENTRIES)
        if any(each.text.strip() for each in texts):
            yield _message(conversation_id, said_at_ms, at, texts)

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


def conversation_state(head: Head) -> ConversationState:
    """Return what a conversation's head holds."""
    return cast("ConversationState", head.state)


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
