"""Statements in one exchange, all answered up to the first that fails; and by name, prepared."""

import psycopg
import pytest
from psycopg import errors

from upthread.store.postgres.server import Prepared, at_once, blobs

ECHO = b"SELECT $1::bytea, $2::bigint, $3::bytea, $4::integer"
MEGABYTE = 1_000_000


@pytest.fixture
def connection(address):
    with psycopg.connect(address, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        connection.execute(b"CREATE TEMPORARY TABLE noted (number BIGINT PRIMARY KEY, what BYTEA)")
        yield connection


def noted(connection):
    return connection.execute(b"SELECT number FROM noted ORDER BY number").fetchall()


def note(number, what=b""):
    return (b"INSERT INTO noted VALUES ($1, $2)", (number, what))


def test_the_rows_of_each_come_back_in_order(connection):
    asked = (
        b"SELECT number, what FROM noted WHERE what = ANY($1::bytea[])",
        (blobs([b"a", b"\0"]),),
    )
    rows = at_once(
        connection, [note(1, b"a"), note(2, b"\0"), note(3, None), asked, (b"SELECT 7", ())]
    )
    assert rows == [[], [], [], [(1, b"a"), (2, b"\0")], [(7,)]]


def test_the_first_error_is_raised_and_nothing_after_it_was_done(connection):
    with pytest.raises(errors.UniqueViolation):
        at_once(connection, [note(1), note(1)])
    assert noted(connection) == [], "without a transaction of their own they are one"
    connection.execute(b"BEGIN")
    with pytest.raises(errors.DivisionByZero):
        at_once(connection, [note(1), (b"SELECT 1 / $1", (0,)), note(2), (b"COMMIT", ())])
    connection.execute(b"ROLLBACK")
    assert noted(connection) == []
    assert at_once(connection, [note(3)]) == [[]]
    assert noted(connection) == [(3,)]


def test_a_connection_that_ends_meanwhile_is_closed(connection):
    end = (b"SELECT pg_terminate_backend(pg_backend_pid())", ())
    with pytest.raises(psycopg.OperationalError):
        at_once(connection, [note(1), end, note(2)])
    assert connection.closed


def test_an_exchange_that_is_interrupted_closes_the_connection(connection, monkeypatch):
    def interrupted(_pgconn):
        raise KeyboardInterrupt

    monkeypatch.setattr("psycopg.generators.fetch_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        at_once(connection, [note(1)])
    assert connection.closed


def test_much_may_go_both_ways_at_one_time(connection):
    back = (b"SELECT $1::bytea", (bytes(MEGABYTE),))
    rows = at_once(connection, [back] * 10)
    assert [len(content) for ((content,),) in rows] == [MEGABYTE] * 10


def names_on(connection):
    found = connection.execute(b"SELECT name FROM pg_prepared_statements").fetchall()
    return {name for (name,) in found if name.startswith("upthread_")}


def test_a_statement_is_prepared_once_for_each_kind_of_values(connection):
    statements = Prepared(connection, is_allowed=True)
    assert statements.rows(b"SELECT unnest($1::bytea[])", (blobs([b"a", b"b"]),)) == [
        (b"a",),
        (b"b",),
    ]
    for number in range(5):
        statements.rows(ECHO, (b"a", number, None, 1))
        statements.rows(ECHO, (b"a", number, b"b", 1))
    assert len(names_on(connection)) == 3


def test_a_statement_prepared_after_the_server_forgot_all_is_in_nobodys_way(connection):
    statements = Prepared(connection, is_allowed=True)
    before = [b"SELECT %d + $1::bigint" % number for number in range(3)]
    for statement in before:
        statements.rows(statement, (1,))
    connection.execute(b"DEALLOCATE ALL")
    later = b"SELECT 10 + $1::bigint"
    assert statements.rows(later, (1,)) == [(11,)], "prepared before the loss is noticed"
    for number, statement in enumerate(before):
        assert statements.rows(statement, (1,)) == [(number + 1,)]
    for number in range(3):
        more = b"SELECT 20 + %d + $1::bigint" % number
        assert statements.rows(more, (1,)) == [(21 + number,)]
    assert statements.rows(later, (2,)) == [(12,)]
