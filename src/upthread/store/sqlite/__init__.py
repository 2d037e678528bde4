"""One SQLite file as a store. Loaded when it is asked for: one query of a file needs none of it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upthread.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from upthread.store.sqlite import store

        return getattr(store, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
