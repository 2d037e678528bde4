"""Conversations that begin with a session of an agent: it is adopted, or copied and kept."""

from typing import TypeAlias

from msgspec import structs

from upthread.client.parts import ProjectParts
from upthread.core.commands import ADOPTED, EndLink, OpenLink, Write
from upthread.core.names import key_of, parse_address, shown
from upthread.core.turns.agent_history import not_recorded
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
from upthread.runtime.turns.beginning import read_back

_Found: TypeAlias = tuple[str, str, str, bool]
"""Where a session was found: agent, its version, the profile, and whether its command set it."""


async def adopt(
    parts: ProjectParts, address: str, upstream: UpstreamSessionId, *, named: str | None
) -> Link:
    """Take an existing session in as the conversation's current one; see `Project.adopt`."""
    parsed = parse_address(address)
    key, in_thread = key_of(parts.project_id, parsed), parts.system.in_thread

    def asked() -> tuple[str, str]:
        _refuse_another(parts, key, upstream)
        return parts.agent_for(parsed, named=named), parts.place_of(parsed.workstream)

    agent, place = await in_thread(asked)
    # Before the lease is taken: an agent takes seconds
    # to start, and nobody has to wait for that.
    found = await _confirmed(parts, agent, upstream, place)
    async with parts.leases.held(conversation_request(key, "adopt")) as fence:
        return await in_thread(lambda: _bank_adopted(parts, key, fence, found, upstream))


async def keep(
    parts: ProjectParts, address: str, upstream: UpstreamSessionId, *, agent: str
) -> Link:
    """Copy what was said in a session into a new conversation; see `Project.keep`."""
    parsed = parse_address(address)
    parts.settings.role(parsed.role)
    key, in_thread = key_of(parts.project_id, parsed), parts.system.in_thread
    await in_thread(lambda: _refuse_another(parts, key, upstream))
    async with parts.leases.held(conversation_request(key, "keep")) as fence:
        return await in_thread(lambda: _bank_kept(parts, key, fence, agent, upstream))


async def catch_up(parts: ProjectParts, upstream: UpstreamSessionId) -> int:
    """Take in what a session has by now and the record lacks; see `Project.catch_up`."""
    in_thread = parts.system.in_thread
    owner = await in_thread(lambda: parts.store.owner(parts.project_id, upstream))
    if owner is None:
        raise NotFoundError(
            f"no conversation here has the session {shown(upstream)}",
            hint="upthread keep SESSION",
            upstream_session_id=upstream,
        )
    async with parts.leases.held(conversation_request(owner.key, "keep")) as fence:
        return await in_thread(lambda: _bank_lacking(parts, owner.key, fence, upstream))


def _refuse_another(parts: ProjectParts, key: ConversationKey, upstream: UpstreamSessionId) -> None:
    """Raise where another conversation has the session."""
    owner = parts.store.owner(key.project_id, upstream)
    if owner is not None and owner.key != key:
        raise UsageError(
            f"the session {shown(upstream)} belongs to {owner.address}",
            hint="an upstream session has one conversation",
            upstream_session_id=upstream,
        )


async def _confirmed(
    parts: ProjectParts, agent: str, upstream: UpstreamSessionId, place: str
) -> _Found:
    """Ask the agent for the session."""
    request = parts.open_request(agent, place=place)
    async with parts.adapter(agent).open(request) as connection:
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
        profile = parts.own_sessions.profile_in(agent, connection)
        return agent, capabilities.version, *profile


def _bank_lacking(
    parts: ProjectParts, key: ConversationKey, fence: Fence, upstream: UpstreamSessionId
) -> int:
    claim = parts.conversations.standing(key, (fence,))
    # One that the conversation has left behind is whole: nobody goes on in it here.
    if claim.link is None or claim.link.upstream_session_id != upstream:
        return 0
    found = parts.lacked(key.role, claim.link, claim.last)
    if found.fault:
        raise StoreError(
            f"what {shown(upstream)} holds could not be compared: {found.fault}",
            hint="see upthread doctor",
            upstream_session_id=upstream,
        )
    if found.turns:
        parts.store.commit(read_back(parts.store, parts.system, claim, found), fences=(fence,))
    return len(found.turns)


def _bank_adopted(
    parts: ProjectParts,
    key: ConversationKey,
    fence: Fence,
    found: _Found,
    upstream: UpstreamSessionId,
) -> Link:
    if parts.store.resolve(key) is None:
        parts.conversations.mint(key, fences=(fence,))
    claim = parts.conversations.standing(key, (fence,))
    held, conversation = claim.link, claim.conversation
    if held is not None and held.upstream_session_id == upstream:
        return held
    links = parts.store.links(conversation.conversation_id)
    link = _link(parts, conversation, found, upstream, seq=len(links) + 1)
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
    # So that the conversation can go on when the agent has deleted the session.
    try:
        copied = parts.all_of(key.role, link.agent, upstream)
    except StoreError:
        copied = None  # its agent can continue it, and the next prompt says why it is not here
    if copied is not None:
        recorded = parts.store.messages(conversation.conversation_id)
        lacking = structs.replace(copied, turns=not_recorded(copied.turns, recorded))
        writes += read_back(parts.store, parts.system, structs.replace(claim, link=link), lacking)
    parts.store.commit(writes, fences=(fence,))
    return link


def _bank_kept(
    parts: ProjectParts,
    key: ConversationKey,
    fence: Fence,
    agent: str,
    upstream: UpstreamSessionId,
) -> Link:
    if parts.store.resolve(key) is not None:
        raise UsageError(
            f"{key.address} has a past already, and a kept session is one of its own",
            hint="name an address that has none: --as WORKSTREAM/ROLE",
            address=key.address,
        )
    found = parts.all_of(key.role, agent, upstream)
    if found is None or not found.turns:
        raise NotFoundError(
            f"the store of {agent} holds nothing that was said in {shown(upstream)}",
            hint=f"which sessions there are: upthread search WORDS --agent {agent}",
            upstream_session_id=upstream,
        )
    parts.conversations.mint(key, fences=(fence,))
    claim = parts.conversations.standing(key, (fence,))
    profile = parts.own_sessions.profile(agent, agent, {})
    link = _link(parts, claim.conversation, (agent, "", profile, False), upstream, seq=1)
    said = read_back(parts.store, parts.system, structs.replace(claim, link=link), found)
    parts.store.commit((OpenLink(link=link), *said), fences=(fence,))
    return link


def _link(
    parts: ProjectParts,
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
        working_directory=parts.place_of(conversation.key.workstream),
        opened_because=ADOPTED,
        opened_at_ms=parts.system.now_ms(),
        agent_profile=profile,
        chose_profile=chose_profile,
    )
