"""One SQLite file as a store."""

from upthread.store.sqlite.store import BUSY_TIMEOUT_S, SqliteStore

__all__ = ["BUSY_TIMEOUT_S", "SqliteStore"]
