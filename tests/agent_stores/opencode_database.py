"""Databases as OpenCode makes them: the tables of the real one (1.18.33), filled by a generator."""

import json
from pathlib import Path

import apsw

VERSION = "1.18.33"

# As the binary of 1.18.33 creates them; tests/live compares with the real one.
MESSAGES = """
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
CREATE INDEX part_session_idx ON part (session_id);
"""
SCHEMA = f"""{MESSAGES}
CREATE TABLE project (id text PRIMARY KEY, worktree text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, sandboxes text NOT NULL);
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text,
    slug text NOT NULL, directory text NOT NULL, title text NOT NULL, version text NOT NULL,
    metadata text, permission text, agent text, time_created integer NOT NULL,
    time_updated integer NOT NULL);
"""

# anomalyco/opencode#10616, comment of 2026-03-06: orphans by tool; the rest up to 311 is not named.
ORPHANS = {
    "write": 187,
    "apply_patch": 46,
    "task": 33,
    "bash": 12,
    "glob": 10,
    "read": 4,
    "delegate_task": 4,
    "background_output": 4,
    "todowrite": 3,
    "edit": 2,
    "other": 6,
}
SESSIONS = 44


class OpenCodeDatabase:
    """A database to write sessions into. Ids count up, as OpenCode's do with time."""

    def __init__(self, path: Path, *, version: str = VERSION) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.version = version
        self.connection = apsw.Connection(str(path))
        list(self.connection.execute("PRAGMA journal_mode = WAL"))
        self.connection.execute(SCHEMA)
        self._number = 0

    def session(self, *, parent: str | None = None) -> str:
        session_id = self._id("ses")
        self.connection.execute(
            "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version,"
            " time_created, time_updated) VALUES (?, 'global', ?, 's', '/work', 'Title', ?, ?, 0)",
            (session_id, parent, self.version, self._number),
        )
        return session_id

    def message(self, session_id: str, role: str, *parts: object) -> str:
        message_id = self._id("msg")
        self.connection.execute(
            "INSERT INTO message VALUES (?, ?, ?, 0, ?)",
            (message_id, session_id, self._number, json.dumps({"role": role})),
        )
        for part in parts:
            data = part if isinstance(part, str) else json.dumps(part)
            self.connection.execute(
                "INSERT INTO part VALUES (?, ?, ?, 0, 0, ?)",
                (self._id("prt"), message_id, session_id, data),
            )
        return message_id

    def close(self) -> None:
        self.connection.close()

    def _id(self, kind: str) -> str:
        self._number += 1
        return f"{kind}_{self._number:010}"


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def tool(name: str, call_id: str, status: str = "completed", **more: object) -> dict[str, object]:
    state = {"status": status, "input": {"path": "a.py"}, "time": {"start": 7}, **more}
    if status == "completed":
        state["output"] = more.get("output", "done")
    return {"type": "tool", "tool": name, "callID": call_id, "state": state}


STEP = {"type": "step-start"}
STEP_END = {"type": "step-finish", "reason": "tool-calls"}


def damaged_database(path: Path) -> OpenCodeDatabase:
    """The database of the incident: 311 calls without a result in 44 sessions, and 3 sound ones."""
    database = OpenCodeDatabase(path)
    database.connection.execute("BEGIN")
    names = [name for name, number in ORPHANS.items() for _ in range(number)]
    for index in range(SESSIONS + 3):
        session_id = database.session()
        database.message(session_id, "user", text("please"))
        orphans = names[index::SESSIONS] if index < SESSIONS else []
        parts: list[object] = [STEP, text("I begin."), tool("read", f"call_{index}_ok")]
        for number, name in enumerate(orphans):
            status = "pending" if number % 2 else "running"
            parts += [STEP_END, STEP, tool(name, f"call_{index}_{number}", status)]
        database.message(session_id, "assistant", *parts)
        database.message(session_id, "user", text("go on"))
        database.message(session_id, "assistant", STEP, text("done"))
    database.connection.execute("COMMIT")
    return database
