"""Several statements sent as one, and their answers awaited together.

psycopg's own pipeline sends each statement when it is given. A process that is stopped between two
of them leaves a server that waits for the next: it takes the connection for busy, not for idle, and
lets it keep its locks. So all are put into libpq's buffer, and the end of the exchange behind them,
before it is flushed. What is over 8 kB leaves in pieces, as fast as the socket takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from psycopg import generators, pq
from psycopg.adapt import PyFormat, Transformer

from upthread.store.postgres.server import Connection, error_of
from upthread.store.sql.batch import Row

Statement: TypeAlias = tuple[bytes, Sequence[object]]
"""With its values, $1 first."""

_BINARY: Final = 1
_BEGIN: Final[Statement] = (b"BEGIN", ())
_COMMIT: Final[Statement] = (b"COMMIT", ())


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
    return [_rows_of(connection, result) for result in results]


def in_transaction(
    connection: Connection, before: Sequence[Statement], statement: Statement
) -> list[Row]:
    """Return the rows of one statement in a transaction that begins with others, sent at once."""
    sent = (_BEGIN, *before, statement, _COMMIT)
    try:
        return at_once(connection, sent)[-2]
    except BaseException:
        # After an error the server passes over the rest of the exchange, the COMMIT with it.
        if not connection.closed:
            connection.execute(b"ROLLBACK")
        raise


def _exchanged(connection: Connection, statements: Sequence[Statement]) -> list[pq.abc.PGresult]:
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    for statement, values in statements:
        adapted = Transformer(connection)
        given = adapted.dump_sequence(values, [PyFormat.BINARY] * len(values))
        pgconn.send_query_params(statement, given, adapted.types, adapted.formats, _BINARY)
    # The end of the exchange goes into the buffer, too, before any of it is sent.
    pgconn.pipeline_sync()
    # No public interface of psycopg's: looked at in 3.2.4, the oldest we allow, and in 3.3.9. It
    # also reads what comes back, else both sides could wait with full buffers.
    connection.wait(generators.send(pgconn))
    results = [connection.wait(generators.fetch_many(pgconn))[0] for _ in statements]
    connection.wait(generators.fetch_many(pgconn))  # the sync's own
    pgconn.exit_pipeline_mode()
    return results


def _rows_of(connection: Connection, result: pq.abc.PGresult) -> list[Row]:
    if result.status != pq.ExecStatus.TUPLES_OK:
        return []
    loader = Transformer(connection)
    loader.set_pgresult(result)
    return loader.load_rows(0, result.ntuples, tuple)
