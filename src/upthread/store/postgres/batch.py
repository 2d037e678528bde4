"""One transaction's view of the database: what its writes name, known before they are applied.

Theory of operation. SQLite has one writer at a time; here each write has to keep off those that
would get in its way. Leases are share-locked, so that nobody takes one over before the commit.
Conversations are locked, so that parts are chained one after the other. All else is guarded by a
unique key: whoever comes second does its transaction again. Locks are taken in one order, leases
by name, then conversations by row.

What the writes name is looked up together at the start, by a `Transaction`, or is remembered from
an earlier one: see remembered.py. A `Batch` is the same to the writes in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from upthread.core.codec import decode_text, encode_text
from upthread.core.types import Fence
from upthread.store._rules import FIRST_CHAIN, lost_lease, must_exist
from upthread.store.postgres.at_once import Statement, at_once
from upthread.store.postgres.columns import Column, Row, from_columns
from upthread.store.postgres.queries import QUERIES
from upthread.store.postgres.server import Connection, Statements


class Tail(NamedTuple):
    """The last part of a conversation: where the next one goes."""

    seq: int
    ordinal: int
    author: Row
    """Speaker, turn and upstream session: one of each for all parts of a message."""
    chain: bytes


class Opened(NamedTuple):
    """A turn or run: what it was opened with, its last event's seq, where its next file goes."""

    columns: Row
    last_event: int
    next_file: int = 0


AT_ONCE_BYTES_MAX: Final = 1_000_000

NO_PART: Final = Tail(0, -1, (), FIRST_CHAIN)


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each commit, and that is slow
class Known:
    """What is known of what a batch names. `tails` are of the conversations that exist."""

    tails: dict[bytes, Tail] = field(default_factory=dict[bytes, Tail])
    turns: dict[bytes, Opened] = field(default_factory=dict[bytes, Opened])
    runs: dict[bytes, Opened] = field(default_factory=dict[bytes, Opened])


class Batch:
    """One transaction's writes. `send` waits for nothing; `ask` waits for the server's rows."""

    def __init__(
        self,
        known: Known,
        *,
        send: Callable[[str, Sequence[Column]], None],
        ask: Callable[[str, Sequence[Column]], list[Row]],
    ) -> None:
        self.tails, self.turns, self.runs = known.tails, known.turns, known.runs
        self.grown: dict[bytes, bytes] = {}
        """Conversations that got parts, and the chain each ended with before."""
        self.execute: Callable[[str, Sequence[Column]], None] = send
        self.content_rows: Callable[[str, Sequence[Column]], list[Row]] = ask
        """Return rows that hold content, which stays bytes."""

    def row(self, query: str, values: Sequence[Column]) -> Row | None:
        """Return one row, its text as text."""
        found = self.content_row(query, values)
        return None if found is None else from_columns(found)

    def content_row(self, query: str, values: Sequence[Column]) -> Row | None:
        """Return one row that holds content, which stays bytes."""
        rows = self.content_rows(query, values)
        return rows[0] if rows else None

    def number(self, query: str, values: Sequence[Column]) -> int:
        """Return one number, 0 for NULL."""
        found = self.content_row(query, values)
        return int(found[0] or 0) if found else 0

    def tail_of(self, conversation: bytes) -> Tail:
        """Return a conversation's last part. NotFoundError when it was never opened."""
        found = self.tails.get(conversation)
        return found or must_exist(found, what="conversation", name=decode_text(conversation))

    def turn_of(self, turn: bytes) -> Opened:
        """Return a turn. NotFoundError when it was never opened."""
        found = self.turns.get(turn)
        return found or must_exist(found, what="turn", name=decode_text(turn))

    def run_of(self, run: bytes) -> Opened:
        """Return a run. NotFoundError when it was never opened."""
        found = self.runs.get(run)
        return found or must_exist(found, what="run", name=decode_text(run))


class Step(NamedTuple):
    """A write that is encoded: what is left to do in the transaction, and what it names."""

    apply: Callable[[Batch], None]
    conversation: bytes | None = None
    turn: bytes | None = None
    run: bytes | None = None


class Transaction:
    """A transaction: what it looks up, then what it writes, each sent at once.

    Between the two the connection is idle, and whoever is stopped there is cut off in time. Of much
    that is written, each megabyte is an exchange of its own: it is kept in memory until it is sent.
    """

    def __init__(self, connection: Connection, before: Statements = ()) -> None:
        self._connection = connection
        self._before = before
        self._written: list[Statement] = []
        self._written_bytes = 0

    def look_up(self, steps: Sequence[Step], fences: Sequence[Fence]) -> Known:
        """Check the leases and read what the steps name. FencedError for a lease that is lost."""
        ordered = in_order(fences)
        leases = [
            (QUERIES["keep_held"], (encode_text(fence.name), fence.token)) for fence in ordered
        ]
        conversations = _named([step.conversation for step in steps])
        names = {
            "lock_conversations": conversations,
            "tails": conversations,
            "turns_to_write": _named([step.turn for step in steps]),
            "runs_to_write": _named([step.run for step in steps]),
        }
        questions = {query: (QUERIES[query], (named,)) for query, named in names.items() if named}
        said = at_once(self._connection, [_BEGIN, *self._before, *leases, *questions.values()])
        answers = said[1 + len(self._before) :]
        for fence, held in zip(ordered, answers, strict=False):
            if not held:
                raise lost_lease(fence.name, fence.token)
        found = dict(zip(questions, answers[len(leases) :], strict=True))
        known = Known(
            tails={row[0]: NO_PART for row in found.get("lock_conversations", ())},
            turns={
                row[0]: Opened(from_columns(row[1:4]), *row[4:])
                for row in found.get("turns_to_write", ())
            },
            runs={
                row[0]: Opened(from_columns(row[1:4]), row[4])
                for row in found.get("runs_to_write", ())
            },
        )
        for name, seq, ordinal, *author, chain in found.get("tails", ()):
            known.tails[name] = Tail(seq, ordinal, tuple(author), chain)
        return known

    def write(self, query: str, values: Sequence[Column]) -> None:
        """Add a statement whose answer nobody needs."""
        statement = (QUERIES[query], values)
        self._written_bytes += sum([len(each) for each in values if isinstance(each, bytes)])
        if self._written_bytes > AT_ONCE_BYTES_MAX:
            self._sent(statement)
        else:
            self._written.append(statement)

    def rows(self, query: str, values: Sequence[Column]) -> list[Row]:
        """Return rows as they are stored, after what was written so far. Waits for the server."""
        return self._sent((QUERIES[query], values))

    def commit(self) -> None:
        """Send what was written, and end."""
        self._sent(_COMMIT)

    def _sent(self, last: Statement) -> list[Row]:
        written, self._written, self._written_bytes = self._written, [], 0
        return at_once(self._connection, [*written, last])[-1]


_BEGIN: Final[Statement] = (b"BEGIN ISOLATION LEVEL READ COMMITTED", ())
_COMMIT: Final[Statement] = (b"COMMIT", ())


def _named(names: Iterable[bytes | None]) -> list[bytes]:
    return list({name for name in names if name is not None})


def in_order(fences: Sequence[Fence]) -> list[Fence]:
    """Return leases in the one order they are locked in."""
    return sorted(fences, key=lambda fence: fence.name)
