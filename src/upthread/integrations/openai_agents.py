"""A session of the OpenAI Agents SDK on upthread's record.

`Runner.run(agent, "…", session=UpthreadSession("chat-7"))`.

Items come back as they were added, ids and all, which is what the runner compares when it takes
back what a failed call had added. Only a result without its call comes back as a line of text,
because a model would refuse it. Under an `address` it is one conversation with `upthread tell`:
what was told there is in the history here, and what is said here is in its briefings.
Written for openai-agents 0.24.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from agents.items import TResponseInputItem
from agents.memory.session_settings import (
    SessionSettings,
    coerce_session_settings,
    resolve_session_limit,
)

from upthread.client.framework_record import FrameworkRecord
from upthread.core.history.model import OPENAI_AGENTS, ItemCalls
from upthread.core.types import Speaker
from upthread.errors import UsageError
from upthread.integrations.json_delta import copied
from upthread.integrations.on_record import SPEAKERS, Folds, Followed, OnRecord, settled
from upthread.runtime.record.entry_log import Entry, NewEntry


class ItemLog:
    """A session's items: those that were added and not taken back, oldest first.

    `own` has the number of each that this framework added, None for what was told by others.
    """

    def __init__(self) -> None:
        self.items: list[TResponseInputItem] = []
        self.own: list[int | None] = []
        self.calls = ItemCalls()

    def apply(self, entry: Entry) -> None:
        """Take in an item, or that the newest one was taken back."""
        if entry.told:
            role = "user" if entry.speaker is Speaker.USER else "assistant"
            self._add(cast("TResponseInputItem", {"role": role, "content": entry.told}), None)
            return
        value = entry.value
        self.calls.take(entry.seq, value)
        if "popped" in value:
            at = self.own.index(value["popped"])
            del self.items[at], self.own[at]
        else:
            self._add(value["item"], entry.seq)

    def _add(self, item: TResponseInputItem, seq: int | None) -> None:
        self.items.append(item)
        self.own.append(seq)

    def newest(self) -> tuple[int, TResponseInputItem] | None:
        """Return the newest item that this framework added with its number, None without one."""
        newest_first = zip(reversed(self.own), reversed(self.items), strict=True)
        return next(((seq, item) for seq, item in newest_first if seq is not None), None)


class UpthreadSession(OnRecord):
    """The history of one session, in the record of the project that `directory` belongs to.

    `record` is one that is open already, and stays open. Any number of processes may use a session
    at the same time: `add_items` is atomic, and `pop_item` never gives one item to two callers.
    """

    def __init__(
        self,
        session_id: str,
        directory: str | Path = ".",
        *,
        database: str | None = None,
        record: FrameworkRecord | None = None,
        address: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})
        self._open(directory, database, record)
        self._log = self._record.log(OPENAI_AGENTS, session_id, address=address)
        self._folds = Folds(self._record, ItemLog)

    async def get_items(
        self,
        limit: int | None = None,
        *,
        wrapper: object = None,  # the runner gives it to those that take it
    ) -> list[TResponseInputItem]:
        """Return the history, oldest first; with `limit` the newest so many, all below 0."""
        wanted = resolve_session_limit(limit, self.session_settings)
        return await self._look(lambda: self._items(wanted))

    def _items(self, limit: int | None) -> list[TResponseInputItem]:
        log = self._folds.of(self._log).fold
        items, orphans = log.items, log.calls.orphans
        if orphans:
            owned = zip(log.own, items, strict=True)
            items = [_as_text(item) if seq in orphans else item for seq, item in owned]
        first = 0 if limit is None or limit < 0 else max(0, len(items) - limit)
        # Of the caller's own, as after a read: what it changes in them changes no history.
        own: list[TResponseInputItem] = copied(items[first:])
        return own

    async def add_items(
        self,
        items: Sequence[TResponseInputItem],
        *,
        wrapper: object = None,
    ) -> None:
        """Append items: all of them are there afterwards, or none. Synced."""
        new = [_entry(each) for each in items]
        await settled(self._folds.add, self._log, new)

    async def pop_item(
        self,
        *,
        wrapper: object = None,
    ) -> TResponseInputItem | None:
        """Take the newest item back and return it, None where there is none."""
        return await settled(self._pop)

    def _pop(self) -> TResponseInputItem | None:
        newest: tuple[int, TResponseInputItem] | None = None

        def popped(followed: Followed[ItemLog]) -> NewEntry | None:
            nonlocal newest
            newest = followed.fold.newest()
            return NewEntry(value={"popped": newest[0]}) if newest else None

        self._folds.append(self._log, popped)
        return copied(newest[1]) if newest else None

    async def clear_session(
        self,
        *,
        wrapper: object = None,
    ) -> None:
        """Erase the history: it is gone from the record, not only out of sight."""
        await settled(self._log.rewrite, lambda _: ())


def _entry(item: TResponseInputItem) -> NewEntry:
    value = cast("dict[str, Any]", item)
    if not isinstance(value, dict):
        raise UsageError(
            f"an item is an object, and {item!r:.80} is none",
            hint='for example {"role": "user", "content": "…"}; nothing was added',
        )
    speaker = SPEAKERS.get(value.get("role", ""), Speaker.TOOL)
    return NewEntry(value={"item": item}, text=_said(value.get("content")), speaker=speaker)


def _as_text(result: TResponseInputItem) -> TResponseInputItem:
    """Return a result without its call as a message that the model can read."""
    output = cast("dict[str, Any]", result).get("output")
    text = f"[The result of a tool call that is not on record: {_said(output) or output}]"
    return {"role": "assistant", "content": text}


def _said(content: object) -> str:
    """Return what a person reads of an item's content: its text, or that of its parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = cast("list[object]", content)
    texts = [cast("dict[str, Any]", each).get("text") for each in parts if isinstance(each, dict)]
    return "\n\n".join(each for each in texts if isinstance(each, str) and each)
