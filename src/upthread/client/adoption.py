"""Conversations that begin with a session of an agent: it is adopted, or copied and kept.

`await up.adopt("spec-42/planner", "ses_…")`, `await up.keep("spec-42/planner", "ses_…",
agent="claude-code")`.
"""

from __future__ import annotations

from typing import TypeAlias

from upthread.client.assembly import Assembly
from upthread.client.delegation_setup import adapter_for
from upthread.core.acts import ADOPTED
from upthread.core.commands import EndLink, OpenLink, Write
from upthread.core.names import key_of, parse_address, shown
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
from upthread.runtime.lease import conversation_request
from upthread.runtime.turns.conversation import Claim
from upthread.runtime.turns.older_record import read_back

_Found: TypeAlias = tuple[str, str, str, bool]
"""Where a session was found: agent, its version, the profile, and whether its command set it."""


class AdoptingProject(Assembly):
    """What an open project does with sessions that were begun without upthread."""

    async def adopt(
        self, address: str, upstream_session_id: str, *, agent: str | None = None
    ) -> Link:
        """Take an existing session of an agent in as the conversation's current one.

        The agent is asked whether it has the session. Raises UpstreamError when it has not,
        UsageError when another conversation holds it.
        """
        parsed = parse_address(address)
        key, upstream = key_of(self.project_id, parsed), UpstreamSessionId(upstream_session_id)
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
        """Copy what was said in an agent's session into a new conversation, redacted as all is.

        From then on it is there whatever the agent deletes; while the session is there, it is gone
        on in. Raises UsageError for an address that has a past, NotFoundError for no such session.
        """
        parsed = parse_address(address)
        self.settings.role(parsed.role)
        key, upstream = key_of(self.project_id, parsed), UpstreamSessionId(upstream_session_id)
        await self._refuse_another(key, upstream)
        async with self._leases.held(conversation_request(key, "keep")) as fence:
            return await self._system.in_thread(
                lambda: self._bank_kept(key, fence, agent, upstream)
            )

    async def catch_up(self, upstream_session_id: str) -> int:
        """Take in what a session on record has by now and the record lacks.

        Returns how many turns that were. What was forgotten stays so. Raises NotFoundError for a
        session that no conversation has.
        """
        upstream = UpstreamSessionId(upstream_session_id)
        owner = await self._system.in_thread(lambda: self.store.owner(self.project_id, upstream))
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
        owner = await self._system.in_thread(lambda: self.store.owner(key.project_id, upstream))
        if owner is not None and owner.key != key:
            raise UsageError(
                f"the session {shown(upstream)} belongs to {owner.key.address}",
                hint="an upstream session has one conversation",
                upstream_session_id=upstream,
            )

    async def _confirm(self, agent: str, upstream: UpstreamSessionId, place: str) -> _Found:
        """Ask the agent for the session."""
        request = self._preparing.open_request(agent, place=place)
        async with adapter_for(self.settings, agent).open(request) as connection:
            capabilities = connection.capabilities
            # Asked by its list first: some agents open a new session for an id they do not have.
            lists_all = capabilities.lists_sub_agents
            is_known = not lists_all or upstream in await connection.list_sessions()
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
            self.store.commit(self._said(claim, found), fences=(fence,))
        return len(found.turns)

    def _said(self, claim: Claim, found: Lacked) -> tuple[Write, ...]:
        return read_back(
            self.store,
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
        resolved = self.store.resolve(key)
        conversation = (
            resolved.conversation if resolved else self._conversations.mint(key, fences=(fence,))
        )
        held = resolved.link if resolved else None
        if held is not None and held.upstream_session_id == upstream:
            return held
        links = self.store.links(conversation.conversation_id)
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
        self.store.commit(writes, fences=(fence,))
        return link

    def _bank_kept(
        self, key: ConversationKey, fence: Fence, agent: str, upstream: UpstreamSessionId
    ) -> Link:
        if self.store.resolve(key) is not None:
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
        self.store.commit((OpenLink(link=link), *self._said(claim, found)), fences=(fence,))
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
