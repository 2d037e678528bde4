"""The store on PostgreSQL, through psycopg 3. Needs the extra `upthread[postgres]`."""

from upthread.store.postgres.schema import Migrated, migrate
from upthread.store.postgres.store import PostgresStore

__all__ = ["Migrated", "PostgresStore", "migrate"]
