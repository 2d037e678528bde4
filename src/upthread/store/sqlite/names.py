"""The ids behind rows: parts name their turn and upstream session by the number of its row."""

from __future__ import annotations

from typing import Any, Final

from upthread.store.sql.batch import from_columns
from upthread.store.sqlite.database import Database
from upthread.store.sqlite.queries import QUERIES

NAMES_MAX: Final = 4096
"""How many turn ids and upstream ids a store remembers the names of."""


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
