"""What a write sees of its transaction: one port, so that each write is written once.

Theory of operation. A write is encoded before the transaction begins, since JSON and hashes need
no lock, and becomes a `Step`. Within the transaction a backend applies its steps to a `Batch`.
The backends differ in three things, and those are the methods here: what rows name their owner by
(the number of a row on SQLite, its id on PostgreSQL), what is known without asking (PostgreSQL
looks up at the start all that the steps name, SQLite asks where it needs to: a question costs it
microseconds, not an exchange with a server), and how a place is guarded from other writers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from upthread.core.codec import decode_text
from upthread.core.commands import EnqueueTransition
from upthread.store._rules import FIRST_CHAIN

Row: TypeAlias = tuple[Any, ...]
"""What a database returns: column types are the schema's, not the type checker's."""

Column: TypeAlias = str | bytes | int | None

Owner: TypeAlias = Literal["conversation", "turn", "run"]
"""A table whose rows others belong to."""


OwnerKey: TypeAlias = Any
"""What rows name an owner by: a row's number, or an id as bytes. It goes back as it came."""


class ToColumns(Protocol):
    """Values as a backend's driver takes them; None is NULL."""

    def __call__(self, *values: str | int | None) -> tuple[Column, ...]: ...


def from_columns(row: Row) -> Row:
    """Return a row with its text as text. Not for columns that hold content, which is bytes."""
    # Most rows on SQLite, which gives text as text.
    if bytes not in map(type, row):
        return row
    # From a list: twice as fast as from a generator, and there is one for each row.
    return tuple([decode_text(each) if type(each) is bytes else each for each in row])


class Tail(NamedTuple):
    """The last part of a conversation: where the next one goes."""

    seq: int
    ordinal: int
    author: Row
    """Speaker, turn and upstream session: one of each for all parts of a message."""
    chain: bytes


# Such that part 0 of message 1 follows it as any part follows another.
NO_PART: Final = Tail(0, -1, (), FIRST_CHAIN)


class Batch(Protocol):
    """One transaction's writes."""

    # By position alone, here and below: a backend may have it as an attribute, to spare calls.
    def execute(self, query: str, values: Sequence[Column], /) -> None:
        """Run a statement whose answer nobody needs."""
        ...

    def row(self, query: str, values: Sequence[Column]) -> Row | None:
        """Return one row, its text as text."""
        ...

    def content_row(self, query: str, values: Sequence[Column]) -> Row | None:
        """Return one row that holds content, which stays bytes."""
        ...

    def content_rows(self, query: str, values: Sequence[Column], /) -> list[Row]:
        """Return all rows of one statement, content as bytes."""
        ...

    def number(self, query: str, values: Sequence[Column]) -> int:
        """Return one number, 0 for NULL."""
        ...

    def owner(self, table: Owner, name: str, *, within: str | None = None) -> OwnerKey:
        """Return what rows name an owner by. NotFoundError when it was never opened (S21).

        `within` is the conversation that a turn must be of, None for a turn of any.
        """
        ...

    def upstream(self, name: str | None) -> Column:
        """Return what rows name an upstream session by, None without one."""
        ...

    def opened(self, table: Owner, name: str) -> Row | None:
        """Return what a turn or run was opened with, its text as text; None: it was not."""
        ...

    def open(self, table: Owner, name: str, values: Sequence[Column], given: Row) -> None:
        """Write a new owner; `given` is what `opened` is to return of it."""
        ...

    def append_event(
        self, table: Owner, name: str, seq: int, event: tuple[Column, bytes, int]
    ) -> bool:
        """Append an event: kind, payload, time. False, and nothing done, when it is not next.

        NotFoundError when its owner was never opened (S21).
        """
        ...

    def last_event(self, table: Owner, owner: OwnerKey) -> int:
        """Return the `seq` of an owner's last event, 0 without one."""
        ...

    def enqueue(self, run: OwnerKey, write: EnqueueTransition) -> None:
        """Put a transition into the outbox, and tell whoever carries it out."""
        ...

    def place_files(self, turn: OwnerKey, ordinals: range) -> Mapping[int, Row]:
        """Return what is at some places of a turn; the caller fills those that are free."""
        ...

    def append_attempt(self, last: Row | None, values: Sequence[Column]) -> None:
        """Append a step of an action after its last one, a row of `-- once` (S23)."""
        ...

    def tail(self, conversation: OwnerKey) -> Tail:
        """Return the last part of a conversation that exists, NO_PART without one."""
        ...

    def grow(self, conversation: OwnerKey, tail: Tail) -> None:
        """Make another part the tail: it was written."""
        ...


class Step(NamedTuple):
    """A write that is encoded: what is left to do in the transaction, and whom it names."""

    apply: Callable[[Batch], None]
    # What PostgreSQL looks up, locks and forgets by: its `owner` finds none but these, and what the
    # batch itself has opened.
    conversation: str | None = None
    turn: str | None = None
    run: str | None = None
