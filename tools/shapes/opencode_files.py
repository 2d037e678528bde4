"""Shapes of OpenCode's store as a whole: the files that hold its sessions."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tools.shapes.opencode_rows import Shape, shape_of

Change = Callable[[Path], None]
FILES: list[Shape] = []


def of_files(change: Change) -> Change:
    """Put a shape into the table."""
    FILES.append(shape_of(change_files=change))
    return change


@of_files
def with_a_log(path: Path) -> None:
    """All is in the log of a process that was killed, with its index."""
    _leave_log(path, index=True)


@of_files
def with_a_log_without_its_index(path: Path) -> None:
    """All is in the log of a process that was killed, and its index is missing."""
    _leave_log(path, index=False)


def _leave_log(path: Path, *, index: bool) -> None:
    aside = path.with_name("aside")
    aside.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("UPDATE session SET title = 'in the log'")
        connection.commit()
        for suffix in ("", "-wal", *(["-shm"] if index else [])):
            shutil.copy(f"{path}{suffix}", aside / f"{path.name}{suffix}")
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    for each in aside.iterdir():
        shutil.move(each, path.parent / each.name)
    aside.rmdir()


@of_files
def half_a_log(path: Path) -> None:
    """The log is cut in the middle."""
    _leave_log(path, index=False)
    log = path.with_name(f"{path.name}-wal")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


@of_files
def no_database(path: Path) -> None:
    """The database is empty."""
    path.write_bytes(b"")


@of_files
def not_a_database(path: Path) -> None:
    """The file is no database."""
    path.write_bytes(b"no database at all, only bytes" * 100)


@of_files
def cut(path: Path) -> None:
    """The database is cut in the middle."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 // 4096 * 4096])


@of_files
def a_damaged_page(path: Path) -> None:
    """A page of parts is overwritten with NUL bytes."""
    raw = bytearray(path.read_bytes())
    at = raw.find(b"PEAR-2") // 4096 * 4096
    raw[at : at + 4096] = bytes(4096)
    path.write_bytes(raw)


@of_files
def another_name(path: Path) -> None:
    """The database is called after a channel, as development builds do."""
    path.rename(path.with_name("opencode-dev.db"))


@of_files
def a_table_missing(path: Path) -> None:
    """The table of parts is missing."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE part")


@of_files
def json_of_before_1_2(path: Path) -> None:
    """The session is in JSON files, as versions before 1.2 stored it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        rows = {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
            for table in ("session", "message", "part")
        }
    storage = path.with_name("storage")
    for session in rows["session"]:
        told = {"id": session["id"], "version": "1.1.65", "projectID": session["project_id"]}
        told |= {"directory": session["directory"], "title": session["title"]}
        times = {"created": session["time_created"], "updated": session["time_updated"]}
        _write(storage / "session" / session["project_id"], session["id"], {**told, "time": times})
    for message in rows["message"]:
        whole = {**json.loads(message["data"]), "id": message["id"]}
        whole["sessionID"] = message["session_id"]
        _write(storage / "message" / message["session_id"], message["id"], whole)
    for part in rows["part"]:
        whole = {**json.loads(part["data"]), "id": part["id"], "messageID": part["message_id"]}
        whole["sessionID"] = part["session_id"]
        _write(storage / "part" / part["message_id"], part["id"], whole)
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def _write(directory: Path, name: str, value: object) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.json").write_text(json.dumps(value))
