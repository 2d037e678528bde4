"""Erased content out of the file.

Within a transaction content becomes NULL, and SQLite overwrites what it frees (`secure_delete`).
That leaves the log, and what b-trees have moved about before: `scrub` writes the database anew and
empties the log, so that no file holds what was erased.
"""

from __future__ import annotations

from typing import Final

from upthread.errors import StoreError
from upthread.store.sqlite.database import Database

_TEMPORARY_FILE: Final = 1
_TEMPORARY_MEMORY: Final = 2


def scrub(database: Database) -> None:
    """Write the database anew and empty its log. StoreError when somebody reads or writes it."""
    with database.worded("scrub"):
        connection = database.connection
        # The copy is as large as what is left: on disk it is a file without a name. The engine
        # would not encrypt that file.
        place = _TEMPORARY_MEMORY if database.is_encrypted else _TEMPORARY_FILE
        connection.pragma("temp_store", str(place))
        try:
            connection.execute("VACUUM")
        finally:
            connection.pragma("temp_store", str(_TEMPORARY_MEMORY))
        ((is_busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if is_busy:
        raise StoreError(
            f"the log of {database.path} still holds what was erased: another process reads it",
            hint="end what uses upthread, then do it again",
        )
