"""What is sent: the statements by name, which live in `sql/postgres/`, and values as columns.

Text is BYTEA: PostgreSQL's own takes neither NUL nor surrogates.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from upthread.core.codec import encode_text
from upthread.store.sql.batch import Column
from upthread.store.sql.statements import read_queries


def _as_bytes(queries: Mapping[str, str]) -> Mapping[str, bytes]:
    """As bytes: psycopg takes a `str` only where a type checker can see that it is a literal."""
    return MappingProxyType({name: statement.encode() for name, statement in queries.items()})


QUERIES: Final = _as_bytes(read_queries("postgres"))
RECORDED: Final = _as_bytes(read_queries("postgres", "recorded"))


def to_columns(*values: str | int | None) -> tuple[Column, ...]:
    """Return values as PostgreSQL takes them; None is NULL."""
    # From a list: twice as fast as from a generator, and there is one for each row.
    return tuple([encode_text(each) if isinstance(each, str) else each for each in values])
