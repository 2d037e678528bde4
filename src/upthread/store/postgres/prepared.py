"""Statements that are prepared once on a connection and sent through libpq itself.

psycopg's cursor takes more processor time for a short statement than the server takes to answer it.
What we send has two types of values and no option, so none of what a cursor does is needed: this
goes through `psycopg.pq`, and what comes back is read by psycopg's own loaders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Final, cast

from psycopg import errors, pq
from psycopg.adapt import Transformer

from upthread.store.postgres.columns import Column, Row
from upthread.store.postgres.server import Connection

PREPARED_MAX: Final = 500
"""Statements on one connection; further ones are psycopg's, which throws the oldest away."""

_OIDS: Final[Mapping[type, int]] = MappingProxyType({bytes: 17, int: 20, NoneType: 0})
"""BYTEA, BIGINT, and whatever the server finds a NULL to be."""
_NUMBER_BYTES: Final = 8
_BINARY: Final = 1
_ENDS: Final = ("FATAL", "PANIC")
_DONE: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Prepared:
    """The statements of one connection. Not for use within a pipeline."""

    def __init__(self, connection: Connection, *, is_allowed: bool) -> None:
        self.connection = connection
        self._most = PREPARED_MAX if is_allowed else 0
        self._names: dict[tuple[bytes, tuple[int, ...]], bytes] = {}

    def send(self, statement: bytes, values: Sequence[Column]) -> None:
        """Execute a statement, whatever it returns. Raises psycopg's errors."""
        if self._executed(statement, values) is None:
            self.connection.execute(statement, values)

    def rows(self, statement: bytes, values: Sequence[object]) -> list[Row]:
        """Return a statement's rows. Raises psycopg's errors."""
        result = self._executed(statement, values)
        if result is None:
            return self.connection.execute(statement, values, binary=True).fetchall()
        loader = Transformer(self.connection)
        loader.set_pgresult(result)
        return loader.load_rows(0, result.ntuples, tuple)

    def _executed(self, statement: bytes, values: Sequence[object]) -> pq.abc.PGresult | None:
        """Execute it, None where that is psycopg's to do; again where its name was forgotten.

        psycopg deallocates all there is after a ROLLBACK.
        """
        oids = tuple([_OIDS.get(type(value), -1) for value in values])
        name = self._names.get((statement, oids))
        if name is None and (-1 in oids or len(self._names) >= self._most):
            return None
        try:
            return self._execute(statement, oids, name, values)
        except errors.InvalidSqlStatementName:
            self._names.clear()
            return self._execute(statement, oids, None, values)

    def _execute(
        self,
        statement: bytes,
        oids: tuple[int, ...],
        name: bytes | None,
        values: Sequence[object],
    ) -> pq.abc.PGresult:
        connection = self.connection.pgconn
        if name is None:
            name = b"upthread_%d" % len(self._names)
            self._checked(connection.prepare(name, statement, oids))
            self._names[statement, oids] = name
        given = [
            value.to_bytes(_NUMBER_BYTES, signed=True) if isinstance(value, int) else value
            for value in values
        ]
        # psycopg's types do not tell that None is NULL.
        sent = connection.exec_prepared(
            name, cast("list[bytes]", given), [_BINARY] * len(given), _BINARY
        )
        return self._checked(sent)

    def _checked(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status in _DONE:
            return result
        error = errors.error_from_result(result, self.connection.info.encoding)
        # Without a code it is libpq that speaks: it may take until the next call to see what it
        # says itself, that there is no connection any more.
        if error.sqlstate is None or error.diag.severity_nonlocalized in _ENDS:
            self.connection.close()
        raise error
