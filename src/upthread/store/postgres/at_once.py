"""Several statements sent as one, and their answers awaited together; and values on the wire.

psycopg's own pipeline sends each statement when it is given. A process that is stopped between two
of them leaves a server that waits for the next: it takes the connection for busy, not for idle, and
lets it keep its locks. So all are put into libpq's buffer, and the end of the exchange behind them,
before it is flushed. What is over 8 kB leaves in pieces, as fast as the socket takes them.

A single statement is prepared once on a connection. psycopg's cursor takes more processor time for
a short statement than the server takes to answer it. What we send has few types of values and no
option, so none of what a cursor does is needed: all goes through `psycopg.pq`, and what comes back
is read by psycopg's own loaders.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from struct import Struct
from typing import Final, NamedTuple, TypeAlias, cast

from psycopg import errors, generators, pq
from psycopg.adapt import Transformer

from upthread.store.log import Row
from upthread.store.postgres.server import Connection, error_of


class Array(NamedTuple):
    """Values of one type as one value, as the wire has it."""

    oid: int
    raw: bytes


Column: TypeAlias = int | bytes | Array | None
"""A value: BIGINT, BYTEA, an array, or NULL."""

Statement: TypeAlias = tuple[bytes, Sequence[Column]]
"""With its values, $1 first."""

BINARY: Final = 1
_BEGIN: Final[Statement] = (b"BEGIN ISOLATION LEVEL READ COMMITTED", ())
_COMMIT: Final[Statement] = (b"COMMIT", ())

_BYTEA, _BIGINT, _TEXT = 17, 20, 25
_ARRAYS: Final = {_BYTEA: 1001, _BIGINT: 1016, _TEXT: 1009}
_NUMBER: Final = Struct(">q").pack
_LENGTH: Final = Struct(">i").pack
# One dimension, perhaps with NULL; the type of the members; how many, and the number of the first.
_HEAD: Final = Struct(">iiiii").pack
_NULL: Final = _LENGTH(-1)
_EMPTY: Final = {oid: Array(array, _HEAD(0, 0, oid, 0, 0)[:12]) for oid, array in _ARRAYS.items()}


def wired(value: Column) -> tuple[bytes | None, int]:
    """Return a value as the wire has it, and its type; 0: whatever the server finds NULL to be."""
    if type(value) is Array:  # most are, and each commit has a dozen
        return value.raw, value.oid
    if isinstance(value, bytes):
        return value, _BYTEA
    return (None, 0) if value is None else (_NUMBER(cast("int", value)), _BIGINT)


def numbers(values: Sequence[int | None]) -> Array:
    """Return BIGINT[]."""
    return _array(_BIGINT, [None if each is None else _NUMBER(each) for each in values])


def blobs(values: Sequence[bytes | None]) -> Array:
    """Return BYTEA[]."""
    return _array(_BYTEA, values)


def texts(values: Sequence[str]) -> Array:
    """Return TEXT[], of words of ours."""
    return _array(_TEXT, [each.encode() for each in values])


def _array(oid: int, values: Sequence[bytes | None]) -> Array:
    if not values:
        return _EMPTY[oid]
    members = [_NULL if each is None else _LENGTH(len(each)) + each for each in values]
    return Array(_ARRAYS[oid], b"".join((_HEAD(1, 1, oid, len(values), 1), *members)))


def at_once(connection: Connection, statements: Sequence[Statement]) -> list[list[Row]]:
    """Execute statements in order and return the rows of each, none where there can be none.

    Raises psycopg's error of the first that fails; those after it were not executed. An exchange
    that comes to no end closes the connection: nobody could tell whose the next answer on it is.
    Not for use within a pipeline of psycopg's.
    """
    try:
        results = _exchanged(connection, statements)
    except BaseException:
        connection.close()
        raise
    # Only now: all answers have been taken, so that the connection can be used after an error.
    for result in results:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            raise error_of(connection, result)
    return [rows_of(connection, result) for result in results]


def in_transaction(connection: Connection, statements: Sequence[Statement]) -> list[list[Row]]:
    """Return the rows of statements that are one transaction, sent at once."""
    try:
        return at_once(connection, (_BEGIN, *statements, _COMMIT))[1:-1]
    except BaseException:
        # After an error the server passes over the rest of the exchange, the COMMIT with it.
        if not connection.closed:
            connection.execute(b"ROLLBACK")
        raise


def _exchanged(connection: Connection, statements: Sequence[Statement]) -> list[pq.abc.PGresult]:
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    for statement, values in statements:
        given = list(map(wired, values))
        raw = cast("list[bytes]", [each for each, _ in given])  # psycopg's types know no NULL
        formats = [BINARY] * len(raw)
        pgconn.send_query_params(statement, raw, [oid for _, oid in given], formats, BINARY)
    # The end of the exchange goes into the buffer, too, before any of it is sent.
    pgconn.pipeline_sync()
    # No public interface of psycopg's: looked at in 3.2.4, the oldest we allow, and in 3.3.9. It
    # also reads what comes back, else both sides could wait with full buffers.
    connection.wait(generators.send(pgconn))
    results = [connection.wait(generators.fetch_many(pgconn))[0] for _ in statements]
    connection.wait(generators.fetch_many(pgconn))  # the sync's own
    pgconn.exit_pipeline_mode()
    return results


def rows_of(connection: Connection, result: pq.abc.PGresult) -> list[Row]:
    """Return a result's rows, none where it has none."""
    if result.status != pq.ExecStatus.TUPLES_OK:
        return []
    loader = Transformer(connection)
    loader.set_pgresult(result)
    return loader.load_rows(0, result.ntuples, tuple)


# --- statements that are prepared ----------------------------------------------------------------

_DONE: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Prepared:
    """The statements of one connection, all of them constants. Not for use within a pipeline."""

    def __init__(
        self, connection: Connection, *, is_allowed: bool, before: Sequence[Statement] = ()
    ) -> None:
        self.connection = connection
        self._before = before
        """What each statement's own transaction begins with. With it, none is prepared."""
        self._prepares = is_allowed and not before
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
            if not self._prepares:
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
