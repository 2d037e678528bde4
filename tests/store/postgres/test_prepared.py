"""Statements go through libpq by name, and bring back what a cursor would have."""

from __future__ import annotations

import pytest
from psycopg import errors

from upthread.store.postgres import at_once
from upthread.store.postgres.at_once import Prepared, blobs
from upthread.store.postgres.server import Server

ECHO = b"SELECT $1::bytea, $2::bigint, $3::bytea, $4::integer"


@pytest.fixture
def connection(address):
    server = Server(address)
    yield server.run("read", lambda found: found)
    server.close()


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


def test_no_more_are_prepared_than_stated(connection, monkeypatch):
    monkeypatch.setattr(at_once, "PREPARED_MAX", 2)
    statements = Prepared(connection, is_allowed=True)
    for number in range(5):
        assert statements.rows(b"SELECT $1::bigint + %d" % number, (1,)) == [(1 + number,)]
    assert len(names_on(connection)) == 2


def test_errors_are_the_drivers_and_leave_the_connection_usable(connection):
    statements = Prepared(connection, is_allowed=True)
    for _ in range(2):
        with pytest.raises(errors.DivisionByZero):
            statements.rows(b"SELECT 1 / $1::bigint", (0,))
        with pytest.raises(errors.UndefinedTable):
            statements.rows(b"SELECT $1::bigint FROM nowhere", (0,))
    assert statements.rows(b"SELECT 1 / $1::bigint", (1,)) == [(1,)]


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
