"""One transaction's view of the database: what its writes name, looked up together at its start.

Theory of operation. SQLite has one writer at a time; here each write has to keep off those that
would get in its way. Leases are share-locked, so that nobody takes one over before the commit.
Conversations are locked, so that parts are chained one after the other. All else is guarded by a
unique key: whoever comes second does its transaction again. Locks are taken in one order, leases
by name, then conversations by row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from psycopg import Pipeline

from upthread.core.codec import decode_text, encode_text
from upthread.core.types import Fence
from upthread.store._rules import FIRST_CHAIN, lost_lease, must_exist
from upthread.store.postgres.columns import Column, Row, from_columns
from upthread.store.postgres.queries import QUERIES
from upthread.store.postgres.server import Connection


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


NO_PART: Final = Tail(0, -1, (), FIRST_CHAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A write that is encoded: what it names, and what is left to do in the transaction."""

    apply: Callable[[Batch], None]
    conversation: bytes | None = None
    turn: bytes | None = None
    run: bytes | None = None


class Batch:
    """One transaction's writes, on a connection in a pipeline: `execute` waits for nothing."""

    def __init__(self, connection: Connection, pipeline: Pipeline) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self.tails: dict[bytes, Tail] = {}
        """Of the conversations that exist, of those the batch names."""
        self.turns: dict[bytes, Opened] = {}
        self.runs: dict[bytes, Opened] = {}

    def look_up(self, steps: Sequence[Step], fences: Sequence[Fence]) -> None:
        """Check the leases and read what the steps name. FencedError for a lease that is lost."""
        held = [
            (fence, self._ask("keep_held", (encode_text(fence.name), fence.token)))
            for fence in sorted(fences, key=lambda fence: fence.name)
        ]
        conversations = {step.conversation for step in steps}
        locked = self._ask_all("lock_conversations", conversations)
        tails = self._ask_all("tails", conversations)
        turns = self._ask_all("turns_to_write", {step.turn for step in steps})
        runs = self._ask_all("runs_to_write", {step.run for step in steps})
        self._sync()
        for fence, answer in held:
            if not answer():
                raise lost_lease(fence.name, fence.token)
        self.tails = {row[0]: NO_PART for row in locked()}
        for name, seq, ordinal, *author, chain in tails():
            self.tails[name] = Tail(seq, ordinal, tuple(author), chain)
        self.turns = {row[0]: Opened(from_columns(row[1:4]), *row[4:]) for row in turns()}
        self.runs = {row[0]: Opened(from_columns(row[1:4]), row[4]) for row in runs()}

    def execute(self, query: str, values: Sequence[Column]) -> None:
        """Send a statement that returns nothing."""
        self._connection.execute(QUERIES[query], values)

    def row(self, query: str, values: Sequence[Column]) -> Row | None:
        """Return one row, its text as text. Waits for the server."""
        found = self.content_row(query, values)
        return None if found is None else from_columns(found)

    def content_row(self, query: str, values: Sequence[Column]) -> Row | None:
        """Return one row that holds content, which stays bytes. Waits for the server."""
        rows = self.content_rows(query, values)
        return rows[0] if rows else None

    def content_rows(self, query: str, values: Sequence[Column]) -> list[Row]:
        """Return rows that hold content, which stays bytes. Waits for the server."""
        answer = self._ask(query, values)
        self._sync()
        return answer()

    def number(self, query: str, values: Sequence[Column]) -> int:
        """Return one number, 0 for NULL. Waits for the server."""
        found = self.content_row(query, values)
        return int(found[0] or 0) if found else 0

    def tail_of(self, conversation: bytes) -> Tail:
        """Return a conversation's last part. NotFoundError when it was never opened."""
        found = self.tails.get(conversation)
        return must_exist(found, what="conversation", name=decode_text(conversation))

    def turn_of(self, turn: bytes) -> Opened:
        """Return a turn. NotFoundError when it was never opened."""
        return must_exist(self.turns.get(turn), what="turn", name=decode_text(turn))

    def run_of(self, run: bytes) -> Opened:
        """Return a run. NotFoundError when it was never opened."""
        return must_exist(self.runs.get(run), what="run", name=decode_text(run))

    def _sync(self) -> None:
        """Wait for all answers.

        Synced, not only flushed: a server takes whoever is stopped in the middle of a pipeline for
        busy, and lets it keep its locks; after a sync it is idle, and cut off in time.
        """
        self._pipeline.sync()

    def _ask_all(self, query: str, names: Collection[bytes | None]) -> Callable[[], list[Row]]:
        named = [name for name in names if name is not None]
        return self._ask(query, (named,)) if named else list

    def _ask(self, query: str, values: Sequence[object]) -> Callable[[], list[Row]]:
        """Send a question; what is returned gives its answer, after `_sync`."""
        return self._connection.execute(QUERIES[query], values, binary=True).fetchall
