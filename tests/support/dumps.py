"""What is in a SQLite file, table by table, in words that do not depend on its own row numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

NOT_MOVED = {
    "lease": "who holds what is true of one store only",
    "schema_migration": "the schema's own",
    "sync_mark": "the schema's own",
    "upstream": "names of sessions, written down with what names them",
}
"""Tables that a move leaves behind, and why."""

IN_ORDER = {
    "workstream",
    "conversation",
    "link",
    "run",
    "turn",
    "transition",
    "refusal",
    "examined",
}
"""Tables whose order something is read by. Of the others each row says its place."""

NAMES = {
    "conversation": "SELECT id, conversation_id FROM conversation",
    "turn": "SELECT id, turn_id FROM turn",
    "run": "SELECT id, run_id FROM run",
    "upstream": "SELECT id, upstream_session_id FROM upstream",
    "link": "SELECT link.id, conversation_id || '#' || seq FROM link"
    " JOIN conversation ON conversation.id = conversation",
}

Dump = dict[str, list[tuple[Any, ...]]]


def dump(path: Path) -> Dump:
    """All rows of all tables but those that are not moved."""
    connection = apsw.Connection(str(path))
    names = {column: dict(connection.execute(query)) for column, query in NAMES.items()}
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    found = {name: rows_of(connection, name, names) for (name,) in tables if name not in NOT_MOVED}
    connection.close()
    return found


def rows_of(connection: Any, table: str, names: dict[str, dict[int, Any]]) -> list[tuple[Any, ...]]:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    rows = [
        tuple(
            value if name not in names or value is None else names[name][value]
            for name, value in zip(columns, row, strict=True)
            if name not in {"id", "seal"}  # of this file alone: a seal covers the row before
        )
        for row in connection.execute(f"SELECT * FROM {table} ORDER BY {columns[0]}")
    ]
    if table == "turn_event":
        places = [row[0] for row in connection.execute("SELECT id FROM turn_event ORDER BY id")]
        named = [(names["turn"][place >> 20], place & 0xFFFFF) for place in places]
        rows = [(*place, *row) for place, row in zip(named, rows, strict=True)]
    return rows if table in IN_ORDER else sorted(rows, key=repr)
