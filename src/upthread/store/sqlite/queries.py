"""The statements, by name. They live in `sql/sqlite/`; this only reads them."""

from __future__ import annotations

from typing import Final

from upthread.store.sql import statements
from upthread.store.sql.statements import Migration

QUERIES: Final = statements.read_queries("sqlite")
RECORDED: Final = statements.read_queries("sqlite", "recorded")


def read_migrations() -> tuple[Migration, ...]:
    """Return all steps of the schema, oldest first."""
    return statements.read_migrations("sqlite")
