"""The stores we ship, as the conformance suite wants to know them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import apsw
import psycopg
from psycopg.sql import SQL, Identifier
from tests.support.postgres_server import as_owner, as_role, database_at, migrated_database_at

from upthread.store.base import Store
from upthread.store.postgres import PostgresStore
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.database import Connection
from upthread.testing.memory_store import MemoryStore
from upthread.testing.store_conformance import StoreBackend
from upthread.testing.store_conformance.backend import (
    DAMAGED_MESSAGE,
    Damage,
    Tampering,
)

_NO_LIMIT_PAGES: Final = 0xFFFF_FFFE

_DAMAGED: Final = f"WHERE message_seq = {DAMAGED_MESSAGE}"
_DAMAGES: Final[Mapping[Damage, str]] = {
    "missing": f"DELETE FROM {{}}part {_DAMAGED}",
    "unreadable": f"UPDATE {{}}part SET speaker = 'nobody' {_DAMAGED}",
    "changed": f"UPDATE {{}}part SET recorded_at_ms = recorded_at_ms + 1 {_DAMAGED}",
}
"""Statements that both databases take, with `upthread.` before a table on PostgreSQL."""

_TAMPERINGS: Final[Mapping[Tampering, tuple[str, ...]]] = {
    "event changed": ("UPDATE {}run_event SET recorded_at_ms = 7 WHERE seq = 2",),
    "event dropped": ("DELETE FROM {}run_event WHERE seq = 2",),
    "events swapped": (
        "UPDATE {}run_event SET seq = 0 WHERE seq = 2",
        "UPDATE {}run_event SET seq = 2 WHERE seq = 3",
        "UPDATE {}run_event SET seq = 3 WHERE seq = 0",
    ),
    "link changed": ("UPDATE {}link SET upstream_session_id = 'ses_other' WHERE seq = 2",),
    "link dropped": ("DELETE FROM {}link WHERE seq = 2",),
    "conversation moved": ("UPDATE {}conversation SET role = 'auditor'",),
    "turn changed": ("UPDATE {}turn SET opened_at_ms = opened_at_ms + 1",),
    "receipt changed": ("UPDATE {}once_event SET state = 'failed'",),
    "act changed": ("UPDATE {}act SET by_user = 'eve'",),
}
"""Statements that both databases take."""


def _in_sqlite(place: Path, *statements: str) -> None:
    connection = cast("Connection", apsw.Connection(str(place)))
    for statement in statements:
        connection.execute(statement.replace("{}", ""))
    connection.close()


def _in_postgres(place: Path, *statements: str) -> None:
    with psycopg.connect(database_at(place)) as connection:
        for statement in statements:
            connection.execute(statement.replace("{}", "upthread.").encode())


@contextmanager
def disk_full(store: Store) -> Generator[None]:
    """Leave a SQLite store no room to grow, with the error and the clean-up of a full disk."""
    connection = cast("SqliteStore", store).database.connection
    pages = connection.pragma("page_count")
    connection.execute(f"PRAGMA max_page_count={pages}").fetchall()
    try:
        yield
    finally:
        connection.execute(f"PRAGMA max_page_count={_NO_LIMIT_PAGES}").fetchall()


def open_postgres(place: Path) -> PostgresStore:
    """Open the database that stands for a place, made with our schema if there is none."""
    return PostgresStore(as_owner(migrated_database_at(place)))


def _postgres_contents(place: Path) -> object:
    with psycopg.connect(database_at(place)) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = 'upthread' ORDER BY 1"
        ).fetchall()
        copied = [SQL("SELECT * FROM upthread.{}").format(Identifier(*table)) for table in tables]
        return [connection.execute(rows).fetchall() for rows in copied]


@contextmanager
def read_only(store: Store) -> Generator[None]:
    """Make a PostgreSQL database refuse writes, as a standby does."""
    address = as_role(cast("PostgresStore", store).server.address, "postgres")
    _change_database(address, "SET default_transaction_read_only = on")
    try:
        yield
    finally:
        _change_database(address, "RESET default_transaction_read_only")


def _change_database(address: str, change: str) -> None:
    """Change a setting of a database and cut its connections: the next ones have it."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} {change}".encode())
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND pid <> pg_backend_pid()",
            (name,),
        )


MEMORY: Final = StoreBackend(
    name="memory", make=lambda _: MemoryStore(), is_durable=False, is_shared=False
)
SQLITE: Final = StoreBackend(
    name="sqlite",
    make=SqliteStore,
    is_durable=True,
    is_shared=True,
    mark_newer=lambda place: _in_sqlite(place, "PRAGMA user_version = 999"),
    failing=disk_full,
    damage=lambda place, damage: _in_sqlite(place, _DAMAGES[damage]),
    tamper=lambda place, tampering: _in_sqlite(place, *_TAMPERINGS[tampering]),
)
POSTGRES: Final = StoreBackend(
    name="postgres",
    make=open_postgres,
    is_durable=True,
    is_shared=True,
    mark_newer=lambda place: _in_postgres(
        place, "INSERT INTO upthread.schema_migration VALUES (999, 'later', '')"
    ),
    contents=_postgres_contents,
    failing=read_only,
    damage=lambda place, damage: _in_postgres(place, _DAMAGES[damage]),
    tamper=lambda place, tampering: _in_postgres(place, *_TAMPERINGS[tampering]),
    is_between_people=True,
)
SHIPPED_STORES: Final = (MEMORY, SQLITE, POSTGRES)
