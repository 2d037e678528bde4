"""The statements, by name. They live in `sql/sqlite/`; this only reads them."""

from __future__ import annotations

from typing import Final

from upthread.store import _sql
from upthread.store._sql import Migration

QUERIES: Final = _sql.read_queries("sqlite")
RECORDED: Final = _sql.read_queries("sqlite", "recorded")


def read_migrations() -> tuple[Migration, ...]:
    """Return all steps of the schema, oldest first."""
    return _sql.read_migrations("sqlite")
