"""Statements that are prepared once on a connection and sent through libpq itself.

psycopg's cursor takes more processor time for a short statement than the server takes to answer it.
What we send has two types of values and no option, so none of what a cursor does is needed: this
goes through `psycopg.pq`, and what comes back is read by psycopg's own loaders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from struct import Struct
from types import MappingProxyType, NoneType
from typing import Final, NamedTuple, TypeAlias, cast

from psycopg import errors, pq
from psycopg.adapt import Transformer

from upthread.store.postgres.at_once import in_transaction
from upthread.store.postgres.server import Connection, Statements, error_of
from upthread.store.sql.batch import Column, Row

PREPARED_MAX: Final = 500
"""Statements on one connection; further ones are psycopg's, which throws the oldest away."""

_OIDS: Final[Mapping[type, int]] = MappingProxyType({bytes: 17, int: 20, NoneType: 0})
"""BYTEA, BIGINT, and whatever the server finds a NULL to be."""
_NUMBER: Final = Struct(">q").pack
"""A BIGINT on the wire."""

_BINARY: Final = 1
_DONE: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


Types: TypeAlias = tuple[type, ...]


class _Statement(NamedTuple):
    """A statement the server knows, for values of certain types."""

    name: bytes
    numbers: tuple[int, ...]
    """Which of the values are numbers, and are still to be put as the wire has them."""
    formats: list[int]


class Prepared:
    """The statements of one connection. Not for use within a pipeline."""

    def __init__(
        self, connection: Connection, *, is_allowed: bool, before: Statements = ()
    ) -> None:
        self.connection = connection
        self._before = before
        """What each statement's own transaction begins with. With it, none is prepared."""
        self._most = PREPARED_MAX if is_allowed and not before else 0
        self._known: dict[tuple[bytes, Types], _Statement] = {}
        self._numbers = count()  # no name a second time: one we forgot may still be there

    def send(self, statement: bytes, values: Sequence[Column]) -> None:
        """Execute a statement, whatever it returns. Raises psycopg's errors."""
        if self._executed(statement, values) is None:
            self._by_psycopg(statement, values)

    def rows(self, statement: bytes, values: Sequence[object]) -> list[Row]:
        """Return a statement's rows. Raises psycopg's errors."""
        result = self._executed(statement, values)
        if result is None:
            return self._by_psycopg(statement, values)
        loader = Transformer(self.connection)
        loader.set_pgresult(result)
        return loader.load_rows(0, result.ntuples, tuple)

    def _by_psycopg(self, statement: bytes, values: Sequence[object]) -> list[Row]:
        if self._before:
            return in_transaction(self.connection, self._before, (statement, values))
        cursor = self.connection.execute(statement, values, binary=True)
        return cursor.fetchall() if cursor.description else []

    def _executed(self, statement: bytes, values: Sequence[object]) -> pq.abc.PGresult | None:
        """Execute it, None where that is psycopg's to do; again where its name was forgotten.

        psycopg deallocates all there is after a ROLLBACK.
        """
        types = tuple(map(type, values))
        known = self._known.get((statement, types))
        if known is None:
            # Arrays are psycopg's to write.
            if len(self._known) >= self._most or not _OIDS.keys() >= set(types):
                return None
            known = self._prepare(statement, types)
        try:
            return self._execute(known, values)
        except errors.InvalidSqlStatementName:
            # The server refused it before it did anything, so it can be done again.
            self._known.clear()
            return self._execute(self._prepare(statement, types), values)

    def _prepare(self, statement: bytes, types: Types) -> _Statement:
        name = b"upthread_%d" % next(self._numbers)
        oids = [_OIDS[each] for each in types]
        self._checked(self.connection.pgconn.prepare(name, statement, oids))
        numbers = tuple([place for place, each in enumerate(types) if each is int])
        known = _Statement(name, numbers, [_BINARY] * len(types))
        self._known[statement, types] = known
        return known

    def _execute(self, known: _Statement, values: Sequence[object]) -> pq.abc.PGresult:
        name, numbers, formats = known
        given = list(values)
        for place in numbers:
            given[place] = _NUMBER(given[place])
        # psycopg's types do not tell that None is NULL.
        return self._checked(
            self.connection.pgconn.exec_prepared(name, cast("list[bytes]", given), formats, _BINARY)
        )

    def _checked(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status in _DONE:
            return result
        raise error_of(self.connection, result)
