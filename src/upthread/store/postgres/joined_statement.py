"""Several inserts as one statement, with what the server is to check before it commits them."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final, TypeAlias

from upthread.core.lazy_regex import regex
from upthread.store.postgres.queries import QUERIES

Shape: TypeAlias = tuple[tuple[str, int], ...]
"""Which queries, and how many rows of each."""

ROWS_MAX: Final = 12
"""Rows of one table in one statement: each number of them is a statement to be prepared."""

_LEASE: Final = b"upthread.must_hold"
_CONVERSATION: Final = b"upthread.must_end_with"

# Nothing may follow the values: with an ON CONFLICT the unique key would stop nobody.
_PLAIN: Final = regex(rb"(INSERT INTO [^$]* VALUES )\(([$0-9, ]+)\)", re.DOTALL)
_PLACE: Final = regex(rb"\$(\d+)")


@lru_cache(maxsize=1_000)
def joined(leases: int, conversations: int, shape: Shape) -> bytes | None:
    """Return one statement that makes so many checks and inserts all rows, in that order of values.

    None for what cannot be one statement. The checks come first, as the statement's own work; were
    they not to, a commit that waits for another could only be ended as a deadlock, and done again.
    """
    if not _can_be_one(shape):
        return None
    number = 1
    checks: list[bytes] = []
    # Leases first, as a transaction locks them: batch.py.
    for check in (_LEASE,) * leases + (_CONVERSATION,) * conversations:
        checks.append(b"%b($%d, $%d)" % (check, number, number + 1))
        number += 2
    inserts: list[bytes] = []
    for at, (query, rows) in enumerate(shape):
        insert, values = _insert(query, rows, number)
        inserts.append(b"w%d AS (%b)" % (at, insert))
        number += values
    # The server carries out inserts in a WITH though nothing reads from them.
    head = b"WITH %b " % b", ".join(inserts) if inserts else b""
    return head + b"SELECT " + (b", ".join(checks) or b"1")


def _can_be_one(shape: Shape) -> bool:
    """Return whether all can be sent as one statement, and not be done twice.

    Rows of values have a unique key, which stops whoever comes second. What looks for itself
    whether it was done before looks too early for that: it goes along with such a row, or not.
    """
    are_few = all(rows <= (ROWS_MAX if _is_plain(query) else 1) for query, rows in shape)
    are_inserts = all(QUERIES[query].startswith(b"INSERT") for query, _ in shape)
    return are_few and are_inserts and (not shape or any(_is_plain(query) for query, _ in shape))


@cache
def _is_plain(query: str) -> bool:
    return _PLAIN.fullmatch(_body(query)) is not None


def _body(query: str) -> bytes:
    return QUERIES[query].strip().removesuffix(b";")


def _insert(query: str, rows: int, first: int) -> tuple[bytes, int]:
    """Return an insert of so many rows, its values numbered from `first`, and how many they are."""
    body = _body(query)
    columns = max(int(each) for each in _PLACE.findall(body))
    plain = _PLAIN.fullmatch(body)
    head, row = (plain[1], b"(%b)" % plain[2]) if plain else (b"", body)
    shifts = range(first - 1, first - 1 + rows * columns, columns)
    return head + b", ".join(_shifted(row, by) for by in shifts), rows * columns


def _shifted(row: bytes, by: int) -> bytes:
    return _PLACE.sub(lambda place: b"$%d" % (int(place[1]) + by), row)
