"""Conversations that begin with a past: a session that is adopted or kept, a branch that is forked.

`await up.adopt("spec-42/planner", "ses_…")`, `await up.keep("spec-42/planner", "ses_…",
agent="claude-code")`, `await up.fork("spec/planner", "other/planner")`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from upthread.client.delegation_setup import Preparing
from upthread.client.parts import ProjectParts
from upthread.core.acts import ADOPTED
from upthread.core.commands import EndLink, OpenLink, Write
from upthread.core.names import Address, parse_address, shown
from upthread.core.turns.replayed_history import Lacked
from upthread.core.types import (
    Conversation,
    ConversationKey,
    Fence,
    Link,
    Outcome,
    UpstreamSessionId,
)
from upthread.errors import NotFoundError, StoreError, UpstreamError, UsageError
from upthread.runtime.lease import Leases, conversation_request
from upthread.runtime.record.fork import Fork, ForkPlan, ForkRequest, Forks
from upthread.runtime.turns.conversation import Claim, Conversations
from upthread.runtime.turns.older_record import read_back

_Found: TypeAlias = tuple[str, str, str, bool]
"""Where a session was found: agent, its version, the profile, and whether its command set it."""


class AdoptSession:
    """Takes sessions in that were begun without upthread."""

    def __init__(
        self,
        parts: ProjectParts,
        leases: Leases,
        *,
        conversations: Conversations,
        preparing: Preparing,
    ) -> None:
        self._store = parts.store
        self._system = parts.system
        self._project_id = parts.project_id
        self._leases = leases
        self._conversations = conversations
        self._preparing = preparing

    async def adopt(self, address: str, upstream_session_id: str, *, agent: str | None) -> Link:
        """Take an existing session in as the conversation's current one; see Project.adopt."""
        parsed = parse_address(address)
        key, upstream = self._preparing.key(parsed), UpstreamSessionId(upstream_session_id)
        await self._refuse_another(key, upstream)
        name = await self._system.in_thread(lambda: self._preparing.agent_for(parsed, named=agent))
        place = await self._system.in_thread(lambda: self._preparing.place_of(parsed.workstream))
        # Before the lease is taken: an agent takes seconds
        # to start, and nobody has to wait for that.
        found = await self._confirm(name, upstream, place)
        async with self._leases.held(conversation_request(key, "adopt")) as fence:
            return await self._system.in_thread(
                lambda: self._bank_adopted(key, fence, found, upstream)
            )

    async def keep(self, address: str, upstream_session_id: str, *, agent: str) -> Link:
        """Copy a session out of its agent's store into a new conversation; see Project.keep."""
        parsed = parse_address(address)
        self._preparing.require_role(parsed.role)
        key, upstream = self._preparing.key(parsed), UpstreamSessionId(upstream_session_id)
        await self._refuse_another(key, upstream)
        async with self._leases.held(conversation_request(key, "keep")) as fence:
            return await self._system.in_thread(
                lambda: self._bank_kept(key, fence, agent, upstream)
            )

    async def catch_up(self, upstream_session_id: str) -> int:
        """Take in what a session on record has by now; see Project.catch_up."""
        upstream = UpstreamSessionId(upstream_session_id)
        owner = await self._system.in_thread(lambda: self._store.owner(self._project_id, upstream))
        if owner is None:
            raise NotFoundError(
                f"no conversation here has the session {shown(upstream)}",
                hint="upthread keep SESSION",
                upstream_session_id=upstream,
            )
        async with self._leases.held(conversation_request(owner.key, "keep")) as fence:
            return await self._system.in_thread(
                lambda: self._bank_lacking(owner.key, fence, upstream)
            )

    async def _refuse_another(self, key: ConversationKey, upstream: UpstreamSessionId) -> None:
        """Raise where another conversation has the session."""
        owner = await self._system.in_thread(lambda: self._store.owner(key.project_id, upstream))
        if owner is not None and owner.key != key:
            raise UsageError(
                f"the session {shown(upstream)} belongs to {owner.key.address}",
                hint="an upstream session has one conversation",
                upstream_session_id=upstream,
            )

    async def _confirm(self, agent: str, upstream: UpstreamSessionId, place: str) -> _Found:
        """Ask the agent for the session."""
        request = self._preparing.open_request(agent, place=place)
        async with self._preparing.adapter(agent).open(request) as connection:
            capabilities = connection.capabilities
            # Asked by its list first: some agents open a new session for an id they do not have.
            is_known = not capabilities.lists_sub_agents or any(
                session.upstream_session_id == upstream
                for session in await connection.list_sessions()
            )
            if not is_known:
                raise UpstreamError(
                    f"{agent} has no session {shown(upstream)}",
                    outcome=Outcome.MISSING,
                    hint="list the agent's sessions with its own command",
                    upstream_session_id=upstream,
                )
            if capabilities.can_resume:
                await connection.resume_session(upstream)
            else:
                await connection.load_session(upstream)
            own = self._preparing.own_sessions
            return agent, capabilities.version, *own.profile_in(agent, connection)

    def _bank_lacking(self, key: ConversationKey, fence: Fence, upstream: UpstreamSessionId) -> int:
        claim = self._conversations.leased(key, (fence,))
        # One that the conversation has left behind is whole: nobody goes on in it here.
        if claim.link is None or claim.link.upstream_session_id != upstream:
            return 0
        last = claim.last[1] if claim.last else None
        found = self._preparing.lacked(key.role, claim.link, last)
        if found.fault:
            raise StoreError(
                f"what {shown(upstream)} holds could not be compared: {found.fault}",
                hint="see upthread doctor",
                upstream_session_id=upstream,
            )
        if found.turns:
            self._store.commit(self._said(claim, found), fences=(fence,))
        return len(found.turns)

    def _said(self, claim: Claim, found: Lacked) -> tuple[Write, ...]:
        return read_back(
            self._store,
            claim,
            found,
            new_id=lambda: self._system.new_id("trn"),
            at_ms=self._system.now_ms(),
        )

    def _bank_adopted(
        self,
        key: ConversationKey,
        fence: Fence,
        found: _Found,
        upstream: UpstreamSessionId,
    ) -> Link:
        resolved = self._store.resolve(key)
        conversation = (
            resolved.conversation if resolved else self._conversations.mint(key, fences=(fence,))
        )
        held = resolved.link if resolved else None
        if held is not None and held.upstream_session_id == upstream:
            return held
        links = self._store.links(conversation.conversation_id)
        link = self._link(conversation, found, upstream, seq=len(links) + 1)
        writes: list[Write] = [OpenLink(link=link)]
        if held is not None:
            end = EndLink(
                conversation_id=held.conversation_id,
                seq=held.seq,
                ended_because="adopted_another",
                ended_at_ms=link.opened_at_ms,
            )
            # In one commit, the end first: a conversation
            # never has two open links, nor none in between.
            writes.insert(0, end)
        self._store.commit(writes, fences=(fence,))
        return link

    def _bank_kept(
        self, key: ConversationKey, fence: Fence, agent: str, upstream: UpstreamSessionId
    ) -> Link:
        if self._store.resolve(key) is not None:
            raise UsageError(
                f"{key.address} has a past already, and a kept session is one of its own",
                hint="name an address that has none: --as WORKSTREAM/ROLE",
                address=key.address,
            )
        found = self._preparing.all_of(key.role, agent, upstream)
        if found is None or not found.turns:
            raise NotFoundError(
                f"the store of {agent} holds nothing that was said in {shown(upstream)}",
                hint=f"which sessions there are: upthread search WORDS --agent {agent}",
                upstream_session_id=upstream,
            )
        conversation = self._conversations.mint(key, fences=(fence,))
        profile = self._preparing.own_sessions.profile(agent, agent, {})
        link = self._link(conversation, (agent, "", profile, False), upstream, seq=1)
        claim = Claim(
            conversation=conversation,
            link=link,
            fences=(fence,),
            turns=0,
            messages=0,
            last=None,
            is_prompted=False,
        )
        self._store.commit((OpenLink(link=link), *self._said(claim, found)), fences=(fence,))
        return link

    def _link(
        self,
        conversation: Conversation,
        found: _Found,
        upstream: UpstreamSessionId,
        *,
        seq: int,
    ) -> Link:
        agent, version, profile, chose_profile = found
        return Link(
            conversation_id=conversation.conversation_id,
            seq=seq,
            upstream_session_id=upstream,
            agent=agent,
            agent_version=version,
            working_directory=self._preparing.place_of(conversation.key.workstream),
            opened_because=ADOPTED,
            opened_at_ms=self._system.now_ms(),
            agent_profile=profile,
            chose_profile=chose_profile,
        )


class ForkConversation:
    """Branches conversations off. `plan` says what would be done."""

    def __init__(
        self,
        forks: Forks,
        *,
        preparing: Preparing,
        parse: Callable[[str], Awaitable[Address]],
    ) -> None:
        self._forks = forks
        self._preparing = preparing
        self._parse = parse

    async def __call__(self, address: str, into: str, *, at_message: int | None = None) -> Fork:
        """Branch a conversation off after a message, into an address that has none yet.

        Without `at_message`, after the newest one where no turn and no call is open. Raises
        NotFoundError, UsageError for a place that cannot be cut, LeaseHeldError while a turn runs.
        """
        request = await self._request(address, into, at_message)
        plan = await self._forks.plan(request)
        # Nothing to branch off at the agent: then none is started.
        if plan.link is None:
            return await self._forks.fork(request)
        preparing, agent = self._preparing, plan.link.agent
        adapter, opening = preparing.adapter(agent), preparing.open_request(agent)
        return await self._forks.fork(request, (adapter, opening, preparing.own_sessions))

    async def plan(self, address: str, into: str, *, at_message: int | None = None) -> ForkPlan:
        """Return what the call would do, and do nothing. Raises as it does."""
        return await self._forks.plan(await self._request(address, into, at_message))

    async def _request(self, address: str, into: str, at_message: int | None) -> ForkRequest:
        source, target = await self._parse(address), parse_address(into)
        self._preparing.require_role(target.role)
        return ForkRequest(
            source=self._preparing.key(source),
            target=self._preparing.key(target),
            at_message=at_message,
        )
