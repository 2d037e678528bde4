"""The store that an address names, opened; and what only a server has."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Final

from upthread.errors import UsageError
from upthread.runtime.lease import LeaseTimes
from upthread.store.address import file_path, is_postgres
from upthread.store.log import LogStore
from upthread.store.sqlite import BUSY_TIMEOUT_S, SqliteStore

if TYPE_CHECKING:
    from upthread.store.postgres import KnownWorker, Migrated

# Measured with workers that were killed and stopped: taken over after some 4 s (ADR 36).
SHARED_LEASE_TIMES: Final = LeaseTimes(heartbeat_s=1.0, stale_after_s=4.0)
"""On PostgreSQL, where a holder is most often on another machine and shows life in no other way."""


def open_store(database: str, *, key: bytes | None = None, wait_s: float | None = None) -> LogStore:
    """Open a store. UsageError for an address of another kind, StoreError when it cannot be.

    `key` is what a file is encrypted with; a server encrypts for itself. `wait_s` is how long a
    call waits for other writers, and for a server; None: as long as usual.
    """
    if is_postgres(database):
        store: LogStore = _postgres().PostgresStore(database, wait_s=wait_s)
        return store
    busy_s = BUSY_TIMEOUT_S if wait_s is None else wait_s
    return SqliteStore(file_path(database), key=key, busy_timeout_s=busy_s)


def migrate_store(database: str) -> Migrated:
    """Bring the schema of a PostgreSQL database up to date; raises UsageError and StoreError."""
    if not is_postgres(database):
        path = file_path(database)
        raise UsageError(
            f"{path} is a SQLite file, which is brought up to date when it is opened",
            hint="name a PostgreSQL database: --db postgres://USER@HOST/DATABASE",
        )
    migrated: Migrated = _postgres().migrate(database)
    return migrated


def workers_of(database: str) -> tuple[KnownWorker, ...]:
    """Return the workers of a shared database, oldest first; UsageError for a SQLite file."""
    if not is_postgres(database):
        raise UsageError(
            "workers share a PostgreSQL database, and this is a SQLite file of one machine",
            hint="--db postgres://USER@HOST/DATABASE, or `upthread run`, which needs no worker",
        )
    store = _postgres()
    store.PostgresStore(database).close()  # whose errors say what is wrong with the schema
    table = store.WorkerTable(database)
    try:
        workers: tuple[KnownWorker, ...] = table.workers()
    finally:
        table.close()
    return workers


def shown_address(database: str) -> str:
    """Return an address as it can be shown: a server's without its password, a file's path."""
    if is_postgres(database):
        return str(_postgres().shown_address(database))
    return str(file_path(database))


def lease_times_for(database: str) -> LeaseTimes | None:
    """Return how leases are kept on a store; None: as on one machine."""
    return SHARED_LEASE_TIMES if is_postgres(database) else None


def _postgres() -> ModuleType:
    """Import what only this store needs: its driver is an extra, and takes its time to load."""
    try:
        from upthread.store import postgres  # noqa: PLC0415  # see above
    except ImportError as error:
        # An import that fails within ours is a fault, and not a driver that is missing.
        if (error.name or "psycopg").partition(".")[0] != "psycopg":
            raise
        raise UsageError(
            f"PostgreSQL needs a driver that is not here: {error}",
            hint="pip install 'upthread[postgres]'",
        ) from error
    return postgres
