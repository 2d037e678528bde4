"""What version 2 of OpenCode stores, in the form of version 1, which is read from there on.

A message is one row of `session_message`, with its texts, thoughts and tools in it. In the form of
its public source; not tried on the real one, whose package could not be had. Entries of no known
kind, and those that tell the state of the session, are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from upthread.agent_stores.lines import LINE_BYTES_MAX, read_object
from upthread.agent_stores.text_search import texts_in
from upthread.agents.opencode.histories import Database
from upthread.core.history.rules import JsonObject, items_of, object_of, text_of

TABLE: Final = "session_message"
_ROWS: Final = """
    SELECT id, type, time_updated, data FROM session_message
    WHERE session_id = ?1 AND length(data) <= ?2 AND type IN ('user', 'assistant') ORDER BY seq"""
_STAMP: Final = "SELECT max(seq) || ' ' || max(id) FROM session_message WHERE session_id = ?1"


def messages_in(database: Database, session_id: str) -> tuple[tuple[Mapping[str, Any], ...], int]:
    """Return a session's messages as version 1 has them, and when the last one was written, in ms.

    Empty for a session that version 2 has said nothing in.
    """
    told: list[Mapping[str, Any]] = []
    written_at_ms = 0
    for message_id, kind, updated_at_ms, data in database.execute(
        _ROWS, (session_id, LINE_BYTES_MAX)
    ):
        message, _ = read_object(str(data).encode("utf-8", "surrogatepass"))
        place = {"messageID": str(message_id), "sessionID": session_id}
        parts = [
            {"id": f"{message_id}-{number}", **place, **part}
            for number, part in enumerate(_parts_of(str(kind), message))
        ]
        info = {**_info_of(str(kind), message), "id": str(message_id), "sessionID": session_id}
        told.append({"info": info, "parts": parts})
        written_at_ms = max(written_at_ms, updated_at_ms or 0)
    return tuple(told), written_at_ms


def stamp_in(database: Database, session_id: str) -> str:
    """Return what a session's messages are known by, empty without any."""
    ((stamp,),) = database.execute(_STAMP, (session_id,))
    return str(stamp or "")


def _info_of(kind: str, message: JsonObject) -> dict[str, Any]:
    info: dict[str, Any] = {"role": kind, "time": object_of(message.get("time"))}
    if kind == "assistant":
        told = ("finish", "error", "tokens")
        info |= {name: message[name] for name in told if message.get(name) is not None}
        info["modelID"] = text_of(object_of(message.get("model")).get("id"))
    return info


def _parts_of(kind: str, message: JsonObject) -> Iterator[dict[str, Any]]:
    if kind == "user":
        yield {"type": "text", "text": text_of(message.get("text"))}
        return
    for block in items_of(message.get("content")):
        said = text_of(block.get("type"))
        if said in {"text", "reasoning"}:
            yield {"type": said, "text": text_of(block.get("text"))}
        elif said == "tool":
            state = object_of(block.get("state"))
            output = "\n".join(texts_in(state.get("content") or state.get("output")))
            yield {
                "type": "tool",
                "callID": text_of(block.get("id")),
                "tool": text_of(block.get("name")),
                "state": {**state, "output": output},
            }
