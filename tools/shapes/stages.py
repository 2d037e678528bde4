"""All shapes of all agents, and how a session of a shape is written below a HOME."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.agent_stores.opencode_database import SCHEMA
from tools.shapes import (
    DIRECTORY,
    SESSION,
    Shape,
    claude_code,
    claude_session,
    codex,
    opencode,
    write,
)
from tools.shapes import held as marks_held
from tools.shapes import opencode_rows as rows
from tools.shapes.measured import RECORDED

CASES: list[tuple[str, Shape | rows.Shape]] = [
    *(("claude-code", shape) for shape in claude_code.SHAPES),
    *(("codex", shape) for shape in codex.SHAPES),
    *(("opencode", shape) for shape in opencode.SHAPES),
]
HOMES = {"claude-code": ".claude", "codex": ".codex", "opencode": ".local/share"}
"""Where each agent keeps its sessions, below HOME."""

RESUME = {
    "claude-code": ("-p", "--resume"),
    "codex": ("exec", "--skip-git-repo-check", "resume"),
    "opencode": ("run", "--session"),
}
"""The words that resume a session, before the session and the prompt."""

_STORED = {"claude-code": claude_session.stored, "codex": codex.stored}


def name_of(case: tuple[str, Shape | rows.Shape]) -> str:
    """Return the name of a case, for example `codex-no_header`."""
    agent, shape = case
    return f"{agent}-{shape.name}"


def write_session(
    agent: str, shape: Shape | rows.Shape, home: Path, directory: str = DIRECTORY
) -> tuple[str, list[str]]:
    """Write a session of a shape; returns its id and the marks that are stored."""
    top = home / HOMES[agent]
    raw = (RECORDED / f"{agent}.json").read_text()
    if isinstance(shape, Shape):
        files = shape.files(_STORED[agent](raw, directory))
        write(files, top)
        return SESSION, marks_held(files)
    database = top / "opencode" / "opencode.db"
    if not database.exists():
        database.parent.mkdir(parents=True)
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript(SCHEMA)
    session = rows.recorded(raw, directory, rows.project_in(database))
    assert session.session is not None
    return session.session["id"], shape.write(session, database)
