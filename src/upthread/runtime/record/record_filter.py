"""What is recorded of a batch: each write passes `core.record_policy` before it is committed.

It depends on the role a write belongs to; a child is recorded no more fully than the conversation
that called it, and what belongs to nobody we know, or to a run as a whole, as the strictest of all
roles is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct, field

from upthread.core.commands import (
    OpenConversation,
    OpenTurn,
    RecordBriefingEdit,
    RecordDecision,
    RecordExamined,
    RecordParts,
    RecordQuarantine,
    RecordRunEvent,
    RecordTurnEvent,
    Write,
)
from upthread.core.record_policy import kept, stays_as_it_is, strictest
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import Conversation, ConversationId, RecordMode

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

REMEMBERED_MAX: Final = 4096
"""How many conversations it knows the mode of."""


_OF_A_ROLE: Final = (
    OpenTurn,
    RecordParts,
    RecordTurnEvent,
    RecordQuarantine,
    RecordDecision,
    RecordExamined,
    RecordBriefingEdit,
)
"""What is recorded as the role of its conversation is."""


class RecordPolicy(Struct, frozen=True, kw_only=True):
    """What is recorded: of the project, and of roles for which something else was said."""

    mode: RecordMode = "redacted"
    roles: Mapping[str, RecordMode] = field(default_factory=dict[str, RecordMode])

    def of_role(self, role: str) -> RecordMode:
        """Return what is recorded of a role."""
        return self.roles.get(role, self.mode)

    @property
    def strictest(self) -> RecordMode:
        """What is recorded of whatever may belong to any role."""
        return strictest(self.mode, *self.roles.values())


class RecordFilter:
    """Writes as they are to be kept. `conversation_of` reads the conversation behind an id."""

    def __init__(
        self,
        policy: RecordPolicy,
        redactor: Redactor,
        *,
        conversation_of: Callable[[ConversationId], Conversation | None],
    ) -> None:
        self._policy = policy
        self._redactor = redactor
        self._conversation_of = conversation_of
        self._is_redacted_alike = policy.mode == "redacted" and not policy.roles
        self._modes: dict[ConversationId, RecordMode] = {}

    def kept(self, writes: Sequence[Write]) -> Sequence[Write]:
        """Return a batch as it is to be kept: the same object where nothing of it changes."""
        # Most batches hold no secret, and it is the looks that cost: one over all texts, then.
        if self._is_redacted_alike and stays_as_it_is(writes, self._redactor):
            return writes
        return [kept(write, self._mode_of(write), self._redactor) for write in writes]

    # --- below: how ----------------------------------------------------------------------------

    def _mode_of(self, write: Write) -> RecordMode:
        if isinstance(write, RecordRunEvent):
            # A run that keeps no reports and no answers could not go on.
            return "full" if self._policy.strictest == "full" else "redacted"
        if not self._policy.roles:
            return self._policy.mode
        if isinstance(write, OpenConversation):
            return self._learn(write.conversation)
        owner = write.conversation_id if isinstance(write, _OF_A_ROLE) else None
        return self._policy.strictest if owner is None else self._mode(owner)

    def _mode(self, conversation_id: ConversationId) -> RecordMode:
        known = self._modes.get(conversation_id)
        if known is not None:
            return known
        conversation = self._conversation_of(conversation_id)
        return self._policy.strictest if conversation is None else self._learn(conversation)

    def _learn(self, conversation: Conversation) -> RecordMode:
        mode = self._policy.of_role(conversation.key.role)
        parent = conversation.parent_conversation_id
        if parent is not None:
            inherited = self._mode(parent)
            is_said = conversation.key.role in self._policy.roles
            # Else a sub-agent would keep the words that its caller's role was told not to.
            mode = strictest(mode, inherited) if is_said else inherited
        _remember(self._modes, conversation.conversation_id, mode)
        return mode


def _remember(memory: dict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    if len(memory) >= REMEMBERED_MAX:
        memory.clear()
    memory[key] = value
