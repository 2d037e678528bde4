"""The statements, by name. They live in `sql/postgres/`; this only reads them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from upthread.store.sql import statements
from upthread.store.sql.statements import Migration


def _as_bytes(queries: Mapping[str, str]) -> Mapping[str, bytes]:
    """As bytes: psycopg takes a `str` only where a type checker can see that it is a literal."""
    return MappingProxyType({name: statement.encode() for name, statement in queries.items()})


QUERIES: Final = _as_bytes(statements.read_queries("postgres"))
RECORDED: Final = _as_bytes(statements.read_queries("postgres", "recorded"))


def read_migrations() -> tuple[Migration, ...]:
    """Return all steps of the schema, oldest first."""
    return statements.read_migrations("postgres")
