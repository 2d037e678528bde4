"""Statements that are prepared once on a connection and sent through libpq itself.

psycopg's cursor takes more processor time for a short statement than the server takes to answer it.
What we send has few types of values and no option, so none of what a cursor does is needed: this
goes through `psycopg.pq`, and what comes back is read by psycopg's own loaders.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, cast

from psycopg import errors, pq

from upthread.store.postgres.at_once import (
    BINARY,
    Column,
    Row,
    Statement,
    at_once,
    in_transaction,
    rows_of,
    wired,
)
from upthread.store.postgres.server import Connection, error_of

PREPARED_MAX: Final = 500
"""Statements on one connection; further ones are not prepared."""

_DONE: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Prepared:
    """The statements of one connection. Not for use within a pipeline."""

    def __init__(
        self, connection: Connection, *, is_allowed: bool, before: Sequence[Statement] = ()
    ) -> None:
        self.connection = connection
        self._before = before
        """What each statement's own transaction begins with. With it, none is prepared."""
        self._most = PREPARED_MAX if is_allowed and not before else 0
        self._known: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._numbers = count()  # no name a second time: one we forgot may still be there

    def rows(self, statement: bytes, values: Sequence[Column]) -> list[Row]:
        """Return a statement's rows; it is sent whole, with its end. Raises psycopg's errors."""
        if self._before:
            return in_transaction(self.connection, [*self._before, (statement, values)])[-1]
        given = list(map(wired, values))
        raw = [each for each, _ in given]
        types = tuple([oid for _, oid in given])
        name = self._known.get((statement, types))
        if name is None:
            if len(self._known) >= self._most:
                return at_once(self.connection, [(statement, values)])[0]
            name = self._prepare(statement, types)
        try:
            result = self._execute(name, raw)
        except errors.InvalidSqlStatementName:
            # The server refused it before it did anything, so it can be done again: psycopg
            # deallocates all there is after a ROLLBACK.
            self._known.clear()
            result = self._execute(self._prepare(statement, types), raw)
        return rows_of(self.connection, result)

    def transaction(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Return the rows of statements that are one transaction, sent at once."""
        found = in_transaction(self.connection, [*self._before, *statements])
        return found[len(self._before) :]

    def _prepare(self, statement: bytes, types: tuple[int, ...]) -> bytes:
        name = b"upthread_%d" % next(self._numbers)
        self._checked(self.connection.pgconn.prepare(name, statement, list(types)))
        self._known[statement, types] = name
        return name

    def _execute(self, name: bytes, values: Sequence[bytes | None]) -> pq.abc.PGresult:
        # psycopg's types do not tell that None is NULL.
        given = cast("list[bytes]", list(values))
        pgconn = self.connection.pgconn
        return self._checked(pgconn.exec_prepared(name, given, [BINARY] * len(given), BINARY))

    def _checked(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status in _DONE:
            return result
        raise error_of(self.connection, result)
