"""The statements, by name. They live in `sql/postgres/`; this only reads them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from upthread.store import _sql
from upthread.store._sql import Migration


def _as_bytes(queries: Mapping[str, str]) -> Mapping[str, bytes]:
    """As bytes: psycopg takes a `str` only where a type checker can see that it is a literal."""
    return MappingProxyType({name: statement.encode() for name, statement in queries.items()})


QUERIES: Final = _as_bytes(_sql.read_queries("postgres"))
RECORDED: Final = _as_bytes(_sql.read_queries("postgres", "recorded"))


def read_migrations() -> tuple[Migration, ...]:
    """Return all steps of the schema, oldest first."""
    return _sql.read_migrations("postgres")
