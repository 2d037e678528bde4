"""Which call of an agent's is which turn, who holds it, and where it stands.

A call's turn has the same id in each process that hears of the call: a hook finds it in one read.
Everything here is blocking.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from upthread.core.commands import OpenConversation, Write
from upthread.core.events import AgentsCall
from upthread.core.names import Address
from upthread.core.turns.prompt import Task
from upthread.core.types import (
    CHILD_SLOT,
    MAIN_SLOT,
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Holder,
    Lease,
    ProjectId,
    TurnId,
)
from upthread.errors import ConflictError
from upthread.runtime.lease import holder_in_words, lease_name_of
from upthread.runtime.system import System
from upthread.runtime.turns.conversation import Claim, Conversations, opening
from upthread.runtime.turns.delegation import TellRequest
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.store.base import Store

TRIES_MAX: Final = 8
"""How often a step is done again that another process came before."""

Found = TypeVar("Found")

MAIN_ROLE: Final = "main"
"""The role of an agent's main session, under which calls are kept that are not continued."""

RequestOf = Callable[[Address, Task, AgentsCall], TellRequest]
"""Makes the request for a call of a role."""


class ExternalCalls:
    """Finds the turns that an agent drives, in one project."""

    def __init__(
        self,
        store: Store,
        system: System,
        conversations: Conversations,
        *,
        project_id: ProjectId,
        request_of: RequestOf,
    ) -> None:
        self.store = store
        self.project_id = project_id
        self.system = system
        self.conversations = conversations
        self._request_of = request_of

    def open_turn(self, turn_id: TurnId) -> LiveTurn | None:
        """Return a call's turn under its lease; None for one that is over, or not its any more."""
        live = self.turn(turn_id)
        lease = self.store.lease(lease_name_of(live.conversation)) if live else None
        if live is None or lease is None or lease.holder is None or lease.holder.call != turn_id:
            return None
        live.log.fences = (Fence(name=lease.name, token=lease.token),)
        return live

    def turn(self, turn_id: TurnId) -> LiveTurn | None:
        """Return a call's turn that is not over, without a lease."""
        conversation = self.store.owner(self.project_id, turn_id=turn_id)
        if conversation is None:
            return None
        links = self.store.links(conversation.conversation_id)
        link = links[-1] if links and links[-1].ended_because is None else None
        claim = self.conversations.claim_of(conversation, link, ())
        if claim.last is None or claim.last[0] != turn_id or claim.last[1].is_over:
            return None
        call = claim.last[1].intended.call if claim.last[1].intended else None
        if call is None:
            return None
        key = conversation.key
        address = Address(workstream=key.workstream, role=key.role, slot=max(key.slot, MAIN_SLOT))
        live = self.live(self._request_of(address, Task(text=""), call), claim)
        live.log.take_up(*claim.last)
        # The session of this call may be the first with its agent.
        is_same = link is not None and link.agent == call.agent
        live.agent_version = link.agent_version if link and is_same else ""
        return live

    def is_known(self, turn_id: TurnId) -> bool:
        """Return whether a call's turn was begun, however it stands."""
        return self.store.owner(self.project_id, turn_id=turn_id) is not None

    def live(self, request: TellRequest, claim: Claim) -> LiveTurn:
        return LiveTurn(request=request, claim=claim, store=self.store, system=self.system)

    def main_of(
        self, agent: str, session: str, workstream: str
    ) -> tuple[Conversation, tuple[Write, ...]]:
        """Return the conversation of a main session, and what opens a new one."""
        main_id = main_id_of(agent, session)
        known = self.store.conversation(main_id)
        if known is not None:
            return known, ()
        key = ConversationKey(
            project_id=self.project_id, workstream=workstream, role=MAIN_ROLE, slot=CHILD_SLOT
        )
        now_ms = self.system.now_ms()
        opens = opening(self.store, key, conversation_id=main_id, now_ms=now_ms)
        opened = opens[-1]
        assert isinstance(opened, OpenConversation)
        return opened.conversation, opens

    def held_calls(self) -> tuple[Lease, ...]:
        """Return the leases that are held for agents' processes."""
        found = self.store.held_leases(self.project_id)
        return tuple(each for each in found if each.holder and each.holder.call is not None)

    def open_calls(self) -> Iterator[tuple[Holder, LiveTurn, AgentsCall]]:
        """Yield each open call: who holds it, its turn, and the call."""
        for lease in self.held_calls():
            assert lease.holder is not None
            live = self.open_turn(TurnId(lease.holder.call or ""))
            call = live.log.intended.call if live else None
            if live is not None and call is not None:
                yield lease.holder, live, call

    def holder_of(self, lease: Lease | None) -> str:
        """Return who holds a lease and lives, empty for nobody."""
        if lease is None or lease.holder is None or self.system.is_dead(lease.holder):
            return ""
        return holder_in_words(lease)

    def user_of(self, conversation: Conversation) -> str:
        """Return who holds a conversation and lives, in words; empty for nobody."""
        return self.holder_of(self.store.lease(lease_name_of(conversation)))

    def owner_of(self, session: str) -> Conversation | None:
        """Return the conversation whose newest link holds a session."""
        return self.store.owner(self.project_id, session)


def again(step: Callable[[], Found]) -> Found:
    """Do a step, from its reads on, until no other process comes first; at last raise that."""
    for _ in range(TRIES_MAX - 1):
        try:
            return step()
        except ConflictError:
            continue
    return step()


def main_id_of(agent: str, main_session: str) -> ConversationId:
    """Return the id of the conversation that stands for an agent's main session."""
    return ConversationId(f"con_{digest_of(agent, main_session)}")


def turn_id_of(call: AgentsCall) -> TurnId:
    """Return the id of a call's turn: the same in each process that hears of the call."""
    return TurnId(f"trn_{digest_of(call.agent, call.main_session, call.call_id)}")


def digest_of(*words: str) -> str:
    """Return what words come to in an id."""
    text = "\0".join(words)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:26]


def call_of(request: TellRequest) -> AgentsCall:
    """Return the agent's call that a request is made of."""
    assert request.call is not None, "a turn of an agent's own has the call that began it"
    return request.call
