"""One transaction's view of the database: statements by name, rows of ids, where parts go.

Theory of operation. Most commits follow one of the same connection. What that one has seen or
written, and nobody else could have changed since, need not be asked for again: the leases that are
held, the last part of a conversation, the last event of a turn or run. SQLite itself says whether
anybody else has committed meanwhile: its data version, by which it knows what of its page cache
still holds. It is looked at under the write lock; had it moved, all that is forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from upthread.core.commands import EnqueueTransition
from upthread.store._rules import must_exist, seal_of
from upthread.store.sql.batch import NO_PART, Column, Owner, Row, Tail, from_columns
from upthread.store.sql.statements import read_queries
from upthread.store.sqlite.database import (
    Connection,
    Database,
    first_of,
    to_column,
    to_columns,
)

ROWS_MAX: Final = 4096
"""How many ids of one table a store remembers the rows of."""

NAMES_MAX: Final = 4096
"""How many turn ids and upstream ids a store remembers the names of."""

EVENTS_MAX: Final = (1 << 20) - 1
"""Of one turn: where the number of an event's row ends, and that of its turn's begins."""


QUERIES: Final = read_queries("sqlite")
"""The statements, by name. They live in `sql/sqlite/`."""

# A dictionary: looking into a read-only view of one takes longer, and there is a look for each row.
_QUERIES: Final = dict(QUERIES)


Name: TypeAlias = str | tuple[str, str]
"""An id, or the id of a turn with that of its conversation."""


class Rows:
    """The rows of ids, which never change. Forgotten whole when a transaction fails."""

    def __init__(self) -> None:
        self.tables: defaultdict[str, dict[Name, int]] = defaultdict(dict)
        """By table, then by id; read only."""

    def put(self, table: str, name: Name, row: int) -> None:
        known = self.tables[table]
        if len(known) >= ROWS_MAX:
            # All at once: to drop the oldest alone, each look would have to keep an order.
            known.clear()
        known[name] = row

    def forget(self) -> None:
        # Each by itself: a batch keeps the dictionary of all.
        for known in self.tables.values():
            known.clear()


class Names(dict[int | None, Any]):
    """The ids behind rows, remembered. One that is missing is looked up with those that follow it.

    KeyError for a row that does not exist.
    """

    def __init__(self, database: Database, query: str) -> None:
        super().__init__({None: None})
        self._database = database
        self._query = QUERIES[query]

    def __missing__(self, row: int) -> Any:
        # A conversation is read in order, so the turns after this one are asked for next:
        # `turn_names` returns them as well.
        found: dict[int, Any] = {}
        found.update(map(from_columns, self._database.rows(self._query, (row,))))
        for each, name in found.items():
            self.learn(each, name)
        return found[row]

    def learn(self, row: int, name: str) -> None:
        """Remember a name that was committed."""
        if len(self) > NAMES_MAX:
            self.clear()
            # What has no upstream session is looked up like all else, and would find no row.
            self[None] = None
        self[row] = name


class Left:
    """What the last commit of a connection has left, while no other connection has committed."""

    def __init__(self) -> None:
        self._version: int | None = None
        self.held: set[tuple[str, int]] = set()
        """Leases that are held, and their tokens."""
        self.tails: dict[int, Tail] = {}
        """By the row of a conversation."""
        self.last_events: dict[tuple[str, int], int] = {}
        """By a turn or run, and its row."""

    def begin(self, version: int) -> None:
        """Forget all unless the data version is as `committed` was told. Under the write lock."""
        if version != self._version or len(self.last_events) + len(self.tails) > ROWS_MAX:
            self.held.clear()
            self.tails.clear()
            self.last_events.clear()
        # Until the commit is through: of one that fails nothing is to be believed.
        self._version = None

    def committed(self, version: int) -> None:
        """Keep what is known for the next commit."""
        self._version = version


class Batch:
    """One transaction's writes, as `store.sql.batch.Batch` has it: owners are rows."""

    def __init__(self, connection: Connection, rows: Rows, left: Left) -> None:
        self._connection = connection
        self._rows = rows
        self._known = rows.tables
        self._left = left
        self.minted: list[tuple[str, int, str]] = []
        """Table, row and name of all that this transaction opened."""

    def execute(self, query: str, values: Sequence[Column]) -> None:
        self._connection.execute(_QUERIES[query], values)

    def row(self, query: str, values: Sequence[Column]) -> Row | None:
        found = self.content_row(query, values)
        return None if found is None else from_columns(found)

    def content_row(self, query: str, values: Sequence[Column]) -> Row | None:
        return first_of(self._connection.execute(_QUERIES[query], tuple(values)))

    def content_rows(self, query: str, values: Sequence[Column]) -> list[Row]:
        return self._connection.execute(_QUERIES[query], tuple(values)).fetchall()

    def number(self, query: str, values: Sequence[Column]) -> int:
        found = self.content_row(query, values)
        return int(found[0] or 0) if found else 0

    def owner(self, table: Owner, name: str, *, within: str | None = None) -> int:
        named = name if within is None else (name, within)
        row = self._known[table].get(named)
        return must_exist(self._found(table, named), what=table, name=name) if row is None else row

    def upstream(self, name: str | None) -> int | None:
        """Return the row of an upstream id, which is written down at its first use."""
        if name is None:
            return None
        row = self._known["upstream"].get(name)
        if row is None:
            row = self._found("upstream", name)
        return self._mint("upstream", name, (to_column(name),)) if row is None else row

    def opened(self, table: Owner, name: str) -> Row | None:
        return self.row(table, (to_column(name),))

    def open(self, table: Owner, name: str, values: Sequence[Column], given: Row) -> None:
        row = self._mint(table, name, values)
        if table == "turn":
            self._rows.put(table, (name, given[0]), row)

    def append_event(
        self, table: Owner, name: str, seq: int, event: tuple[Column, bytes, int]
    ) -> bool:
        owner = self.owner(table, name)
        if seq != self.last_event(table, owner) + 1 or seq > EVENTS_MAX:
            return False
        seal = seal_of(f"{table}_event", to_column(name), seq, *event)
        self._connection.execute(_QUERIES[f"record_{table}_event"], (owner, seq, *event, seal))
        self._left.last_events[table, owner] = seq
        return True

    def last_event(self, table: Owner, owner: int) -> int:
        known = self._left.last_events.get((table, owner))
        if known is None:
            known = self.number(f"last_{table}_event", (owner,))
            self._left.last_events[table, owner] = known
        return known

    def enqueue(self, run: Column, write: EnqueueTransition) -> None:
        self.execute("enqueue_transition", (run, write.run_seq, write.due_at_ms))

    def place_files(self, turn: Column, ordinals: range) -> Mapping[int, Row]:
        rows = self.content_rows("examined_files", (turn, ordinals.start, ordinals.stop - 1))
        return {row[0]: row[1:] for row in rows}

    def append_attempt(self, last: Row | None, values: Sequence[Column]) -> None:
        self.execute("record_once", values)  # one writer at a time: nobody comes between

    def tail(self, conversation: int) -> Tail:
        known = self._left.tails.get(conversation)
        if known is not None:
            return known
        found = self.content_row("last_part", (conversation,))
        if found is None:
            return NO_PART
        seq, ordinal, *author, chain = found
        return Tail(seq, ordinal, tuple(author), chain)

    def grow(self, conversation: int, tail: Tail) -> None:
        self._left.tails[conversation] = tail

    def _found(self, table: str, named: Name) -> int | None:
        if isinstance(named, str):
            found = self.content_row(f"{table}_row", (to_column(named),))
        else:
            found = self.content_row(f"{table}_row_within", to_columns(*named))
        if found is None:
            return None
        row = int(found[0])
        self._rows.put(table, named, row)
        return row

    def _mint(self, table: str, name: str, values: Sequence[Column]) -> int:
        statement = _QUERIES[f"open_{table}"]
        ((row,),) = self._connection.execute(statement, tuple(values)).fetchall()
        self._rows.put(table, name, row)
        self._left.last_events[table, row] = 0  # of what has just been opened there are none
        self.minted.append((table, row, name))
        return int(row)
