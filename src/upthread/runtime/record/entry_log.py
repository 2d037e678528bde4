"""A log of opaque values in a conversation: what the stores of agent frameworks are made of.

A framework gives values that it must get back equal, to the last character. Each is a message of
our own record, whole, beside a text of it with its secrets redacted, for search, briefing and
audit. So a framework's history has what every conversation has: an address, a hash chain,
encryption, `forget`, backup, and its place in `ls` and `audit`. Appending costs the same after ten
entries and after a million; the number of an entry is what compare-and-set compares.

L1  Values come back equal and in the order of their numbers, whichever process appended them.
L2  `append` is all or nothing. It survives the loss of power once it has returned.
L3  With `after`, exactly one of many that append after the same entry gets in; ConflictError for
    the others, and nothing of theirs is there. Without, all of them get in.
L4  `rewrite` leaves what it returns and erases the rest, or changes nothing. An entry that another
    process appends meanwhile is neither lost nor put into what was erased: it is seen by `rewrite`,
    or comes after it.
L5  Another framework's conversation is refused before anything is written.
L6  Before a process reads a log for the first time all of it is proved against its chain:
    StoreError for a value that is not what was recorded, never that value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import RLock
from typing import Final

from msgspec import Struct

from upthread.core.commands import (
    EraseConversation,
    OpenConversation,
    OpenTurn,
    RecordParts,
    RecordTurnEvent,
    Write,
)
from upthread.core.decision.words import FRAMEWORK
from upthread.core.events import TurnEnded, TurnEvent, TurnIntended
from upthread.core.names import shown
from upthread.core.types import (
    FRAMEWORK_PREFIX,
    Conversation,
    ConversationId,
    ConversationKey,
    Durability,
    JsonValue,
    Message,
    Outcome,
    Part,
    Speaker,
    TextPart,
    TurnId,
    UnknownPart,
)
from upthread.errors import ConflictError, StoreError, UsageError
from upthread.runtime.system import System
from upthread.runtime.turns.conversation import name_workstream
from upthread.store.base import Store

TEXT_CHARACTERS_MAX: Final = 20_000
"""Of a value's text so much is kept beside it: search and briefings read it, nobody resumes it."""

ENTRIES_AT_ONCE: Final = 500

_REPLACED: Final[JsonValue] = {"replaced": True}
"""Ends a generation. Whoever appends to it in this moment conflicts with it, and looks again."""


class NewEntry(Struct, frozen=True, kw_only=True):
    """A value to append. `text` is what was said in it, empty where it says nothing to a person."""

    value: JsonValue
    text: str = ""
    speaker: Speaker = Speaker.TOOL


class Entry(Struct, frozen=True, kw_only=True):
    """A value as it was appended. Numbers count up from 1 and may leave some out.

    `told` is what somebody else said in the conversation, `upthread tell` for one: then there is
    no value. `speaker` is who said it.
    """

    seq: int
    value: JsonValue
    recorded_at_ms: int
    speaker: Speaker = Speaker.TOOL
    told: str = ""


class EntryLog:
    """One conversation as one framework's log. Blocking; any thread may call.

    `lock` guards the store, which takes one call at a time. `redacted` is what becomes of texts.
    """

    def __init__(
        self,
        store: Store,
        system: System,
        key: ConversationKey,
        framework: str,
        *,
        redacted: Callable[[str], str],
        lock: RLock,
    ) -> None:
        self.key = key
        self._store, self._system, self.lock = store, system, lock
        self.commit = store.commit
        self._kind = FRAMEWORK_PREFIX + framework
        self._redacted = redacted
        self._turn: tuple[ConversationId, TurnId] | None = None
        self._own: ConversationId | None = None
        self._proved: ConversationId | None = None

    def last(self) -> int:
        """Return the number that the next entry comes after, 0 before the first."""
        with self.lock:
            conversation = self._conversation()
            return self._store.message_count(conversation.conversation_id) if conversation else 0

    def generation(self) -> int:
        """Return how often it was begun anew, 0 where nothing was ever appended.

        Numbers begin anew with it, and nothing that was read before holds any more.
        """
        with self.lock:
            conversation = self._conversation()
            return conversation.generation if conversation else 0

    def entries(self, *, after: int = 0, newest: int | None = None) -> Iterator[Entry]:
        """Yield the entries after a number, oldest first; with `newest` of the last so many.

        What others said in the conversation is among them; what was forgotten is left out.
        """
        for message in self._messages(after, newest):
            yield from self._in(message)

    def _messages(self, after: int, newest: int | None) -> Iterator[Message]:
        with self.lock:
            conversation = self._conversation()
            if conversation is not None:
                self._prove(conversation.conversation_id)
        while conversation is not None:
            with self.lock:
                page = self._store.messages(
                    conversation.conversation_id,
                    after_seq=after,
                    first=ENTRIES_AT_ONCE if newest is None else None,
                    newest=newest,
                )
            yield from page
            if newest is not None or len(page) < ENTRIES_AT_ONCE:
                return
            after = page[-1].seq

    def entry(self, seq: int) -> Entry | None:
        """Return one entry, None where none has this number, or it was forgotten."""
        with self.lock:
            conversation = self._conversation()
            if conversation is None:
                return None
            self._prove(conversation.conversation_id)
            owner = conversation.conversation_id
            found = self._store.messages(owner, after_seq=seq - 1, first=1) if seq > 0 else ()
        return next(self._in(found[0]), None) if found else None

    def texts(self) -> Iterator[str]:
        """Yield what search, briefings and audit read of the conversation, oldest first."""
        for message in self._messages(0, None):
            if message.text:
                yield message.text

    def append(self, entries: Sequence[NewEntry], *, after: int | None = None) -> tuple[int, ...]:
        """Append values and return their numbers. With `after` only where that is the last one.

        Raises ConflictError where it is not; UsageError for another framework's conversation.
        """
        return append_together((Append(log=self, entries=entries, after=after),))[0]

    def rewrite(self, kept: Callable[[Sequence[Entry]], Sequence[NewEntry]]) -> None:
        """Begin anew with what `kept` makes of all entries; what was there before is erased.

        `kept` may be called again: another process's entry that came meanwhile is among them then.
        What others said in the same conversation would be erased with it: UsageError.
        """
        while True:
            with self.lock:
                stands = self._stands()
                if stands.last == 0:
                    return
                entries = [each for each in self.entries() if each.seq <= stands.last]
                self._require_nobody_else(entries)
                left = kept(entries)
                try:
                    self._replace(stands, left)
                except ConflictError:
                    continue
                return

    def prepared(self, append: Append) -> Prepared:
        """Return what appending is written as, as the conversation stands now.

        For `append_together`, which writes it, and then has the turn remembered by `follow`.
        """
        stands = self._stands()
        if append.after is not None and stands.last != append.after:
            raise self._moved(append.after, stands.last)
        conversation_id = stands.conversation.conversation_id
        opening = [OpenConversation(conversation=stands.conversation)] if stands.is_new else []
        turn_id, turn = self._turn_in(conversation_id, stands.last)
        said = self._said(conversation_id, turn_id, stands.last, append.entries)
        return Prepared(
            writes=(*opening, *turn, *said),
            turn=(conversation_id, turn_id),
            seqs=tuple(range(stands.last + 1, stands.last + 1 + len(append.entries))),
        )

    def follow(self, written: Prepared) -> None:
        """Go on in the turn that an append was written under."""
        self._turn = written.turn

    # --- below: one conversation, as the port has it ---------------------------------------------

    def _conversation(self) -> Conversation | None:
        found = self._store.resolve(self.key)
        return found.conversation if found else None

    def _stands(self) -> _Stands:
        """Return where the next entry goes; what opens the conversation where it never was."""
        while True:
            found = self._conversation()
            if found is None:
                return _Stands(conversation=self._minted(1, ""), last=0, is_new=True)
            last = self._store.message_count(found.conversation_id)
            # Asked again, in this order: if it is the newest generation still, no mark that
            # replaces it was counted, and one that is set from now on takes the number we take.
            if found == self._conversation():
                self._require_own(found, last)
                return _Stands(conversation=found, last=last, is_new=False)

    def _minted(self, generation: int, base_name: str) -> Conversation:
        project_id, workstream = self.key.project_id, self.key.workstream
        now_ms = self._system.now_ms
        return Conversation(
            conversation_id=ConversationId(self._system.new_id("con")),
            key=self.key,
            generation=generation,
            base_name=base_name
            or name_workstream(self._store, project_id, workstream, now_ms=now_ms),
            opened_at_ms=now_ms(),
        )

    def _replace(self, stands: _Stands, left: Sequence[NewEntry]) -> None:
        old, base_name = stands.conversation, stands.conversation.base_name
        new = _Stands(conversation=self._minted(old.generation + 1, base_name), last=0, is_new=True)
        mark_turn, mark_opening = self._turn_in(old.conversation_id, stands.last)
        mark = (NewEntry(value=_REPLACED),)
        turn_id, turn = _turn(self._system, new.conversation.conversation_id, 0)
        writes: tuple[Write, ...] = (
            *mark_opening,
            *self._said(old.conversation_id, mark_turn, stands.last, mark),
            OpenConversation(conversation=new.conversation),
            *turn,
            *self._said(new.conversation.conversation_id, turn_id, 0, left),
            EraseConversation(conversation_id=old.conversation_id),
        )
        self._store.commit(writes)
        self._turn = (new.conversation.conversation_id, turn_id)

    def _turn_in(
        self, conversation_id: ConversationId, last: int
    ) -> tuple[TurnId, tuple[Write, ...]]:
        """Return the turn of this process in a conversation, and what opens it the first time."""
        if self._turn is not None and self._turn[0] == conversation_id:
            return self._turn[1], ()
        return _turn(self._system, conversation_id, last)

    def _said(
        self, conversation_id: ConversationId, turn_id: TurnId, last: int, new: Sequence[NewEntry]
    ) -> Iterator[Write]:
        for seq, entry in enumerate(new, start=last + 1):
            text = self._redacted(entry.text[:TEXT_CHARACTERS_MAX])
            value = UnknownPart(kind=self._kind, raw=entry.value)
            parts: tuple[Part, ...] = (TextPart(text=text), value) if text else (value,)
            yield RecordParts(
                conversation_id=conversation_id,
                seq=seq,
                first_ordinal=0,
                speaker=entry.speaker,
                turn_id=turn_id,
                upstream_session_id=None,
                recorded_at_ms=self._system.now_ms(),
                parts=parts,
                durability=Durability.SYNCED,
            )

    def _in(self, message: Message) -> Iterator[Entry]:
        seq, at_ms, speaker = message.seq, message.recorded_at_ms, message.speaker
        own = [p for p in message.parts if isinstance(p, UnknownPart) and p.kind == self._kind]
        for part in own:
            yield Entry(seq=seq, value=part.raw, recorded_at_ms=at_ms, speaker=speaker)
        if not own and message.text and not any(_kinds(message)):
            yield Entry(
                seq=seq, value=None, recorded_at_ms=at_ms, speaker=speaker, told=message.text
            )

    def _require_own(self, conversation: Conversation, last: int) -> None:
        """Refuse a conversation in which another framework speaks (L5). Looked at once."""
        conversation_id = conversation.conversation_id
        if conversation_id == self._own:
            return
        newest = self._store.messages(conversation_id, newest=ENTRIES_AT_ONCE) if last else ()
        kinds = {kind for message in newest for kind in _kinds(message)} - {self._kind}
        if kinds:
            raise UsageError(
                f"{self.key.address} holds what {_name(min(kinds))} keeps, and {_name(self._kind)} "
                "would not understand it",
                hint="give this one a thread or an address of its own",
                address=self.key.address,
            )
        self._own = conversation_id

    def _prove(self, conversation_id: ConversationId) -> None:
        """Refuse what is not as it was recorded (L6). Once: as long as reading all takes."""
        if conversation_id == self._proved:
            return
        if (seq := self._store.verify(conversation_id)) is not None:
            raise StoreError(
                f"{shown(self.key.address)}: entry {seq} is not what was recorded",
                hint="`upthread doctor` says what is damaged and how it is restored",
                address=self.key.address,
            )
        self._proved = conversation_id

    def _require_nobody_else(self, entries: Sequence[Entry]) -> None:
        if any(each.told for each in entries):
            raise UsageError(
                f"{shown(self.key.address)} also holds what was told by `upthread tell`, which "
                "would be erased with it",
                hint="forget it as a person: upthread forget, or begin anew: upthread reset",
                address=self.key.address,
            )

    def _moved(self, after: int, last: int) -> ConflictError:
        return ConflictError(
            f"{shown(self.key.address)} has gone on: entry {after} was to be its last, not {last}",
            hint="read it again, and decide on what it says now",
            address=self.key.address,
        )


class Append(Struct, frozen=True, kw_only=True):
    """What is to be appended to one log; with `after` only where that is its last entry."""

    log: EntryLog
    entries: Sequence[NewEntry]
    after: int | None = None


def append_together(appends: Sequence[Append]) -> tuple[tuple[int, ...], ...]:
    """Append to several logs of one record in one commit: all of it, or nothing (L2).

    Returns the numbers for each. Raises as `EntryLog.append` does.
    """
    wanted = [each for each in appends if each.entries]
    while wanted:
        log = wanted[0].log
        with log.lock:
            prepared = [each.log.prepared(each) for each in wanted]
            try:
                log.commit([write for each in prepared for write in each.writes])
            except ConflictError:
                # Another process was first: its entry stands, ours comes after it, unless somebody
                # was to be told of that. Who that is, the next look says.
                if all(each.after is None for each in wanted):
                    continue
                for each in wanted:
                    each.log.prepared(each)
                continue
            for each, done in zip(wanted, prepared, strict=True):
                each.log.follow(done)
            seqs = iter(done.seqs for done in prepared)
            return tuple(next(seqs) if each.entries else () for each in appends)
    return ((),) * len(appends)


class Prepared(Struct, frozen=True, kw_only=True):
    """The writes of an append, the turn they are under, and the numbers its entries will have."""

    writes: tuple[Write, ...]
    turn: tuple[ConversationId, TurnId]
    seqs: tuple[int, ...]


class _Stands(Struct, frozen=True, kw_only=True):
    """A conversation, the number of its last message, and whether it has yet to be opened."""

    conversation: Conversation
    last: int
    is_new: bool


def _turn(
    system: System, conversation_id: ConversationId, last: int
) -> tuple[TurnId, tuple[Write, ...]]:
    """Return a turn that is over as soon as it is open: upthread has nothing to go on with."""
    turn_id, now_ms = TurnId(system.new_id("trn")), system.now_ms()
    intended = TurnIntended(decision=FRAMEWORK, reasons=(FRAMEWORK,), prompt_seq=last + 1)
    events: tuple[TurnEvent, ...] = (
        intended,
        TurnEnded(outcome=Outcome.OK, detail="driven by a framework"),
    )
    return turn_id, (
        OpenTurn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=now_ms),
        *(
            RecordTurnEvent(
                conversation_id=conversation_id,
                turn_id=turn_id,
                seq=seq,
                event=event,
                recorded_at_ms=now_ms,
            )
            for seq, event in enumerate(events, start=1)
        ),
    )


def _name(kind: str) -> str:
    return kind.removeprefix(FRAMEWORK_PREFIX)


def _kinds(message: Message) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, UnknownPart) and part.kind.startswith(FRAMEWORK_PREFIX):
            yield part.kind
