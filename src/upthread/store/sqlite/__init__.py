"""One SQLite file as a store."""

from upthread.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
