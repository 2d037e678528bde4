"""Which table a row of a damaged database is of, told by its shape; and what indexes tell of rows.

Used where no page can be trusted to lead to another: pages.py reads them one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct, field

from upthread.core.codec import decode_run_event
from upthread.errors import StoreError
from upthread.store.sqlite.pages import IndexRow, Pages, TableRow, Value, Values

ROW_TYPES: Final = MappingProxyType(
    {
        "project_identity": "ttt?t?t?b?",
        "workstream": "tttib?",
        "conversation": "ttttiitit?t?b?",
        "link": "iitttttib?",
        "link_end": "tib?",
        "run": "tttib?",
        "run_event": "iitbib?",
        "transition": "iiii",
        "turn": "tii?ib?",
        "turn_event": "tbib?",
        "upstream": "t",
        "part": "iiitii?itt?bb?b?i?",
        "quarantine": "iitbib?",
        "refusal": "itbbib?",
        "once_event": "ttttbib?",
        "examined": "iiiittti?i?t?ib?",
        "briefing_edit": "iibib?",
        "act": "i?i?tttib?",
    }
)
"""The columns after the id of the tables that are salvaged: text, integer, bytes; `?` may be NULL.

Text that is not valid Unicode is bytes, so text may be either. Leases are of the moment.
"""

SEALED: Final = tuple(
    table for table in ROW_TYPES if table not in {"transition", "upstream", "part"}
)
"""The tables whose rows have a `seal`; the view `sealed_TABLE` says what it should be."""

ADDED: Final = MappingProxyType(
    dict.fromkeys(SEALED, 1) | {"project_identity": 2, "part": 1, "transition": 1}
)
"""How many columns at the end a row may lack that was written before they were added."""


class PartPosition(NamedTuple):
    """Where a part stands: its conversation's row, its message, its ordinal."""

    conversation: int
    seq: int
    ordinal: int


class Found(Struct):
    """What was read of a damaged database: rows by table and id, and what indexes told.

    `places` are those where a part was, `neighbours` pairs of them with nothing between; `names`
    and `keys` are what tables may have lost: (name, row), and a conversation's key.
    """

    rows: dict[str, dict[int, Values]] = field(default_factory=lambda: {t: {} for t in ROW_TYPES})
    places: set[PartPosition] = field(default_factory=set[PartPosition])
    neighbours: set[tuple[PartPosition, PartPosition]] = field(
        default_factory=set["tuple[PartPosition, PartPosition]"]
    )
    names: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    keys: dict[int, Values] = field(default_factory=dict[int, Values])


def read(pages: Pages) -> Found:
    """Return all rows that have the shape of ours, and what the indexes tell."""
    found = Found()
    for row in pages.table_rows():
        table = _table_of(row)
        if table is not None:
            # A row may be read twice where a copy of it was left on another page: one is kept.
            found.rows[table].setdefault(row.row_id, _filled(table, row.values))
    before: IndexRow | None = None
    for entry in pages.index_rows():
        _learn(found, entry)
        # Within a page alone: between two pages another may have been lost.
        # And of leaves: between two entries of an inner page lies all of the page below them.
        is_next = before and (before.page, before.cell + 1) == (entry.page, entry.cell)
        if before and is_next and entry.is_leaf:
            both = (_place_of(before.values), _place_of(entry.values))
            if both[0] is not None and both[1] is not None:
                found.neighbours.add((both[0], both[1]))
        before = entry
    return found


# --- what a row is -----------------------------------------------------------------------------


def _kinds(shape: str) -> Iterator[tuple[str, bool]]:
    for place, kind in enumerate(shape):
        if kind != "?":
            yield kind, shape[place + 1 : place + 2] == "?"


_KINDS: Final = {table: tuple(_kinds(shape)) for table, shape in ROW_TYPES.items()}
COLUMNS: Final = {table: len(kinds) for table, kinds in _KINDS.items()}
"""How many columns a table has after its id."""

_TYPES: Final = {"t": (str, bytes), "i": (int,), "b": (bytes,)}


def _table_of(row: TableRow) -> str | None:
    """Return the table a row is of, None for none of ours."""
    if not row.values or row.values[0] is not None:  # the id itself is not in the record
        return None
    fitting = [table for table in ROW_TYPES if _fits(table, row.values[1:])]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    # Two pairs of tables have one shape each: what a row holds has to tell.
    if "run_event" in fitting:
        return "run_event" if _is_run_event(row.values) else "quarantine"
    return "run" if str(row.values[1]).startswith("run_") else "workstream"


def _fits(table: str, values: Values) -> bool:
    kinds = _KINDS[table]
    if not len(kinds) - ADDED.get(table, 0) <= len(values) <= len(kinds):
        return False
    return all(
        isinstance(value, _TYPES[kind]) or (value is None and may_be_null)
        for value, (kind, may_be_null) in zip(values, kinds, strict=False)
    )


def _is_run_event(values: Values) -> bool:
    kind, payload = values[3], values[4]
    try:
        decode_run_event(str(kind), payload if isinstance(payload, bytes) else b"")
    except StoreError:
        return False
    return True


def _filled(table: str, values: Values) -> Values:
    missing = len(_KINDS[table]) - (len(values) - 1)
    # As the migration that added it has it: not settled. All other columns came as NULL.
    added: Value = 0 if table == "transition" else None
    return (*values[1:], *[added] * missing)


# --- what an index tells -----------------------------------------------------------------------


def _learn(found: Found, entry: IndexRow) -> None:
    values = entry.values
    place = _place_of(values)
    if place is not None:
        found.places.add(place)
        return
    match values:
        # Of any index of one text: which table the row is of, the beginning of an id tells.
        case (str(name), int(row)):
            found.names[row].append(name)
        case (str(), str(), str(), int(), int(), int(row)):
            found.keys[row] = values
        case _:
            return


def _place_of(values: Values) -> PartPosition | None:
    match values:
        case (int(conversation), int(seq), int(ordinal), int()):
            # The index of parts is the only one of four numbers.
            return PartPosition(conversation, seq, ordinal)
        case _:
            return None


def integer(value: Value) -> int:
    """Return a value whose shape says that it is an integer."""
    assert isinstance(value, int)
    return value
