"""The recorded session of OpenCode from which its shapes are made: rows of its database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.shapes import DIRECTORY, marks_in

Row = dict[str, Any]


@dataclass
class Rows:
    """The rows of a session. `data` is an object, or a text that is stored as it is."""

    session: Row | None
    messages: list[Row]
    parts: list[Row]

    def message(self, mark: str) -> Row:
        """Return the first message with a part that says a mark."""
        owner = self.part(mark)["message_id"]
        return next(row for row in self.messages if row["id"] == owner)

    def part(self, mark: str) -> Row:
        """Return the first part that says a mark."""
        return next(row for row in self.parts if mark in json.dumps(row["data"]))

    def parts_of(self, message: Row) -> list[Row]:
        """Return the parts of a message."""
        return [row for row in self.parts if row["message_id"] == message["id"]]

    def drop(self, message: Row) -> None:
        """Take out a message with its parts."""
        self.messages.remove(message)
        self.parts = [row for row in self.parts if row["message_id"] != message["id"]]


@dataclass(frozen=True)
class Shape:
    """One way in which a session may be stored: its rows are changed, then its files."""

    name: str
    what: str
    change_rows: Callable[[Rows], None] | None = None
    change_files: Callable[[Path], None] | None = None

    def write(self, rows: Rows, database: Path) -> list[str]:
        """Write a session of this shape into a database; returns the marks that are stored."""
        if self.change_rows:
            self.change_rows(rows)
        with closing(connected(database)) as connection, connection:
            insert(connection, rows)
        if self.change_files:
            self.change_files(database)
        return marks_in(json.dumps(rows.parts))


def shape_of(**changes: Any) -> Shape:
    """Return the shape that a function makes, named and described as the function is."""
    (change,) = changes.values()
    words = " ".join((change.__doc__ or "").split()).rstrip(".")
    return Shape(change.__name__, words, **changes)


def rows_in(database: Path) -> dict[str, list[Row]]:
    """Return all rows that hold sessions."""
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        tables = {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY id")]
            for table in ("session", "message", "part")
        }
    for row in (*tables["message"], *tables["part"]):
        with suppress(ValueError):
            row["data"] = json.loads(row["data"])
    return tables


def recorded(
    raw: str, directory: str = DIRECTORY, project: str = "global", number: int = 0
) -> Rows:
    """Return the recorded rows as OpenCode stores them for a directory.

    With a number the ids are other ones, in the same order.
    """
    rows = renumbered(json.loads(raw.replace(DIRECTORY, directory)), number)
    (session,) = rows["session"]
    return Rows({**session, "project_id": project}, rows["message"], rows["part"])


def renumbered(rows: Any, number: int) -> Any:
    """Return rows of the three tables with ids of their own."""
    text = json.dumps(rows)
    for table in ("session", "message", "part"):
        for row in rows[table]:
            # Behind the time, which orders them, and not at the end, where copies differ.
            text = text.replace(row["id"], f"{row['id'][:16]}{number:04}{row['id'][20:]}")
    return json.loads(text)


def connected(database: Path) -> sqlite3.Connection:
    """Open a database that OpenCode may be writing to."""
    return sqlite3.connect(database, timeout=30)


def project_in(database: Path) -> str:
    """Return the id of the project that OpenCode knows."""
    with closing(sqlite3.connect(database)) as connection:
        if not connection.execute("PRAGMA table_info(project)").fetchall():
            return "global"
        found = connection.execute("SELECT id FROM project ORDER BY id = 'global'").fetchall()
    return found[0][0] if found else "global"


def insert(connection: sqlite3.Connection, rows: Rows) -> None:
    """Write the rows of a session into a database that has the tables."""
    tables = {"session": [rows.session] if rows.session else [], "message": rows.messages}
    for table, found in {**tables, "part": rows.parts}.items():
        names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        for row in found:
            data = row.get("data")
            whole = {**row, "data": json.dumps(data)} if isinstance(data, dict) else row
            kept = {name: whole[name] for name in names if name in whole}
            marks = ", ".join("?" * len(kept))
            connection.execute(
                f"INSERT INTO {table} ({', '.join(kept)}) VALUES ({marks})", [*kept.values()]
            )
