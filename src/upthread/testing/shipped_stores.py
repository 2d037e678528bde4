"""The stores we ship, as the conformance suite wants to know them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import apsw

from upthread.store.base import Store
from upthread.store.memory import MemoryStore
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.database import Connection
from upthread.testing.store_conformance import StoreBackend

_NO_LIMIT_PAGES: Final = 0xFFFF_FFFE


def _mark_newer(place: Path) -> None:
    connection = cast("Connection", apsw.Connection(str(place)))
    connection.execute("PRAGMA user_version = 999")
    connection.close()


@contextmanager
def disk_full(store: Store) -> Generator[None]:
    """Leave a SQLite store no room to grow, with the error and the clean-up of a full disk."""
    connection = cast("SqliteStore", store).database.connection
    pages = connection.pragma("page_count")
    connection.execute(f"PRAGMA max_page_count={pages}").fetchall()
    try:
        yield
    finally:
        connection.execute(f"PRAGMA max_page_count={_NO_LIMIT_PAGES}").fetchall()


MEMORY: Final = StoreBackend(
    name="memory", make=lambda _: MemoryStore(), is_durable=False, is_shared=False
)
SQLITE: Final = StoreBackend(
    name="sqlite",
    make=SqliteStore,
    is_durable=True,
    is_shared=True,
    mark_newer=_mark_newer,
    failing=disk_full,
)
SHIPPED_STORES: Final = (MEMORY, SQLITE)
