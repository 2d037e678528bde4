"""Values to columns and back. Text is BYTEA: PostgreSQL's own takes neither NUL nor surrogates."""

from __future__ import annotations

from typing import Any, TypeAlias

from upthread.core.codec import decode_text, encode_text

Row: TypeAlias = tuple[Any, ...]
"""What PostgreSQL returns: column types are the schema's, not the type checker's."""

Column: TypeAlias = bytes | int | None


def to_columns(*values: str | int | None) -> tuple[Column, ...]:
    """Return values as PostgreSQL takes them; None is NULL."""
    # From lists, here and below: twice as fast as from generators, and there is one for each row.
    return tuple([encode_text(each) if isinstance(each, str) else each for each in values])


def from_columns(row: Row) -> Row:
    """Return a row with its text as text. Not for columns that hold content, which is bytes."""
    return tuple([decode_text(each) if type(each) is bytes else each for each in row])
