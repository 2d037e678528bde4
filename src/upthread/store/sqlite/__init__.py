"""The store on SQLite, through apsw, which brings an engine of its own."""

from upthread.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
