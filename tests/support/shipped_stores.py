"""The stores we ship, as the conformance suite wants to know them."""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from unittest.mock import patch

import apsw
import psycopg
from psycopg.sql import SQL, Identifier
from tests.support.postgres_server import as_owner, as_role, database_at, migrated_database_at

from upthread.store.base import Store
from upthread.store.postgres import PostgresStore, server
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.database import Connection
from upthread.testing.store_conformance import StoreBackend
from upthread.testing.store_conformance.backend import DAMAGED_MESSAGE, Tampering

_NO_LIMIT_PAGES = 0xFFFF_FFFE

_DAMAGED = f'WHERE {{json}} LIKE \'{{{{"seq":{DAMAGED_MESSAGE},"speaker"%\''
_RUN_EVENT = "WHERE kind = 'run_event' AND {json} LIKE '{{\"seq\":2,%'"
_LINK = "WHERE kind = 'link' AND {json} LIKE '%\"seq\":2,%'"
_TAMPERINGS: Mapping[Tampering, tuple[str, ...]] = {
    "message missing": (f"DELETE FROM {{}}entry {_DAMAGED}",),
    "message unreadable": (f"UPDATE {{}}entry SET kept = {{user to nobody}} {_DAMAGED}",),
    "message changed": (f"UPDATE {{}}entry SET at_ms = at_ms + 1 {_DAMAGED}",),
    "head missing": ("DELETE FROM {}head WHERE kind = 'workstream'",),
    "tag missing": ("DELETE FROM {}tag WHERE substr(tag, 1, 3) = 'in '",),
    "event changed": (f"UPDATE {{}}entry SET at_ms = 7 {_RUN_EVENT}",),
    "event dropped": (f"DELETE FROM {{}}entry {_RUN_EVENT}",),
    "events swapped": (
        "UPDATE {}entry SET seq = 0 WHERE kind = 'run_event' AND seq = 3",
        "UPDATE {}entry SET seq = 3 WHERE kind = 'run_event' AND seq = 4",
        "UPDATE {}entry SET seq = 4 WHERE kind = 'run_event' AND seq = 0",
    ),
    "link changed": (f"UPDATE {{}}entry SET kept = {{ses_2 to ses_x}} {_LINK}",),
    "link dropped": (f"DELETE FROM {{}}entry {_LINK}",),
    "head changed": ("UPDATE {}head SET last = last + 1 WHERE kind = 'conversation'",),
    "turn changed": ("UPDATE {}entry SET at_ms = at_ms + 1 WHERE kind = 'turn'",),
    "receipt changed": ("UPDATE {}entry SET kept = {intent to failed} WHERE kind = 'attempt'",),
    "act changed": ("UPDATE {}entry SET kept = {ada to eve} WHERE kind = 'act'",),
}
_CHANGE = re.compile(r"\{(\w+) to (\w+)\}")


def _in_sqlite(place: Path, *statements: str) -> None:
    connection = cast("Connection", apsw.Connection(str(place)))
    for statement in statements:
        statement = _CHANGE.sub(r"replace(kept, '\1', '\2')", statement)  # noqa: PLW2901
        connection.execute(statement.format("", json="kept"))
    connection.close()


def _in_postgres(place: Path, *statements: str) -> None:
    with psycopg.connect(database_at(place)) as connection:
        for statement in statements:
            changed = r"convert_to(replace(convert_from(kept, 'UTF8'), '\1', '\2'), 'UTF8')"
            statement = _CHANGE.sub(changed, statement)  # noqa: PLW2901
            json = "convert_from(kept, 'UTF8')"
            connection.execute(statement.format("upthread.", json=json).encode())


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
    """Make a PostgreSQL database refuse writes, as a standby does, and no call wait for long."""
    address = as_role(cast("PostgresStore", store).server.address, "postgres")
    _change_database(address, "SET default_transaction_read_only = on")
    try:
        with patch.object(server, "RECONNECT_S", 0.5):
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


SQLITE = StoreBackend(
    name="sqlite",
    make=SqliteStore,
    mark_newer=lambda place: _in_sqlite(place, "PRAGMA user_version = 999"),
    failing=disk_full,
    tamper=lambda place, tampering: _in_sqlite(place, *_TAMPERINGS[tampering]),
)
POSTGRES = StoreBackend(
    name="postgres",
    make=open_postgres,
    mark_newer=lambda place: _in_postgres(
        place, "UPDATE upthread.meta SET value = 999 WHERE name = 'schema'"
    ),
    contents=_postgres_contents,
    failing=read_only,
    tamper=lambda place, tampering: _in_postgres(place, *_TAMPERINGS[tampering]),
    is_between_people=True,
)
SHIPPED_STORES = (SQLITE, POSTGRES)
