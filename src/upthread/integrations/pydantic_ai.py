"""A conversation store of Pydantic AI on upthread's record: `UpthreadConversationStore()`.

Each conversation is a log: a save appends its record and the messages that are new, in one commit,
where nobody saved meanwhile. Written for pydantic-ai-slim 2.68.
"""

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from upthread.core.types import Speaker
from upthread.errors import StoreError
from upthread.integrations.json_delta import copied
from upthread.integrations.on_record import NEVER, Folding, Followed, dumped, settled
from upthread.runtime.record.entry_log import Entry, EntryLog, NewEntry

FRAMEWORK = "pydantic-ai"
FORMAT_VERSION = 1
RETRIES = {"retry-prompt", "retry-feedback"}

RECORD = TypeAdapter(ConversationRecord)


class SavedConversation:
    """A conversation: its newest record, None once it was deleted, and all its entries by id."""

    def __init__(self) -> None:
        self.record: dict[str, Any] | None = None
        self.entries: dict[str, dict[str, Any]] = {}
        self.moved = NEVER

    def apply(self, entry: Entry) -> None:
        """Take in a save. What others said in the conversation is none of it."""
        if entry.told:
            return
        value = entry.value
        self.record, self.moved = value["record"], value.get("moved", NEVER)
        self.entries.update((each["id"], each) for each in value["entries"])

    @property
    def revision(self) -> str | None:
        """The revision that is stored, None where no record is."""
        return self.record["revision"] if self.record else None

    def history(self, head_id: str | None, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the entries up to one, oldest first; KeyError where one of them is not here."""
        found: list[dict[str, Any]] = []
        while head_id is not None and (limit is None or len(found) < limit):
            found.append(self.entries[head_id])
            head_id = found[-1]["parent_id"]
        return found[::-1]


class UpthreadConversationStore(Folding[SavedConversation], ConversationStore):
    """Conversations in the record of the project that `directory` belongs to.

    A fork takes the history it shares with it, so deleting the conversation it came from leaves it
    whole; and a deleted conversation's entries are erased with it. `record` is one that is open
    already, and stays open.
    """

    _kind = SavedConversation
    _ordered = FRAMEWORK

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return a conversation's record, None where the store does not have it."""
        log = self._log(conversation_id)
        return await self._look(lambda: _record(self._folds.of(log).fold.record))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, the one saved last first; with `scope` those of it alone."""

        def look() -> list[ConversationRecord]:
            found = [(it.moved, it.record) for it in self._folds.of_newest(FRAMEWORK) if it.record]
            # Times are compared only of what an earlier version saved.
            found.sort(key=lambda it: (it[0], it[1]["updated_at"]), reverse=True)
            saved = (_record(record) for _, record in found)
            return [each for each in saved if each and scope in {None, each.scope}]

        return (await asyncio.to_thread(look))[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Save a record with the entries that are new in it, where nobody has saved meanwhile."""
        await settled(self._write, record, new_entries, expected_revision)

    def _write(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        log = self._log(record.conversation_id)
        new = [_told(each) for each in new_entries]
        text = "\n\n".join(filter(None, (_said(each.message) for each in new_entries)))

        def save(followed: Followed[SavedConversation]) -> NewEntry:
            saved = followed.fold
            if saved.revision != expected_revision:
                raise ConversationConflict(record.conversation_id)
            entries = self._with_shared(record, saved, new)
            value = {"record": RECORD.dump_python(record, mode="json"), "entries": entries}
            speaker = _speaker(new_entries)
            return NewEntry(value=value, text=text, speaker=speaker)

        self._folds.append(log, save)

    def _with_shared(
        self, record: ConversationRecord, saved: SavedConversation, new: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the entries to append: of a fork also those of its source that it goes on from."""
        own = saved.entries.keys() | {each["id"] for each in new}
        wanted = {new[0]["parent_id"] if new else None, record.head_id, *record.branches}
        missing = {each for each in wanted if each is not None} - own
        if not missing:
            return new
        source = self._folds.of(self._log(record.forked_from or record.conversation_id)).fold
        shared: dict[str, dict[str, Any]] = {}
        for head_id in missing:
            try:
                shared.update((each["id"], each) for each in source.history(head_id))
            except KeyError:
                raise ConversationConflict(record.conversation_id) from None
        return [*shared.values(), *new]

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation, its entries with it."""

        def erased(entries: Sequence[Entry]) -> Sequence[NewEntry]:
            if self._folds.folded(entries).revision != expected_revision:
                raise ConversationConflict(conversation_id)
            return ()

        def erase() -> None:
            log = self._log(conversation_id)
            if self._folds.of(log).fold.record is None:
                raise ConversationConflict(conversation_id)
            log.rewrite(erased)

        await settled(erase)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return one entry. LookupError where no conversation has it."""
        return (await asyncio.to_thread(self._history, entry_id, 1))[-1]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to one, oldest first, or the last `limit` of them; LookupError."""
        return await asyncio.to_thread(self._history, head_id, limit)

    def _history(self, head_id: str | None, limit: int | None) -> list[ConversationEntry]:
        if head_id is None:
            return []
        with self._record.lock:
            # Nearly always the one whose record was read just before.
            read = (followed for _, followed in self._folds.all(FRAMEWORK))
            for saved in (each.fold for each in chain(self._folds.known(), read)):
                if head_id in saved.entries:
                    return [_entry(each) for each in saved.history(head_id, limit)]
        raise LookupError(head_id)

    def _log(self, conversation_id: str) -> EntryLog:
        return self._record.log(FRAMEWORK, conversation_id)


def _told(entry: ConversationEntry) -> dict[str, Any]:
    dump = ModelMessagesTypeAdapter.dump_python
    message = dumped(
        f"the message {entry.id}",
        lambda: dump([entry.message], mode="json")[0],
        # Loaded both times, because loading replaces parts of deprecated kinds.
        lambda told: dump(list(map(_message, (dump([entry.message])[0], told)))),
    )
    return {"id": entry.id, "parent_id": entry.parent_id, "kind": entry.kind, "message": message}


def _entry(told: dict[str, Any]) -> ConversationEntry:
    message = _message(told["message"])
    return ConversationEntry(id=told["id"], parent_id=told["parent_id"], message=message)


def _message(dumped: dict[str, Any]) -> ModelMessage:
    """Return a message as it was. ValueError for one that its library cannot load.

    A retry's errors may leave out their input: the library dumps such, and refuses to load them.
    """
    gone = [
        (at, number)
        for at, part in enumerate(dumped["parts"])
        if part["part_kind"] in RETRIES and isinstance(part["content"], list)
        for number, error in enumerate(part["content"])
        if "input" not in error
    ]
    whole = copied(dumped) if gone else dumped
    for at, number in gone:
        whole["parts"][at]["content"][number]["input"] = None
    (message,) = ModelMessagesTypeAdapter.validate_python([whole])
    for at, number in gone:
        cast("Any", message.parts[at]).content[number].pop("input", None)
    return message


def _record(told: dict[str, Any] | None) -> ConversationRecord | None:
    if told is None:
        return None
    if told["format_version"] != FORMAT_VERSION:
        raise StoreError(
            f"the conversation {told['conversation_id']!r} has the format "
            f"{told['format_version']}, and {FORMAT_VERSION} is what this knows",
            hint="a newer Pydantic AI wrote it: bring upthread up to date as well",
        )
    return RECORD.validate_python(told)


def _said(message: ModelMessage) -> str:
    """Return what a person reads of a message: what the user and the model said."""
    kinds = {"user-prompt", "text"}
    texts = [getattr(each, "content", "") for each in message.parts if each.part_kind in kinds]
    return "\n\n".join(each for each in texts if isinstance(each, str) and each)


def _speaker(entries: Sequence[ConversationEntry]) -> Speaker:
    last = entries[-1].message if entries else None
    if last is None:
        return Speaker.TOOL
    return Speaker.ASSISTANT if last.kind == "response" else Speaker.USER
