"""Salvage: all that can still be read of a damaged database, in a new one that is whole.

Theory of operation. Rows are known by their shape, whatever page they stand on (shapes.py); indexes
tell what is missing, and names that tables have lost. What is read goes into a new database with
the numbers it had. There what cannot stand alone is mended (repair.py, chain_repair.py). What is
damaged is read and left as it is; the new one has its name only when it is whole and on the disk.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from msgspec import Struct

from upthread.errors import StoreError, UsageError
from upthread.store.sqlite.chain_repair import LostMessages, Rechaining
from upthread.store.sqlite.database import Connection
from upthread.store.sqlite.files import sync_directory, sync_file
from upthread.store.sqlite.pages import read_pages
from upthread.store.sqlite.repair import Mender
from upthread.store.sqlite.row_types import COLUMNS, ROW_TYPES, SEALED, Found, read
from upthread.store.sqlite.store import SqliteStore

MENDED = frozenset({"part", "turn_event", "run_event"})
"""Tables whose rows hang together: repair.py and chain_repair.py write them."""


class Salvaged(Struct, frozen=True, kw_only=True):
    """What became of a damaged database. `rows` counts what was kept, by table.

    `notes` are other things that a person has to know, in words.
    """

    database: Path
    salvaged: Path
    pages: int
    rows: dict[str, int]
    messages: int
    lost: tuple[LostMessages, ...]
    notes: tuple[str, ...]


def salvage(path: Path, target: Path, *, key: bytes | None, now_ms: int) -> Salvaged:
    """Read a damaged database, which stays as it is, into a new one under the same key.

    UsageError where `target` is there. StoreError when nothing of ours can be read.
    """
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} is there already", hint="name a file that is not")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = target.with_name(f"{target.name}.{secrets.token_hex(8)}")
    scratch.mkdir(mode=0o700)
    try:
        made = scratch / "salvaged.db"
        SqliteStore(made, key=key).close()
        pages = read_pages(path, scratch, key=key)
        found = read(pages)
        if not any(found.rows.values()):
            raise StoreError(
                f"{path} holds nothing of ours that can be read",
                hint="was it ours? is it encrypted, under another key?",
            )
        store = SqliteStore(made, key=key)
        try:
            with store.database.transaction(is_synced=True) as connection:
                # In this order: parts name turns that mending may have to make, chains cover the
                # names of their owners, and seals cover which row is before.
                _insert(connection, found)
                mender = Mender(connection, found, now_ms=now_ms)
                mender.mend()
                parts = Rechaining(connection, found, now_ms=now_ms)
                parts.write()
                notes = _sealed_anew(connection)
            counts = {table: _count(connection, table) for table in ROW_TYPES}
        finally:
            store.close()
        # Before it has the name: whoever finds a file there may throw the damaged one away.
        sync_file(made)
        made.rename(target)
        sync_directory(target.parent)
    finally:
        shutil.rmtree(scratch)
    return Salvaged(
        database=path,
        salvaged=target,
        pages=pages.count,
        rows=counts,
        messages=parts.messages,
        lost=tuple(parts.lost),
        notes=(*mender.notes, *notes),
    )


# --- into the new database ---------------------------------------------------------------------


def _insert(connection: Connection, found: Found) -> None:
    for table, rows in found.rows.items():
        if table in MENDED:
            continue
        marks = ", ".join("?" * (COLUMNS[table] + 1))
        for row_id, values in sorted(rows.items()):
            # One that is there twice, moved when the damage was done, is kept once.
            statement = f"INSERT OR IGNORE INTO {table} VALUES ({marks})"  # noqa: S608  # of ours
            connection.execute(statement, (row_id, *values))


def _sealed_anew(connection: Connection) -> list[str]:
    """Seal what is left, since nothing that follows a gap could prove itself; say what did not."""
    notes: list[str] = []
    for table in SEALED:
        key = "link" if table == "link_end" else "id"
        other = connection.execute(
            f"SELECT count(*) FROM sealed_{table} WHERE seal <> sealed"  # noqa: S608  # of ours
        ).fetchone()
        if other is not None and other[0]:
            notes.append(f"{other[0]} of {table}: not what was recorded, or after what is lost")
        connection.execute(
            f"UPDATE {table} SET seal = (SELECT s.sealed FROM sealed_{table} AS s"  # noqa: S608
            f" WHERE s.{key} = {table}.{key})"
        )
    return notes


def _count(connection: Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608  # of ours
    return int(row[0]) if row else 0
