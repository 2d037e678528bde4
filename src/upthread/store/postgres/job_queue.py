"""The job queue's own tables, Procrastinate's, in our schema: made and moved on by `migrate`.

Its functions name no schema. Each is told to look in ours, so that a store can insert a job without
changing where its own statements look, and nothing of it is ever found or left elsewhere. Which of
its migrations were made is written down beside our own: it keeps no record itself.

Only `migrate` and workers import Procrastinate; a store calls its functions, which are versioned.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from upthread.errors import UsageError
from upthread.store.postgres.server import Connection

# Named last, or the server would look among temporary tables first, which anybody may make.
SEARCH_PATH: Final = "upthread, pg_temp"

_ROUTINES: Final = b"""
SELECT p.oid::regprocedure::text FROM pg_proc AS p
WHERE p.pronamespace = 'upthread'::regnamespace AND p.proname LIKE 'procrastinate%'
"""


def migrate_job_queue(connection: Connection) -> None:
    """Make the queue's tables, or what the installed version of it adds. Within a transaction."""
    steps = _steps()
    made = _steps_made(connection)
    connection.execute(f"SET LOCAL search_path = {SEARCH_PATH}".encode())
    # The schema is that of the newest version: of a new database its steps are only written down.
    if not made:
        _run(connection, _sql().joinpath("schema.sql").read_text(encoding="utf-8"))
    for name, script in steps.items():
        if made and name not in made:
            _run(connection, script)
    for name in steps.keys() - made:
        connection.execute(b"INSERT INTO upthread.job_queue_migration (name) VALUES ($1)", (name,))
    # All of them, each time: a step may have made one anew, and without its setting.
    for (routine,) in connection.execute(_ROUTINES).fetchall():
        statement = f"ALTER ROUTINE {routine} SET search_path = {SEARCH_PATH}"
        connection.execute(statement.encode())


def _steps_made(connection: Connection) -> set[str]:
    rows = connection.execute(b"SELECT name FROM upthread.job_queue_migration").fetchall()
    return {str(name) for (name,) in rows}


def _run(connection: Connection, script: str) -> None:
    # Many statements in one script, which cannot be prepared.
    connection.execute(script.encode(), prepare=False)


def _steps() -> dict[str, str]:
    """Return the scripts that lead from one of the queue's versions to the next, in order."""
    # Their names begin with the version they came with, two digits a number.
    found = sorted(_sql().joinpath("migrations").iterdir(), key=lambda each: each.name)
    return {
        each.name: each.read_text(encoding="utf-8") for each in found if each.name.endswith(".sql")
    }


def _sql() -> Traversable:
    try:
        return resources.files("procrastinate").joinpath("sql")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the schema needs a package that is not here: {error}",
            hint="pip install 'upthread[postgres]'",
        ) from error
