"""The schema: made and moved on by `upthread migrate` alone, checked at every opening.

The tables of the job queue, another package, are made after our own steps: job_queue.py.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from upthread.errors import StoreError
from upthread.store.postgres.job_queue import migrate_job_queue
from upthread.store.postgres.server import ACT_FOR, ALL_PROJECTS, Connection, Server
from upthread.store.sql.statements import read_migrations

_LOCK: Final = int.from_bytes(b"upthread")
"""The advisory lock of whoever migrates."""


class Migrated(NamedTuple):
    """What a migration did; `database` is the address without its password. 0: no schema."""

    database: str
    schema_before: int
    schema_after: int


def migrate(address: str) -> Migrated:
    """Make the missing steps of the schema, all or none.

    Any number of processes may call it at once: one makes the steps, the others wait for it. Raises
    StoreError, also for a schema of a newer version, which is left as it is.
    """
    server = Server(address)
    try:
        return server.run("migrate", lambda connection: _migrate(connection, server.name))
    finally:
        server.close()


def check_schema(connection: Connection, name: str) -> None:
    """Raise StoreError unless the schema is this version's."""
    made = _steps_made(connection)
    migrations = read_migrations("postgres")
    _refuse_others(made, name)
    if len(made) < len(migrations):
        what = f"has schema {len(made)}, this version needs {len(migrations)}"
        raise StoreError(
            f"{name} {what if made else 'has no schema of upthread yet'}",
            hint="run `upthread migrate` with the same address",
        )


def _migrate(connection: Connection, name: str) -> Migrated:
    migrations = read_migrations("postgres")
    with connection.transaction():
        # However long the others, and the steps themselves, take.
        connection.execute(b"SET LOCAL lock_timeout = 0")
        if connection.info.server_version >= 170_000:
            connection.execute(b"SET LOCAL transaction_timeout = 0")
        connection.execute(b"SELECT pg_advisory_xact_lock($1)", (_LOCK,))
        # Policies hold for the owner of the tables, too, and a step changes rows of every project.
        connection.execute(ACT_FOR, (ALL_PROJECTS, True))
        # Under the lock: whoever waited for it finds the steps made.
        made = _steps_made(connection)
        _refuse_others(made, name)
        before = len(made)
        for step in migrations[before:]:
            # Many statements in one script, which cannot be prepared.
            connection.execute(step.script.encode(), prepare=False)
            connection.execute(
                b"INSERT INTO upthread.schema_migration (version, name, checksum)"
                b" VALUES ($1, $2, $3)",
                (step.version, step.name, step.checksum),
            )
        # In the same transaction: a store that finds our schema calls the queue's functions.
        migrate_job_queue(connection)
    return Migrated(name, before, len(migrations))


def _steps_made(connection: Connection) -> list[tuple[int, str]]:
    # Asked for, since to read a table that is not there would end the transaction.
    exists = connection.execute(
        b"SELECT to_regclass('upthread.schema_migration') IS NOT NULL"
    ).fetchone()
    if exists != (True,):
        return []
    rows = connection.execute(
        b"SELECT version, checksum FROM upthread.schema_migration ORDER BY version"
    ).fetchall()
    return [(int(version), str(checksum)) for version, checksum in rows]


def _refuse_others(made: list[tuple[int, str]], name: str) -> None:
    """Refuse a schema made by other migrations, because ours would fail on it or harm it."""
    ours = [(step.version, step.checksum) for step in read_migrations("postgres")]
    if len(made) > len(ours):
        raise StoreError(
            f"{name} was written by a newer upthread (schema {len(made)}, this version knows"
            f" {len(ours)})",
            hint="upgrade upthread; the database was left as it is",
        )
    if made != ours[: len(made)]:
        raise StoreError(
            f"the schema of {name} was made by other migrations than this version's",
            hint="a development version wrote it: name another database",
        )
