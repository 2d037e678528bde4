"""The store as the runtime sees it: each batch passes `core.keeping` before it is committed.

Reads are the store's own. What is recorded depends on the role a write belongs to; a child is
recorded no more fully than the conversation that called it, and what belongs to nobody we know, or
to a run as a whole, as the strictest of all roles is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

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
from upthread.core.keeping import kept, stays_as_it_is, strictest
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import Conversation, ConversationId, Fence, RecordMode, TurnId
from upthread.store.base import Store, Turn

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

REMEMBERED_MAX: Final = 4096
"""How many turns and conversations it knows the owner and the mode of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPolicy:
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


class PrivateStore:
    """A store that keeps what the policy says; `behind` is where it keeps it.

    One call at a time, as the port has it.
    """

    def __init__(self, store: Store, *, policy: RecordPolicy, redactor: Redactor) -> None:
        self.behind = store
        self._policy = policy
        self._redactor = redactor
        self._is_redacted_alike = policy.mode == "redacted" and not policy.roles
        self._modes: dict[ConversationId, RecordMode] = {}
        self._owners: dict[TurnId, ConversationId] = {}
        # As attributes: a read costs what the store's own costs.
        self.resolve = store.resolve
        self.conversation = store.conversation
        self.conversations = store.conversations
        self.workstream = store.workstream
        self.workstreams = store.workstreams
        self.projects = store.projects
        self.links = store.links
        self.link_owner = store.link_owner
        self.messages = store.messages
        self.message = store.message
        self.prior_messages = store.prior_messages
        self.message_count = store.message_count
        self.turn_count = store.turn_count
        self.turn_owner = store.turn_owner
        self.turn_events = store.turn_events
        self.turn_moved_at_ms = store.turn_moved_at_ms
        self.runs = store.runs
        self.run = store.run
        self.run_events = store.run_events
        self.run_moved_at_ms = store.run_moved_at_ms
        self.pending_transitions = store.pending_transitions
        self.acts = store.acts
        self.run_acts = store.run_acts
        self.refusals = store.refusals
        self.quarantined = store.quarantined
        self.examined = store.examined
        self.examined_count = store.examined_count
        self.briefing_edit = store.briefing_edit
        self.held = store.held
        self.once = store.once
        self.verify = store.verify
        self.scrub = store.scrub
        self.acquire_lease = store.acquire_lease
        self.heartbeat = store.heartbeat
        self.release_lease = store.release_lease
        self.lease = store.lease
        self.close = store.close

    def commit(self, writes: Sequence[Write], *, fences: Sequence[Fence] = ()) -> None:
        """Commit a batch as it is to be kept."""
        if self._is_redacted_alike and stays_as_it_is(writes, self._redactor):
            self.behind.commit(writes, fences=fences)
            return
        batch = [kept(write, self._mode_of(write), self._redactor) for write in writes]
        self.behind.commit(batch, fences=fences)

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        """Read turns, and remember whose they are: their events do not say."""
        found = self.behind.turns(conversation_id, newest=newest)
        for turn in found:
            _remember(self._owners, turn.turn_id, conversation_id)
        return found

    # --- below: how ----------------------------------------------------------------------------

    def _mode_of(self, write: Write) -> RecordMode:
        if isinstance(write, RecordRunEvent):
            # A run that keeps no reports and no answers could not go on.
            return "full" if self._policy.strictest == "full" else "redacted"
        if not self._policy.roles:
            return self._policy.mode
        if isinstance(write, OpenConversation):
            return self._learn(write.conversation)
        owner = self._owner_of(write)
        return self._policy.strictest if owner is None else self._mode(owner)

    def _owner_of(self, write: Write) -> ConversationId | None:
        match write:
            case OpenTurn(turn_id=turn_id, conversation_id=owner):
                _remember(self._owners, turn_id, owner)
                return owner
            case (
                RecordParts(conversation_id=owner)
                | RecordDecision(conversation_id=owner)
                | RecordExamined(conversation_id=owner)
                | RecordBriefingEdit(conversation_id=owner)
            ):
                return owner
            case RecordTurnEvent(turn_id=turn_id) | RecordQuarantine(turn_id=turn_id):
                return self._owners.get(turn_id)
            case _:
                return None

    def _mode(self, conversation_id: ConversationId) -> RecordMode:
        known = self._modes.get(conversation_id)
        if known is not None:
            return known
        conversation = self.behind.conversation(conversation_id)
        return self._policy.strictest if conversation is None else self._learn(conversation)

    def _learn(self, conversation: Conversation) -> RecordMode:
        mode = self._policy.of_role(conversation.key.role)
        parent = conversation.parent_conversation_id
        if parent is not None:
            inherited = self._mode(parent)
            is_said = conversation.key.role in self._policy.roles
            mode = strictest(mode, inherited) if is_said else inherited
        _remember(self._modes, conversation.conversation_id, mode)
        return mode


def _remember(memory: dict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    if len(memory) >= REMEMBERED_MAX:
        memory.clear()
    memory[key] = value
