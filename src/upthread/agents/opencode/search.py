"""What OpenCode's database says, for a search: the parts of a session's messages, in order.

Version 2 has a message whole in one row, as its public source has it (not tried on the real one).
What both versions say of a session is that of version 2, which has gone on in it.
"""

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
from upthread.agents.opencode.histories import (
    AGENT,
    Database,
    find_histories,
    opened,
    tables_of,
)
from upthread.agents.opencode.outline import is_read, outline_of, rows_in
from upthread.core.history.rules import JsonObject, items_of, object_of, text_of
from upthread.errors import StoreError

_PARTS: Final = """
    SELECT part.data, part.time_created, message.data
    FROM part JOIN message ON message.id = part.message_id
    WHERE part.session_id = ?1 AND length(part.data) <= ?2 ORDER BY part.id"""

_MESSAGES_OF_2: Final = """
    SELECT type, time_created, data FROM session_message
    WHERE session_id = ?1 AND length(data) <= ?2 ORDER BY seq"""


def sessions(data_home: Path, look: Look, held: ExitStack) -> Iterator[Searched]:
    """Yield each session of OpenCode's databases, which stay open as long as `held` is."""
    for path in find_histories(data_home):
        if not is_read(path, look):
            continue
        try:
            database = held.enter_context(opened(path, has_messages=False))
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
        tables = tables_of(database)
        has_any = False
        if "session_message" in tables:
            for said in _said_in_messages(database, session_id, words):
                has_any = True
                yield from said
        if not has_any and "part" in tables:
            yield from _said_in_parts(database, session_id, words)
    except apsw.Error:
        look.pass_over(AGENT, "sessions with damaged pages")


def _said_in_messages(
    database: Database, session_id: str, words: Words
) -> Iterator[Iterator[Said]]:
    rows = database.execute(_MESSAGES_OF_2, (session_id, LINE_BYTES_MAX))
    for kind, created_at_ms, data in rows:
        raw = str(data).encode("utf-8", "surrogatepass")
        at_ms = created_at_ms if isinstance(created_at_ms, int) else None
        may_say = words.may_be_in(raw)
        yield said_by_version_2(str(kind), _object(data), at_ms) if may_say else iter(())


def said_by_version_2(kind: str, message: JsonObject, at_ms: int | None) -> Iterator[Said]:
    """Yield what a message says: of a person, the agent, a command of a person's, a compaction."""
    if kind == "assistant":
        for block in items_of(message.get("content")):
            is_tool = block.get("type") == "tool"
            state = object_of(block.get("state"))
            said = [state.get(name) for name in ("input", "content", "output", "error")]
            text = "\n".join(texts_in(said if is_tool else block.get("text")))
            if text:
                yield Said(speaker="tool" if is_tool else "assistant", text=text, at_ms=at_ms)
        return
    names, speaker = {
        "user": (("text",), "user"),
        "shell": (("command", "output"), "tool"),
        "compaction": (("summary",), "assistant"),
    }.get(kind, ((), ""))
    text = "\n".join(each for name in names for each in texts_in(message.get(name)))
    if text:
        yield Said(speaker=speaker, text=text, at_ms=at_ms)


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
