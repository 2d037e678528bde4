"""The messages of a turn: what is on record of it, and where its next one goes."""

from __future__ import annotations

from collections.abc import Sequence

from upthread.core.commands import RecordParts, Write
from upthread.core.redaction.redactor import has_placeholder
from upthread.core.types import Durability, Message, Part, Speaker, UpstreamSessionId
from upthread.runtime.system import System
from upthread.runtime.turns.conversation import Claim
from upthread.runtime.turns.turn_log import TurnLog
from upthread.store.base import Store


class TurnMessages:
    """Reads and numbers. `next_seq` is its own to move: two messages of one number are a loss."""

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

    async def read(self, seq: int) -> Message:
        """Read one message back as it was recorded."""
        own = self._conversation_id
        found = await self._system.in_thread(lambda: self._store.message(own, seq))
        assert found is not None, f"{own} has no message {seq}"
        return found

    async def of_turn(self, *, after_seq: int) -> tuple[Message, ...]:
        """Read the messages of this turn after one of its prompts."""
        own, turn_id = self._conversation_id, self._log.turn_id
        found = await self._system.in_thread(lambda: self._store.messages(own, after_seq=after_seq))
        return tuple(message for message in found if message.turn_id == turn_id)

    async def prompt(self) -> Message:
        """Return the turn's prompt, as it was written if this process was told it."""
        # What is stored may be redacted; an agent gets a prompt as the person wrote it (ADR 27).
        return self._told or await self.read(self._log.intended.prompt_seq)

    async def has_whole_prompt(self) -> bool:
        """Whether the prompt can be sent as it was written: redaction may have taken from it."""
        text = (await self.prompt()).text
        return self._told is not None or bool(text.strip() and not has_placeholder(text))
