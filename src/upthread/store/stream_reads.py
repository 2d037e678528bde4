"""The three reads that a store has, and what is made of them for every other read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple, cast

from upthread.core.types import ConversationId
from upthread.store.entries import Entry, SpokenRow, kept_of, not_whole, proved
from upthread.store.kinds import ConversationState
from upthread.store.streams import Head
from upthread.store.tags import StreamKind, own_tag

PAGE_ENTRIES: Final = 1_000
"""How many entries are read at once where all might be more than memory should hold."""

LAST: Final = 2**31 - 1
"""More than a stream has entries."""


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


def conversation_state(head: Head) -> ConversationState:
    """Return what a conversation's head holds."""
    return cast("ConversationState", head.state)
