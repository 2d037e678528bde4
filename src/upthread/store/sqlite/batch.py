"""One transaction's view of the database: statements by name, rows of ids, where parts go."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from upthread.store._rules import FIRST_CHAIN, must_exist
from upthread.store.sqlite.database import Connection, Row, from_columns, to_column
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
            known.clear()
        known[name] = row

    def forget(self) -> None:
        self._tables.clear()


class Tail(NamedTuple):
    """The last part of a conversation: where the next one goes."""

    seq: int
    ordinal: int
    speaker: str
    turn: int
    upstream: int | None
    chain: bytes


class Batch:
    """One transaction's writes."""

    def __init__(self, connection: Connection, rows: Rows) -> None:
        self._connection = connection
        self._rows = rows
        self._tails: dict[int, Tail] = {}
        self.minted: list[tuple[str, int, str]] = []
        """Table, row and name of all that this transaction opened."""

    def execute(self, query: str, bindings: Row) -> None:
        """Run a statement that returns nothing."""
        self._connection.execute(QUERIES[query], bindings)

    def row(self, query: str, bindings: Row) -> Row | None:
        """Return one row, its text as text."""
        found = self._connection.execute(QUERIES[query], bindings).fetchone()
        return None if found is None else from_columns(found)

    def content_row(self, query: str, bindings: Row) -> Row | None:
        """Return one row that holds content, which stays bytes."""
        return self._connection.execute(QUERIES[query], bindings).fetchone()

    def number(self, query: str, bindings: Row) -> int:
        """Return one number, 0 for NULL."""
        found = self._connection.execute(QUERIES[query], bindings).fetchone()
        return int(found[0] or 0) if found else 0

    def is_changed(self, query: str, bindings: Row) -> bool:
        """Run a statement that may find nothing to do, and return whether it did something."""
        self._connection.execute(QUERIES[query], bindings)
        return self._connection.changes() > 0

    def insert(self, query: str, bindings: Row, *, table: str, name: str) -> None:
        """Mint a row and remember it."""
        ((row,),) = self._connection.execute(QUERIES[query], bindings).fetchall()
        self._rows.put(table, name, row)
        self.minted.append((table, row, name))

    def row_of(self, table: str, name: str) -> int:
        """Return the row of an id. NotFoundError when it was never opened."""
        row = self._rows.get(table, name)
        if row is None:
            found = self._connection.execute(QUERIES[f"{table}_row"], (to_column(name),)).fetchone()
            row = int(must_exist(found, what=table, name=name)[0])
            self._rows.put(table, name, row)
        return row

    def upstream_row_of(self, name: str | None) -> int | None:
        """Return the row of an upstream id, which is written down at its first use."""
        if name is None:
            return None
        row = self._rows.get("upstream", name)
        if row is None:
            column = (to_column(name),)
            found = self._connection.execute(QUERIES["upstream_row"], column).fetchone()
            if found is None:
                self.insert("record_upstream", column, table="upstream", name=name)
                return self._rows.get("upstream", name)
            row = int(found[0])
            self._rows.put("upstream", name, row)
        return row

    def tail_of(self, conversation: int) -> Tail:
        """Return the last part of a conversation, looked up once a batch."""
        tail = self._tails.get(conversation)
        if tail is None:
            found = self._connection.execute(QUERIES["last_part"], (conversation,)).fetchone()
            tail = Tail(0, -1, "", 0, None, FIRST_CHAIN) if found is None else Tail(*found)
        return tail

    def rows(self, query: str, bindings: Row) -> list[Row]:
        """Return all rows of one statement, content as bytes."""
        return self._connection.execute(QUERIES[query], bindings).fetchall()

    def append_part(
        self, conversation: int, tail: Tail, bindings: Row, *, query: str = "record_part"
    ) -> None:
        """Append one part after the tail and make it the tail."""
        self._connection.execute(QUERIES[query], bindings)
        self._tails[conversation] = tail
