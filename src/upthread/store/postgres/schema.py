"""The schema: made by `upthread migrate` alone, checked at every opening.

The tables of the job queue, Procrastinate's, are made after our own, in our schema. The queue's
functions name no schema. Each is set to look in ours, so that a store can insert a job without
changing where its own statements look. The queue keeps no record of its migrations, so a table of
ours does. Only `migrate` and workers import Procrastinate; a store calls its functions, which are
versioned.
"""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from upthread.errors import StoreError, UsageError
from upthread.store.postgres.server import (
    ACT_FOR,
    ALL_PROJECTS,
    Connection,
    Server,
    lift_time_limit,
)
from upthread.store.streams import LOG_VERSION, SCHEMA_VERSION, Entry, refolded

SCHEMA = Path(__file__).with_name("schema.sql")
_LOCK = int.from_bytes(b"upthread")
"""The advisory lock of whoever migrates."""

# Reads go on; a commit that waits for the lock is refused, because it then reads the new version.
_LOCK_HEADS = b"LOCK TABLE upthread.head IN EXCLUSIVE MODE"
_BARE_HEADS = b"SELECT id, kind, name, project FROM upthread.head ORDER BY id"
_FOLDED = b"""
SELECT seq, kind, at_ms, kept, NULL, NULL, hash, NULL
FROM upthread.entry WHERE stream = $1 ORDER BY seq
"""
_REFOLD = b"UPDATE upthread.head SET state = $1, seal = $2 WHERE id = $3"
_RAISE = b"UPDATE upthread.meta SET value = $1 WHERE name = 'schema'"

# Named last, or the server would look among temporary tables first, which anybody may make.
SEARCH_PATH = "upthread, pg_temp"

_ROUTINES = b"""
SELECT p.oid::regprocedure::text FROM pg_proc AS p
WHERE p.pronamespace = 'upthread'::regnamespace AND p.proname LIKE 'procrastinate%'
"""


class Migrated(NamedTuple):
    """What a migration did; `database` is the address without its password. 0: no schema."""

    database: str
    schema_before: int
    schema_after: int


def migrate(address: str) -> Migrated:
    """Make the schema, all or nothing, and what the job queue's version adds to its own.

    Any number of processes may call it at once: one makes it, the others wait for it. Raises
    StoreError, also for a schema of another version, which is left as it is.
    """
    server = Server(address)
    try:
        return server.run("migrate", lambda connection: _migrate(connection, server.name))
    finally:
        server.close()


def check_schema(connection: Connection, name: str) -> None:
    """Raise StoreError unless the schema is this version's."""
    version = _version(connection)
    _refuse_others(version, name)
    if version < SCHEMA_VERSION:
        raise StoreError(
            f"{name} has no schema of upthread yet, or one of an older version",
            hint="run `upthread migrate` with the same address",
        )


def _migrate(connection: Connection, name: str) -> Migrated:
    with connection.transaction():
        # However long the others take.
        connection.execute(b"SET LOCAL lock_timeout = 0")
        lift_time_limit(connection)
        connection.execute(b"SELECT pg_advisory_xact_lock($1)", (_LOCK,))
        connection.execute(ACT_FOR, (ALL_PROJECTS, True))
        # Under the lock: whoever waited for it finds the schema made.
        before = _version(connection)
        _refuse_others(before, name)
        if not before:
            connection.execute(SCHEMA.read_bytes())
            connection.execute(
                b"INSERT INTO upthread.meta (name, value) VALUES ('schema', $1)", (SCHEMA_VERSION,)
            )
        elif before < SCHEMA_VERSION:
            _fold_again(connection)
        # In the same transaction: a store that finds our schema calls the queue's functions.
        _migrate_job_queue(connection)
    return Migrated(name, before, SCHEMA_VERSION)


def _fold_again(connection: Connection) -> None:
    """Make every head of its entries anew: what heads hold is an older version's."""
    connection.execute(_LOCK_HEADS)
    for row, *names in connection.execute(_BARE_HEADS).fetchall():
        # Without the words, which no head holds.
        found = connection.execute(_FOLDED, (row,)).fetchall()
        state, seal = refolded(map(Entry._make, found), *names)
        connection.execute(_REFOLD, (state, seal, row))
    connection.execute(_RAISE, (SCHEMA_VERSION,))


def _version(connection: Connection) -> int:
    """Return the version of the schema, 0 without one; 1 for all that was before the log."""
    # Asked for, since to read a table that is not there would end the transaction.
    ((has_log, is_older),) = connection.execute(
        b"SELECT to_regclass('upthread.meta') IS NOT NULL,"
        b" to_regclass('upthread.schema_migration') IS NOT NULL"
    ).fetchall()
    if not has_log:
        return int(is_older)
    rows = connection.execute(b"SELECT value FROM upthread.meta WHERE name = 'schema'").fetchall()
    return int(rows[0][0]) if rows else 0


def _refuse_others(version: int, name: str) -> None:
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{name} was written by a newer upthread (schema {version}, this version knows"
            f" {SCHEMA_VERSION})",
            hint="upgrade upthread; the database was left as it is",
        )
    if 0 < version < LOG_VERSION:
        raise StoreError(
            f"{name} is of an older version, before schema {LOG_VERSION}; it was left as it is",
            hint="convert it: python tools/convert_database.py OLD NEW, in upthread's source",
        )


# --- the job queue --------------------------------------------------------------------------------


def _migrate_job_queue(connection: Connection) -> None:
    """Make the queue's tables, or what the installed version of it adds. Within a transaction."""
    steps = _steps()
    rows = connection.execute(b"SELECT name FROM upthread.job_queue_migration").fetchall()
    made = {str(name) for (name,) in rows}
    connection.execute(f"SET LOCAL search_path = {SEARCH_PATH}".encode())
    # The schema is that of the newest version: of a new database its steps are only written down.
    if not made:
        connection.execute(_script(_sql().joinpath("schema.sql")))
    for name, script in steps.items():
        if made and name not in made:
            connection.execute(script)
    for name in steps.keys() - made:
        connection.execute(b"INSERT INTO upthread.job_queue_migration (name) VALUES ($1)", (name,))
    # All of them, each time: a step may have made one anew, and without its setting.
    for (routine,) in connection.execute(_ROUTINES).fetchall():
        statement = f"ALTER ROUTINE {routine} SET search_path = {SEARCH_PATH}"
        connection.execute(statement.encode())


def _steps() -> dict[str, bytes]:
    """Return the scripts that lead from one of the queue's versions to the next, in order."""
    # Their names begin with the version they came with, two digits a number.
    found = sorted(_sql().joinpath("migrations").iterdir(), key=lambda each: each.name)
    return {each.name: _script(each) for each in found if each.name.endswith(".sql")}


def _script(file: Traversable) -> bytes:
    """Return a script in ASCII: a database may lack what a comment has, for example a long dash."""
    return file.read_text("utf-8").encode("ascii", "replace")


def _sql() -> Traversable:
    try:
        return resources.files("procrastinate").joinpath("sql")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the schema needs a package that is not here: {error}",
            hint="pip install 'upthread[postgres]'",
        ) from error
