"""The stores we ship, as the conformance suite wants to know them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import apsw
import psycopg
from psycopg.sql import SQL, Identifier

from upthread.store.base import Store
from upthread.store.memory import MemoryStore
from upthread.store.postgres import PostgresStore
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.database import Connection
from upthread.testing.postgres_server import as_owner, as_role, database_at, migrated_database_at
from upthread.testing.store_conformance import StoreBackend

_NO_LIMIT_PAGES: Final = 0xFFFF_FFFE


def _mark_newer(place: Path) -> None:
    connection = cast("Connection", apsw.Connection(str(place)))
    connection.execute("PRAGMA user_version = 999")
    connection.close()


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


def _mark_newer_postgres(place: Path) -> None:
    with psycopg.connect(database_at(place)) as connection:
        connection.execute("INSERT INTO upthread.schema_migration VALUES (999, 'later', '')")


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
    mark_newer=_mark_newer,
    failing=disk_full,
)
POSTGRES: Final = StoreBackend(
    name="postgres",
    make=open_postgres,
    is_durable=True,
    is_shared=True,
    mark_newer=_mark_newer_postgres,
    contents=_postgres_contents,
    failing=read_only,
    is_between_people=True,
)
SHIPPED_STORES: Final = (MEMORY, SQLITE, POSTGRES)
