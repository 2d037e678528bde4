"""One transaction's view of the database: statements by name, rows of ids, where parts go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from upthread.core.commands import EnqueueTransition
from upthread.store._rules import must_exist
from upthread.store.sql.batch import NO_PART, Column, Owner, Row, Tail, from_columns
from upthread.store.sqlite.database import Connection, to_column
from upthread.store.sqlite.queries import QUERIES

ROWS_MAX: Final = 4096
"""How many ids of one table a store remembers the rows of."""


class Rows:
    """The rows of ids, which never change. Forgotten whole when a transaction fails."""

    def __init__(self) -> None:
        self._tables: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def get(self, table: str, name: str) -> int | None:
        return self._tables[table].get(name)

    def put(self, table: str, name: str, row: int) -> None:
        known = self._tables[table]
        if len(known) >= ROWS_MAX:
            # All at once: to drop the oldest alone, each look would have to keep an order.
            known.clear()
        known[name] = row

    def forget(self) -> None:
        self._tables.clear()


class Batch:
    """One transaction's writes, as `store.sql.batch.Batch` has it: owners are rows."""

    def __init__(self, connection: Connection, rows: Rows) -> None:
        self._connection = connection
        self._rows = rows
        # For this transaction alone: before the next one another process may have written.
        self._tails: dict[Column, Tail] = {}
        self.minted: list[tuple[str, int, str]] = []
        """Table, row and name of all that this transaction opened."""

    def execute(self, query: str, values: Sequence[Column]) -> None:
        self._connection.execute(QUERIES[query], tuple(values))

    def row(self, query: str, values: Sequence[Column]) -> Row | None:
        found = self.content_row(query, values)
        return None if found is None else from_columns(found)

    def content_row(self, query: str, values: Sequence[Column]) -> Row | None:
        return self._connection.execute(QUERIES[query], tuple(values)).fetchone()

    def content_rows(self, query: str, values: Sequence[Column]) -> list[Row]:
        return self._connection.execute(QUERIES[query], tuple(values)).fetchall()

    def number(self, query: str, values: Sequence[Column]) -> int:
        found = self.content_row(query, values)
        return int(found[0] or 0) if found else 0

    def owner(self, table: Owner, name: str) -> int:
        row = self._known(table, name)
        return must_exist(row, what=table, name=name)

    def upstream(self, name: str | None) -> int | None:
        """Return the row of an upstream id, which is written down at its first use."""
        if name is None:
            return None
        row = self._known("upstream", name)
        return self._mint("upstream", name, (to_column(name),)) if row is None else row

    def opened(self, table: Owner, name: str) -> Row | None:
        return self.row(table, (to_column(name),))

    def open(
        self, table: Owner, name: str, values: Sequence[Column], given: Row
    ) -> None:  # asked for again, not kept
        self._mint(table, name, values)

    def append_event(
        self, table: Owner, owner: Column, seq: int, event: tuple[Column, bytes, int]
    ) -> bool:
        # One statement that looks for the last event itself: it does nothing for any but the next.
        self._connection.execute(QUERIES[f"record_{table}_event"], (owner, seq, *event))
        return self._connection.changes() > 0

    def last_event(self, table: Owner, owner: Column) -> int:
        return self.number(f"last_{table}_event", (owner,))

    def enqueue(self, run: Column, write: EnqueueTransition) -> None:
        self.execute("enqueue_transition", (run, write.run_seq, write.due_at_ms))

    def place_files(self, turn: Column, ordinals: range) -> Mapping[int, Row]:
        rows = self.content_rows("examined_files", (turn, ordinals.start, ordinals.stop - 1))
        return {row[0]: row[1:] for row in rows}

    def append_attempt(self, last: Row | None, values: Sequence[Column]) -> None:
        self.execute("record_once", values)  # one writer at a time: nobody comes between

    def tail(self, conversation: Column) -> Tail:
        """Return the last part of a conversation, looked up once a batch."""
        known = self._tails.get(conversation)
        if known is not None:
            return known
        found = self.content_row("last_part", (conversation,))
        if found is None:
            return NO_PART
        seq, ordinal, *author, chain = found
        return Tail(seq, ordinal, tuple(author), chain)

    def grow(self, conversation: Column, tail: Tail) -> None:
        self._tails[conversation] = tail

    def _known(self, table: str, name: str) -> int | None:
        row = self._rows.get(table, name)
        if row is None:
            found = self.content_row(f"{table}_row", (to_column(name),))
            if found is None:
                return None
            row = int(found[0])
            self._rows.put(table, name, row)
        return row

    def _mint(self, table: str, name: str, values: Sequence[Column]) -> int:
        statement = QUERIES[f"open_{table}"]
        ((row,),) = self._connection.execute(statement, tuple(values)).fetchall()
        self._rows.put(table, name, row)
        self.minted.append((table, row, name))
        return int(row)
