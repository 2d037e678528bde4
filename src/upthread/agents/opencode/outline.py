"""Outlines of OpenCode's sessions: rows of `session`, and of the newest message of each.

OpenCode 2 keeps its own rows beside them in the same file, `session_v2`; where a session is in
both, those of 2 are the newer ones. They are read as its public source has them in November 2026;
not tried on the real OpenCode 2. Seen in 1.18.33.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast

from upthread.agent_stores.lines import read_object
from upthread.agent_stores.outline import Ending, Look, SessionOutline, title_of
from upthread.agents.opencode.histories import AGENT, Database, find_histories, opened, tables_of
from upthread.core.history.rules import object_of, text_of
from upthread.errors import StoreError

COPIED_BYTES_MAX: Final = 512 * 1024 * 1024
"""A database with a log and no index of it is read from a copy, which takes time and room."""

Row: TypeAlias = Mapping[str, object]
"""A session's columns, as many as its table has."""

_STEPS: Final = 20_000
"""Of SQLite's machine, between two looks at the clock: a list is cut short rather than late."""
_TABLES: Final = ("session_v2", "session")
_COLUMNS: Final = (
    *("id", "parent_id", "directory", "title", "version", "agent", "model"),
    *("time_created", "time_updated", "time_archived"),
)
_NEWEST: Final = """
    SELECT CASE WHEN json_valid(data) THEN json_object(
               'role', json_extract(data, '$.role'),
               'finish', json_extract(data, '$.finish'),
               'error', json_type(data, '$.error'),
               'completed', json_extract(data, '$.time.completed'),
               'tokens', json_extract(data, '$.tokens'),
               'model', json_extract(data, '$.modelID')) END
    FROM message WHERE session_id = ?1 ORDER BY time_created DESC, id DESC LIMIT 2"""
_NEWEST_OF_2: Final = """
    SELECT CASE WHEN json_valid(data) THEN json_object(
               'role', type,
               'finish', json_extract(data, '$.finish'),
               'error', json_type(data, '$.error'),
               'completed', json_extract(data, '$.time.completed'),
               'tokens', json_extract(data, '$.tokens'),
               'model', json_extract(data, '$.model.id')) END
    FROM session_message WHERE session_id = ?1 AND type IN ('user', 'assistant')
    ORDER BY seq DESC LIMIT 2"""


class _Interruptible(Protocol):
    """What of an apsw.Connection ends a query that takes too long."""

    def set_progress_handler(self, callable: Callable[[], bool] | None, nsteps: int) -> None: ...  # noqa: A002  # apsw's own name


def outlines(data_home: Path, look: Look) -> Iterator[SessionOutline]:
    """Yield each session of OpenCode's databases under a data home, the newest first."""
    for path in find_histories(data_home):
        if not is_read(path, look):
            continue
        try:
            with opened(path, has_messages=False) as database:
                _end_in_time(database, look)
                yield from outlines_in(database, path, look)
        except StoreError:
            # Told by its reason alone: `doctor` says of each what is wrong with it.
            look.is_cut_short |= time.monotonic() > look.until_s
            if not look.is_cut_short:
                look.pass_over(AGENT, "not a database of a known form")


def is_read(path: Path, look: Look) -> bool:
    """Return whether a database is opened at a glance; what is not, is counted."""
    why = "no ordinary file" if path.is_symlink() else ""
    if not why and _would_be_copied(path):
        why = "too large to copy"
    look.pass_over(AGENT, why, bool(why))
    return not why


def _would_be_copied(path: Path) -> bool:
    log, shared = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    try:
        is_copied = log.stat().st_size > 0 and not shared.exists()
    except OSError:
        return False
    return is_copied and path.stat().st_size > COPIED_BYTES_MAX


def _end_in_time(database: Database, look: Look) -> None:
    interruptible = cast("_Interruptible", database)
    interruptible.set_progress_handler(lambda: time.monotonic() > look.until_s, _STEPS)


def outlines_in(database: Database, path: Path, look: Look) -> Iterator[SessionOutline]:
    """Yield the sessions of a database that is open, the newest first."""
    for row in rows_in(database, look):
        if not look.goes_on():
            return
        yield outline_of(database, path, row)


def rows_in(database: Database, look: Look) -> Iterator[Row]:
    """Yield the rows of its sessions, the newest first, each session once."""
    told: set[str] = set()
    for table in _TABLES:
        names = database.execute("SELECT name FROM pragma_table_info(?)", (table,))
        present = {str(name) for (name,) in names}
        if "id" not in present:
            continue
        columns = [each for each in _COLUMNS if each in present]
        order = "time_updated" if "time_updated" in present else "id"
        # Names of columns are ours, from the list above.
        query = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order} DESC LIMIT ?"  # noqa: S608
        for values in list(database.execute(query, (look.sessions_max + 1,))):
            row = dict(zip(columns, values, strict=True))
            session_id = _text(row.get("id"))
            if session_id not in told:
                told.add(session_id)
                yield row


def outline_of(database: Database, path: Path, row: Row) -> SessionOutline:
    """Return the outline of a row, with what its newest messages tell."""
    return _outline(row, list(_newest(database, _text(row.get("id")))), path)


def _newest(database: Database, session_id: str) -> Iterator[Mapping[str, Any]]:
    tables, found = tables_of(database), list[Sequence[Any]]()
    if "session_message" in tables:
        found = list(database.execute(_NEWEST_OF_2, (session_id,)))
    # What version 1 said of a session that version 2 has gone on with is older.
    if not found and "message" in tables:
        found = list(database.execute(_NEWEST, (session_id,)))
    for (data,) in found:
        yield read_object(str(data or "{}").encode("utf-8", "surrogatepass"))[0]


def _outline(
    values: Mapping[str, object], newest: list[Mapping[str, Any]], path: Path
) -> SessionOutline:
    parent = _text(values.get("parent_id"))
    nothing: Mapping[str, Any] = {}
    weighed = next((each for each in newest if _tokens(each)), nothing)
    return SessionOutline(
        agent=AGENT,
        session_id=_text(values.get("id")),
        path=str(path),
        parent_session_id=parent,
        # Of a main session it is the mode it is in, which is no role.
        role=_text(values.get("agent")) if parent else "",
        unredacted_title=title_of(_text(values.get("title"))),
        directory=_text(values.get("directory")),
        begun_at_ms=_number(values.get("time_created")),
        used_at_ms=_number(values.get("time_updated")) or 0,
        model=text_of(weighed.get("model")) or _model(values.get("model")),
        tokens=_tokens(weighed) or None,
        version=_text(values.get("version")),
        ending=_ending(newest[0]) if newest else "unknown",
        is_archived=bool(values.get("time_archived")),
    )


def _ending(message: Mapping[str, Any]) -> Ending:
    if not message:
        return "unknown"
    is_over = message.get("role") == "assistant" and message.get("completed")
    is_at_rest = is_over and message.get("error") is None and message.get("finish") != "tool-calls"
    return "ended" if is_at_rest else "interrupted"


def _tokens(message: Mapping[str, Any]) -> int:
    """Return what a session held at an answer: all that was read, and what was said."""
    tokens = object_of(message.get("tokens"))
    cache = object_of(tokens.get("cache"))
    counts = (
        *(tokens.get(name) for name in ("input", "output", "reasoning")),
        *(cache.get(name) for name in ("read", "write")),
    )
    return sum(each for each in counts if isinstance(each, int))


def _model(value: object) -> str:
    text = _text(value)
    if not text.startswith("{"):
        return text
    return text_of(read_object(text.encode("utf-8", "surrogatepass"))[0].get("id"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
