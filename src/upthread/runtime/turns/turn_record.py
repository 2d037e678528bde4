"""The record of a turn: its events as they are committed, and its messages with their numbers.

Nothing counts before it is committed, so the view moves with the commit, and in its thread: a
caller that is cancelled while it waits for that thread finds the view as the store has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from upthread.core.commands import RecordParts, RecordTurnEvent, Write
from upthread.core.events import TurnEnded, TurnEvent, TurnIntended, TurnParked
from upthread.core.redaction.placeholder import has_placeholder
from upthread.core.turns import turn as turns
from upthread.core.types import (
    Durability,
    Message,
    Outcome,
    Part,
    Speaker,
    TurnId,
    UpstreamSessionId,
)
from upthread.runtime.record.turn_views import totals_of
from upthread.runtime.system import System
from upthread.runtime.turns.conversation import Claim
from upthread.runtime.turns.delegation import TellRequest
from upthread.store.base import Store


def _nothing_more() -> Sequence[Write]:
    return ()


class TurnLog:
    """Appends to one turn. The turn is none before `begin` or `take_up`."""

    def __init__(self, store: Store, system: System, request: TellRequest, claim: Claim) -> None:
        self.turn_id = TurnId("")
        self.view = turns.TurnView()
        self.fences = (*claim.fences, *request.fences)
        """The leases without which nothing of this turn may be written."""
        self._store = store
        self._system = system
        self._conversation_id = claim.conversation.conversation_id
        self._at_park = request.at_park
        self._held: tuple[TurnEvent, ...] = ()
        self._make_more: Callable[[], Sequence[Write]] = _nothing_more

    def begin(self, turn_id: TurnId) -> None:
        """Start a new turn after the newest one."""
        self.take_up(turn_id, turns.TurnView())

    def take_up(self, turn_id: TurnId, view: turns.TurnView) -> None:
        """Go on with a turn as another process left it."""
        self.turn_id, self.view = turn_id, view

    @property
    def intended(self) -> TurnIntended:
        """The intent that was committed last; a turn has one before anything else is asked."""
        assert self.view.intended is not None
        return self.view.intended

    @property
    def outcome_of_park(self) -> Outcome:
        """The agent's failure that parked the turn, unknown where it was something else."""
        known = {outcome.value for outcome in Outcome}
        reason = self.view.parked.reason if self.view.parked else ""
        return Outcome(reason) if reason in known else Outcome.UNKNOWN

    def hold(self, event: TurnEvent) -> None:
        """Append with the next commit: for what a crash may take with it."""
        self._held += (event,)
        self.view = turns.apply(self.view, event)

    def make_with_next(self, make: Callable[[], Sequence[Write]]) -> None:
        """Let the next commit have what this makes in its thread, where it may look at files."""
        self._make_more = make

    async def commit(self, *events: TurnEvent, writes: Sequence[Write] = ()) -> None:
        """Append, with what belongs to the same moment, in one commit."""
        await self._system.in_thread(lambda: self.commit_here(*events, writes=writes))

    def commit_here(self, *events: TurnEvent, writes: Sequence[Write] = ()) -> None:
        """Append as `commit` does, from within a call that is off the event loop. Blocking."""
        now_ms = self._system.now_ms()
        events = tuple(map(self._with_totals, events))
        # The view counts those that are held as well: they have happened, and are not stored yet.
        committed = self.view.events - len(self._held)
        records = tuple(
            RecordTurnEvent(
                turn_id=self.turn_id,
                seq=seq,
                event=event,
                recorded_at_ms=now_ms,
                durability=_durability(event),
            )
            for seq, event in enumerate((*self._held, *events), committed + 1)
        )
        # A turn is opened before its first event; all else is older than the event it led to.
        parks = (each for each in events if isinstance(each, TurnParked))
        follow_up = (w for each in parks for w in self._at_park(self.turn_id, each))
        batch = (*writes, *self._make_more(), *records, *follow_up)
        self._store.commit(batch, fences=self.fences)
        # Here and not on the loop: a caller that is cancelled meanwhile must know what is written.
        self._held, self._make_more = (), _nothing_more
        for event in events:
            self.view = turns.apply(self.view, event)

    def _with_totals(self, event: TurnEvent) -> TurnEvent:
        """Add to a turn's end what all before it came to: nobody reads them for that again."""
        if not isinstance(event, TurnEnded):
            return event
        before = totals_of(self._store, self._conversation_id, before=self.turn_id)
        return structs.replace(event, **before.as_before())


def _durability(event: TurnEvent) -> Durability:
    """The end of a turn is synced; it covers all that was committed before it."""
    is_end = isinstance(event, TurnEnded | TurnParked)
    return Durability.SYNCED if is_end else Durability.PROCESS


class TurnMessages:
    """Reads and numbers. `next_seq` is its own to move: two messages of one number are a loss.

    What reads the store is blocking.
    """

    def __init__(
        self, store: Store, system: System, claim: Claim, log: TurnLog, *, durability: Durability
    ) -> None:
        self.next_seq = claim.messages + 1
        self._store = store
        self._system = system
        self._conversation_id = claim.conversation.conversation_id
        self._log = log
        self._durability = durability
        self._told: Message | None = None

    def keep_told(self, message: Message) -> None:
        """Keep the prompt as the person wrote it, once it is committed; the next one follows it."""
        self._told = message
        self.advance_to(message.seq + 1)

    def advance_to(self, seq: int) -> None:
        """Let the next message have this number, unless it has a higher one."""
        # Never back: what was given out may be on record, and a number has one message (S6).
        self.next_seq = max(self.next_seq, seq)

    def advance_past(self, writes: Sequence[Write]) -> None:
        """Let the next message follow the ones that these writes record."""
        for write in writes:
            if isinstance(write, RecordParts) and write.conversation_id == self._conversation_id:
                self.advance_to(write.seq + 1)

    def user_parts(
        self,
        seq: int,
        first_ordinal: int,
        parts: tuple[Part, ...],
        *,
        stamp: UpstreamSessionId | None,
    ) -> RecordParts:
        """Return the write that records parts of the user's message; one message has one stamp."""
        return RecordParts(
            conversation_id=self._conversation_id,
            seq=seq,
            first_ordinal=first_ordinal,
            speaker=Speaker.USER,
            turn_id=self._log.turn_id,
            upstream_session_id=stamp,
            recorded_at_ms=self._system.now_ms(),
            parts=parts,
            durability=self._durability,
        )

    def read(self, seq: int) -> Message:
        """Read one message back as it was recorded."""
        found = self._store.message(self._conversation_id, seq)
        assert found is not None, f"{self._conversation_id} has no message {seq}"
        return found

    def of_turn(self, *, after_seq: int) -> tuple[Message, ...]:
        """Read the messages of this turn after one of its prompts."""
        found = self._store.messages(self._conversation_id, after_seq=after_seq)
        return tuple(message for message in found if message.turn_id == self._log.turn_id)

    def prompt(self) -> Message:
        """Return the turn's prompt, as it was written if this process was told it."""
        # What is stored may be redacted; an agent gets a prompt as the person wrote it (ADR 27).
        return self._told or self.read(self._log.intended.prompt_seq)

    def has_whole_prompt(self) -> bool:
        """Whether the prompt can be sent as it was written: redaction may have taken from it."""
        if self._told is not None:
            return True
        text = self.prompt().text
        return bool(text.strip() and not has_placeholder(text))
