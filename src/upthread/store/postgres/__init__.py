"""The store on PostgreSQL, through psycopg 3. Needs the extra `upthread[postgres]`."""

from upthread.store.postgres.schema import Migrated, migrate
from upthread.store.postgres.server import shown_address
from upthread.store.postgres.store import PostgresStore
from upthread.store.postgres.workers import KnownWorker, WorkerTable

__all__ = [
    "KnownWorker",
    "Migrated",
    "PostgresStore",
    "WorkerTable",
    "migrate",
    "shown_address",
]
