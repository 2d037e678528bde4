"""A log of opaque values in a conversation: what the stores of agent frameworks are made of.

A framework gives values that it must get back equal, to the last character. Each is a message of
our own record, whole, beside a text of it with its secrets redacted, for search, briefing and
audit. So a framework's history has what every conversation has: an address, a hash chain,
encryption, `forget`, backup, and its place in `ls` and `audit`. Appending costs the same after ten
entries and after a million; the number of an entry is what compare-and-set compares.

L1  Values come back equal and in the order of their numbers, whichever process appended them.
L2  `append` is all or nothing. It survives the loss of power once it has returned.
L3  With `after`, exactly one of many that append after the same moment gets in; ConflictError for
    the others, and nothing of theirs is there. Without, all of them get in.
L4  `rewrite` leaves what it returns and erases the rest, or changes nothing. An entry that another
    process appends meanwhile is neither lost nor put into what was erased: it is seen by `rewrite`,
    or comes after it.
L5  Another framework's conversation is refused before anything is written, and so is one in which
    a turn of `tell` is open.
L6  Before a process reads a log for the first time all of it is proved against its chain:
    StoreError for a value that is not what was recorded, never that value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from threading import RLock
from time import monotonic
from typing import Any, TypeAlias

from msgspec import Struct

from upthread.core.codec import comes_back, decode_json, encode_json, is_nested_deeper
from upthread.core.commands import EraseConversation, OpenConversation, OpenTurn, RecordParts, Write
from upthread.core.decision.words import FRAMEWORK
from upthread.core.events import TurnEnded, TurnIntended
from upthread.core.names import shown
from upthread.core.states import go_on_command
from upthread.core.types import (
    FRAMEWORK_PREFIX,
    Conversation,
    ConversationId,
    ConversationKey,
    Durability,
    Message,
    Outcome,
    Part,
    Speaker,
    TextPart,
    TurnId,
    UnknownPart,
)
from upthread.errors import ConflictError, StoreError, UsageError
from upthread.runtime.record.turn_views import turn_view
from upthread.runtime.system import System
from upthread.runtime.turns.delegation import name_workstream
from upthread.store.base import Store

TEXT_CHARACTERS_MAX = 20_000
"""Of a value's text so much is kept beside it: search and briefings read it, nobody resumes it."""

ENTRIES_AT_ONCE = 500

REWRITE_TIMEOUT_S = 30.0

NESTED_MAX = 200
"""A value is nested at most so deep: every command can read it, whatever limit its writer has."""

_REPLACED = {"replaced": True}
"""Says that entries before it were erased. Whoever appends in this moment conflicts with it, and
looks again; a framework is not given it."""


OwnTurn: TypeAlias = tuple[ConversationId, TurnId]
"""The turn of this process in a conversation."""


class NewEntry(Struct, frozen=True, kw_only=True):
    """A value to append, which is JSON that its framework alone understands.

    `text` is what was said in it, empty where it says nothing to a person.
    """

    value: Any
    text: str = ""
    speaker: Speaker = Speaker.TOOL


class Entry(Struct, frozen=True, kw_only=True):
    """A value as it was appended. Numbers count up from 1 and may leave some out.

    `told` is what somebody else said in the conversation, `upthread tell` for one: then there is
    no value. `speaker` is who said it.
    """

    seq: int
    value: Any
    speaker: Speaker = Speaker.TOOL
    told: str = ""


class Stands(Struct, frozen=True):
    """A log at the moment of one read. Nothing was ever appended where there is no conversation.

    `last` is the number that the next entry comes after, 0 before the first; `turn_id` is the
    newest turn's.
    """

    conversation: Conversation | None = None
    last: int = 0
    turn_id: TurnId | None = None

    @property
    def generation(self) -> int:
        """How often the log was begun anew, and its numbers with it; 0 before the first entry."""
        return self.conversation.generation if self.conversation else 0


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
        self._turn: OwnTurn | None = None
        self._own: ConversationId | None = None
        self._over: TurnId | None = None
        self._proved: ConversationId | None = None

    def stands(self) -> Stands:
        """Return the log's newest generation and its last number, by one read of one moment.

        A mark that replaces the generation has a number in it. So an append after `last` either
        comes before the mark or conflicts with it.
        """
        with self.lock:
            found = self._store.resolve(self.key)
        if not found:
            return Stands()
        return Stands(found.conversation, found.messages, found.turn_id)

    def entries(
        self, *, after: int = 0, newest: int | None = None, stands: Stands | None = None
    ) -> Iterator[Entry]:
        """Yield the entries after a number, oldest first; with `newest` of the last so many.

        What others said in the conversation is among them; what was forgotten is left out. With
        `stands`, which was read just before, entries that came since may be missing.
        """
        for message in self._messages(after, newest, stands or self.stands()):
            yield from self._in(message)

    def _messages(self, after: int, newest: int | None, stands: Stands) -> Iterator[Message]:
        conversation = stands.conversation
        if not conversation:
            return
        owner = conversation.conversation_id
        with self.lock:
            self._prove(owner)
            if newest is None and 0 < after < stands.last <= after + ENTRIES_AT_ONCE:
                # A few at the end are found without a search for their beginning.
                page = self._store.messages(owner, after_seq=after, newest=stands.last - after)
                if page and page[0].seq == after + 1:
                    yield from page
                    return
        while True:
            with self.lock:
                page = self._store.messages(
                    owner,
                    after_seq=after,
                    first=ENTRIES_AT_ONCE if newest is None else None,
                    newest=newest,
                )
            yield from page
            if newest is not None or len(page) < ENTRIES_AT_ONCE:
                return
            after = page[-1].seq

    def texts(self) -> Iterator[str]:
        """Yield what search, briefings and audit read of the conversation, oldest first."""
        for message in self._messages(0, None, self.stands()):
            if message.text:
                yield message.text

    def append(self, entries: Sequence[NewEntry], *, after: Stands | None = None) -> None:
        """Append values. With `after` only where the log still stands so.

        Raises ConflictError where it does not; UsageError for another framework's conversation.
        """
        append_together((Append(log=self, entries=entries, after=after),))

    def rewrite(self, kept: Callable[[Sequence[Entry]], Sequence[NewEntry]]) -> None:
        """Begin anew with what `kept` makes of all entries; what was there before is erased.

        `kept` may be called again: another process's entry that came meanwhile is among them then.
        What others said in the same conversation would be erased with it: UsageError.
        ConflictError after REWRITE_TIMEOUT_S beside a process that appends without a pause.
        """
        deadline_s = monotonic() + REWRITE_TIMEOUT_S
        while monotonic() < deadline_s:
            with self.lock:
                stands = self.stands()
                old, last = stands.conversation, stands.last
                if not old or last == 0:
                    return
                self._require_own(old, last)
                entries = [each for each in self.entries(stands=stands) if each.seq <= last]
                self._require_nobody_else(entries)
                left = kept(entries)
                with suppress(ConflictError):
                    self._replace(old, last, left)
                    return
        raise ConflictError(
            f"{shown(self.key.address)} was not changed: another process added to it all the time",
            hint="try again when that process has a pause or has ended",
            address=self.key.address,
        )

    def prepared(self, append: Append) -> tuple[Sequence[Write], OwnTurn]:
        """Return what appending is written as, as the conversation stands now, and its turn.

        For `append_together`, which writes it, and then has the turn remembered by `follow`.
        """
        stands = append.after or self.stands()
        conversation, last = stands.conversation, stands.last
        opening: list[Write] = []
        if not conversation:
            conversation = self._minted(1, "")
            opening.append(OpenConversation(conversation=conversation))
        else:
            self._require_own(conversation, last)
            self._require_over(conversation, stands.turn_id)
        conversation_id = conversation.conversation_id
        turn_id, turn = self._turn_in(conversation_id, last)
        said = self._said(conversation_id, turn_id, last, append.entries)
        return (*opening, *turn, *said), (conversation_id, turn_id)

    def follow(self, turn: OwnTurn) -> None:
        """Go on in the turn that an append was written under, in a conversation of our own."""
        self._turn = turn
        self._own, self._over = turn

    def mark(self, conversation: Conversation, last: int) -> Sequence[Write]:
        """Return the mark after which a process that has read this log reads it anew."""
        turn_id, opening = self._turn_in(conversation.conversation_id, last)
        mark = (NewEntry(value=_REPLACED),)
        return *opening, *self._said(conversation.conversation_id, turn_id, last, mark)

    def next_generation(self, old: Conversation) -> OpenConversation:
        """Return what opens an empty conversation in place of an old one."""
        return OpenConversation(conversation=self._minted(old.generation + 1, old.base_name))

    # --- below: one conversation, as the port has it ---------------------------------------------

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

    def _replace(self, old: Conversation, last: int, left: Sequence[NewEntry]) -> None:
        opened = self.next_generation(old)
        new = opened.conversation
        turn_id, turn = self._turn_in(new.conversation_id, 0)
        writes: tuple[Write, ...] = (
            *self.mark(old, last),
            opened,
            *turn,
            *self._said(new.conversation_id, turn_id, 0, left),
            EraseConversation(conversation_id=old.conversation_id),
        )
        self._store.commit(writes)
        self._turn = (new.conversation_id, turn_id)

    def _turn_in(
        self, conversation_id: ConversationId, last: int
    ) -> tuple[TurnId, tuple[Write, ...]]:
        """Return the turn of this process in a conversation, and what opens it the first time.

        It is over as soon as it is open: upthread has nothing to go on with.
        """
        if self._turn is not None and self._turn[0] == conversation_id:
            return self._turn[1], ()
        turn_id, now_ms = TurnId(self._system.new_id("trn")), self._system.now_ms()
        intended = TurnIntended(decision=FRAMEWORK, reasons=(FRAMEWORK,), prompt_seq=last + 1)
        ended = TurnEnded(outcome=Outcome.OK, detail="driven by a framework")
        opened = OpenTurn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=now_ms)
        return turn_id, (opened, *opened.with_events(intended, ended))

    def _said(
        self, conversation_id: ConversationId, turn_id: TurnId, last: int, new: Sequence[NewEntry]
    ) -> Iterator[Write]:
        for seq, entry in enumerate(new, start=last + 1):
            text = self._redacted(entry.text[:TEXT_CHARACTERS_MAX])
            self._require_kept(entry.value)
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

    def _require_kept(self, value: Any) -> None:
        """Refuse a value that would not come back equal, or that others could not read."""
        is_deep = is_nested_deeper(value, NESTED_MAX)
        if is_deep or not comes_back(value, decode_json(encode_json(value))):
            reason = f"nested deeper than {NESTED_MAX}" if is_deep else "no JSON"
            raise UsageError(
                f"nothing was added to {shown(self.key.address)}: a value is {reason}",
                hint="give it text, numbers, lists, and objects with names that are text",
                address=self.key.address,
            )

    def _in(self, message: Message) -> Iterator[Entry]:
        seq, speaker = message.seq, message.speaker
        own = [p for p in message.parts if isinstance(p, UnknownPart) and p.kind == self._kind]
        if any(part.raw == _REPLACED for part in own):
            return
        for part in own:
            yield Entry(seq=seq, value=part.raw, speaker=speaker)
        if not own and message.text and not any(_kinds(message)):
            yield Entry(seq=seq, value=None, speaker=speaker, told=message.text)

    def _require_own(self, conversation: Conversation, last: int) -> None:
        """Refuse a conversation in which another framework speaks (L5). Looked at once."""
        conversation_id = conversation.conversation_id
        if conversation_id == self._own:
            return
        try:
            newest = self._store.messages(conversation_id, newest=ENTRIES_AT_ONCE) if last else ()
        except StoreError:
            self._prove(conversation_id)  # its error names the cure
            raise
        kinds = {kind for message in newest for kind in _kinds(message)} - {self._kind}
        if kinds:
            raise UsageError(
                f"{self.key.address} holds what {_name(min(kinds))} keeps, and {_name(self._kind)} "
                "would not understand it",
                hint="give this one a thread or an address of its own",
                address=self.key.address,
            )
        self._own = conversation_id

    def _require_over(self, conversation: Conversation, turn_id: TurnId | None) -> None:
        """Refuse to add to a turn of `tell` that is open: it would count as ended. Looked at once.

        Its reply would have the same number, or be that of another prompt.
        """
        if turn_id is None or turn_id == self._over:
            return
        address = self.key.address
        if not turn_view(self._store, conversation.conversation_id, turn_id).ended:
            raise UsageError(
                f"nothing can be added to {shown(address)}: its last turn is open",
                hint=f"wait for its end, or continue it: {go_on_command(address)}",
                address=address,
            )
        self._over = turn_id

    def _prove(self, conversation_id: ConversationId) -> None:
        """Refuse what is not as it was recorded (L6). Once: as long as reading all takes."""
        if conversation_id == self._proved:
            return
        if (seq := self._store.verify(conversation_id)) is not None:
            raise StoreError(
                f"{shown(self.key.address)}: entry {seq} is not what was recorded",
                hint="restore a backup, or give it up and begin it anew: "
                f"upthread forget {shown(self.key.workstream)}",
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


class Append(Struct, frozen=True, kw_only=True):
    """What is to be appended to one log; with `after` only where the log still stands so."""

    log: EntryLog
    entries: Sequence[NewEntry]
    after: Stands | None = None


def marks_of(
    store: Store, system: System, conversations: Iterable[Conversation]
) -> Iterator[Write]:
    """Yield what is written with conversations of frameworks that are forgotten.

    A process that has read one would go on from what it read, and add to what is gone. A damaged
    conversation stays unreadable, so its address begins anew with an empty one.
    """
    for each in conversations:
        found = store.resolve(each.key)
        is_newest = found is not None and found.conversation == each
        if is_newest and store.verify(each.conversation_id) is not None:
            log = EntryLog(store, system, each.key, "", redacted=str, lock=RLock())
            yield log.next_generation(each)
        try:
            newest = store.messages(each.conversation_id, newest=1)
        except StoreError:  # a damaged one can be forgotten, and no process reads it
            newest = ()
        for message in newest:
            for kind in set(_kinds(message)):
                log = EntryLog(store, system, each.key, _name(kind), redacted=str, lock=RLock())
                yield from log.mark(each, message.seq)


def append_together(appends: Sequence[Append]) -> None:
    """Append to several logs of one record in one commit: all of it, or nothing (L2).

    Raises as `EntryLog.append` does.
    """
    wanted = [each for each in appends if each.entries]
    while wanted:
        log = wanted[0].log
        with log.lock:
            prepared = [each.log.prepared(each) for each in wanted]
            try:
                log.commit([write for writes, _ in prepared for write in writes])
            except ConflictError:
                # Another process was first: its entry stands, ours comes after it, unless ours was
                # made for the log as it stood.
                if any(each.after for each in wanted):
                    raise
                continue
            for each, (_, turn) in zip(wanted, prepared, strict=True):
                each.log.follow(turn)
            return


def _name(kind: str) -> str:
    return kind.removeprefix(FRAMEWORK_PREFIX)


def _kinds(message: Message) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, UnknownPart) and part.kind.startswith(FRAMEWORK_PREFIX):
            yield part.kind
