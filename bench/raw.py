"""The raw limit: the same engine, doing the least that could be called the job.

What raw does: one table of messages with one index, one table of addresses; a message is one JSON
object in one row, encoded and decoded by msgspec, the fastest there is here. The same SQLite
through the same apsw, write-ahead log, page cache, busy time-out and durability as ours.

What it does not do, and ours does: digests and their chain, the life of the turn, leases and
fences, sameness of what is written twice, numbers without gaps, text that is not valid Unicode,
reading as typed parts, errors with a cure. The ratios are the price of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
from tests.support import default_turn

from upthread.store.sqlite.database import WriteQueue

SCHEMA = """
CREATE TABLE address (
    id INTEGER PRIMARY KEY, workstream TEXT NOT NULL, role TEXT NOT NULL, upstream TEXT,
    UNIQUE (workstream, role)
);
CREATE TABLE message (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX message_by_stream ON message (stream, id);
"""

_APPEND = "INSERT INTO message (stream, body) VALUES (?, ?)"
_NEWEST = "SELECT body FROM message WHERE stream = ? ORDER BY id DESC LIMIT ?"
_BACKWARDS = "SELECT body FROM message WHERE stream = ? ORDER BY id DESC"
_ALL = "SELECT body FROM message WHERE stream = ? ORDER BY id"
_RESOLVE = "SELECT upstream FROM address WHERE workstream = ? AND role = ?"


class ToolCall(msgspec.Struct):
    """A call as the providers have it."""

    id: str
    name: str
    args: dict[str, Any]


class Body(msgspec.Struct, omit_defaults=True):
    """A message as the providers have it."""

    id: str
    role: str
    content: str
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Body).decode


class RawStore:
    """The raw side."""

    def __init__(self, path: Path, *, vfs: str | None = None) -> None:
        self.connection: Any = apsw.Connection(str(path), vfs=vfs)
        self.connection.set_busy_timeout(30_000)
        self._execute(
            "PRAGMA journal_mode=WAL; PRAGMA journal_size_limit=16777216;"
            "PRAGMA cache_size=-8192; PRAGMA temp_store=MEMORY"
        )
        if not self._execute("SELECT 1 FROM sqlite_schema"):
            self._execute(SCHEMA)

    def append_turn(
        self, stream: int, messages: Sequence[Body], queue: WriteQueue | None = None
    ) -> None:
        """Stream a turn: each message in a commit of its own, the last of them synced."""
        execute = self.connection.execute
        if queue is not None:
            execute = _queued(execute, queue)
        execute("PRAGMA synchronous=NORMAL")
        for message in messages[:-1]:
            execute(_APPEND, (stream, encode(message)))
        execute("PRAGMA synchronous=FULL")
        execute(_APPEND, (stream, encode(messages[-1])))

    def append_turn_at_once(self, stream: int, messages: Sequence[Body]) -> None:
        """Write a turn in one synced commit; a crash before it loses the turn."""
        rows = [(stream, encode(message)) for message in messages]
        execute = self.connection.execute
        execute("PRAGMA synchronous=FULL")
        execute("BEGIN IMMEDIATE")
        self.connection.executemany(_APPEND, rows)
        execute("COMMIT")

    def append_history(self, stream: int, messages: Iterable[Body]) -> None:
        """Write many messages at once, not measured."""
        with self.connection:
            self.connection.executemany(_APPEND, ((stream, encode(each)) for each in messages))

    def resolve(self, workstream: str, role: str) -> str | None:
        """Return the upstream id behind an address."""
        row = self.connection.execute(_RESOLVE, (workstream, role)).fetchone()
        return None if row is None else row[0]

    def newest(self, stream: int, count: int) -> list[Body]:
        """Return the newest messages of one stream, oldest first: one range scan."""
        rows = self.connection.execute(_NEWEST, (stream, count)).fetchall()
        return [decode(body) for (body,) in reversed(rows)]

    def newest_over_chain(self, streams: Sequence[int], count: int) -> list[Body]:
        """Return the newest messages of a chain of streams, walked from its newest."""
        found: list[Body] = []
        for stream in reversed(streams):
            rows = self.connection.execute(_NEWEST, (stream, count - len(found))).fetchall()
            found += [decode(body) for (body,) in rows]
            if len(found) >= count:
                break
        found.reverse()
        return found

    def newest_said(self, streams: Sequence[int], count: int) -> list[Body]:
        """Return the newest messages of a chain of streams that no tool said."""
        found: list[Body] = []
        for stream in reversed(streams):
            rows = self.connection.execute(_BACKWARDS, (stream,))
            for (body,) in rows:
                message = decode(body)
                if message.role != "tool":
                    found.append(message)
                    if len(found) >= count:
                        rows.close()
                        return found[::-1]
        return found[::-1]

    def reload(self, stream: int) -> list[Body]:
        """Return all messages of one stream."""
        return [decode(body) for (body,) in self.connection.execute(_ALL, (stream,))]

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _execute(self, statements: str) -> list[Any]:
        rows: list[Any] = self.connection.execute(statements).fetchall()
        return rows


def _queued(execute: Callable[..., Any], queue: WriteQueue) -> Callable[..., Any]:
    def in_turn(*asked: Any) -> Any:
        queue.enter()
        try:
            return execute(*asked)
        finally:
            queue.leave()

    return in_turn


def bodies(number: int) -> list[Body]:
    """Return turn `number` as six messages with the same texts as ours."""
    prompt, first, first_result, second, second_result, answer = default_turn.texts(number)
    found = [Body(f"msg_{number:08}_0", "user", prompt)]
    for at, (said, result) in enumerate(((first, first_result), (second, second_result))):
        call = ToolCall(f"call_{number:08}_{at}", "bash", dict(default_turn.ARGUMENTS))
        found += [
            Body(f"msg_{number:08}_{2 * at + 1}", "assistant", said, [call]),
            Body(f"msg_{number:08}_{2 * at + 2}", "tool", result, [], call.id),
        ]
    return [*found, Body(f"msg_{number:08}_5", "assistant", answer)]


def history(messages: int) -> list[Body]:
    """Return whole turns of at most so many messages."""
    return [body for number in range(messages // 6) for body in bodies(number)]


def is_paired(messages: Iterable[Body]) -> bool:
    """Return whether each call is answered, by one result, before the next thing said."""
    awaited: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in awaited:
                return False
            awaited.discard(message.tool_call_id)
        elif awaited:
            return False
        else:
            awaited.update(call.id for call in message.tool_calls)
    return not awaited
