"""Values to columns. Text is BYTEA: PostgreSQL's own takes neither NUL nor surrogates."""

from __future__ import annotations

from upthread.core.codec import encode_text
from upthread.store.sql.batch import Column


def to_columns(*values: str | int | None) -> tuple[Column, ...]:
    """Return values as PostgreSQL takes them; None is NULL."""
    # From a list: twice as fast as from a generator, and there is one for each row.
    return tuple([encode_text(each) if isinstance(each, str) else each for each in values])
