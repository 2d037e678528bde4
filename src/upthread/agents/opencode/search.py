"""What OpenCode's database says, for a search: the parts of a session's messages, in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from upthread.agent_stores.lines import LINE_BYTES_MAX, read_object
from upthread.agent_stores.outline import Look
from upthread.agent_stores.text_search import Said, Searched, Words, texts_in
from upthread.agents.opencode.histories import AGENT, Database, find_histories, opened
from upthread.agents.opencode.outline import is_read, outline_of, rows_in
from upthread.core.history.rules import JsonObject, object_of, text_of
from upthread.errors import StoreError

_PARTS: Final = """
    SELECT part.data, part.time_created, message.data
    FROM part JOIN message ON message.id = part.message_id
    WHERE part.session_id = ?1 AND length(part.data) <= ?2 ORDER BY part.id"""


def sessions(data_home: Path, look: Look, held: ExitStack) -> Iterator[Searched]:
    """Yield each session of OpenCode's databases, which stay open as long as `held` is."""
    for path in find_histories(data_home):
        if not is_read(path, look):
            continue
        try:
            database = held.enter_context(opened(path))
            for row in rows_in(database, look):
                used_at_ms = row.get("time_updated")
                yield Searched(
                    agent=AGENT,
                    used_at_ms=used_at_ms if isinstance(used_at_ms, int) else 0,
                    outline=partial(outline_of, database, path, row),
                    said=partial(_said, database, str(row["id"]), look),
                )
        except (StoreError, apsw.Error):
            look.pass_over(AGENT, "not a database of a known form")


def _said(database: Database, session_id: str, look: Look, words: Words) -> Iterator[Said]:
    try:
        yield from _said_in_parts(database, session_id, words)
    except apsw.Error:
        look.pass_over(AGENT, "sessions with damaged pages")


def _said_in_parts(database: Database, session_id: str, words: Words) -> Iterator[Said]:
    for data, created_at_ms, message in database.execute(_PARTS, (session_id, LINE_BYTES_MAX)):
        raw = str(data).encode("utf-8", "surrogatepass")
        if words.may_be_in(raw):
            role = text_of(_object(message).get("role"))
            at_ms = created_at_ms if isinstance(created_at_ms, int) else None
            yield from said_in(_object(data), role, at_ms)


def said_in(part: JsonObject, role: str, at_ms: int | None) -> Iterator[Said]:
    """Yield what a part says."""
    kind = text_of(part.get("type"))
    state = object_of(part.get("state"))
    said = {
        "text": part.get("text"),
        "reasoning": part.get("text"),
        "tool": [state.get("input"), state.get("output"), state.get("error")],
    }
    text = "\n".join(texts_in(said.get(kind)))
    if text:
        yield Said(speaker="tool" if kind == "tool" else role, text=text, at_ms=at_ms)


def _object(data: object) -> JsonObject:
    return read_object(str(data).encode("utf-8", "surrogatepass"))[0]
