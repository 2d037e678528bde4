"""A conversation branched off at a message, into another one that goes its own way.

The source keeps everything and is only read. The other branch gets the messages as they would be
handed to a model, as one turn of its own; where the agent can fork the session itself, and the
branch leaves at the very end, its first prompt resumes that; otherwise it replays. What was done
in the world is not undone, so it is listed.
"""

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from upthread.client.parts import ProjectParts
from upthread.core.commands import FORKED, OpenLink, OpenTurn, RecordParts, Write
from upthread.core.events import TurnEnded, TurnIntended
from upthread.core.history.model import (
    branch_note,
    children_in,
    cut,
    fork_points,
    history_of,
    without_children,
)
from upthread.core.history.repair import Change, repair, told_to_model
from upthread.core.names import key_of, parse_address
from upthread.core.quotas import require_session
from upthread.core.turns.effects import Effect, effects_of
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Link,
    Outcome,
    Part,
    Speaker,
    TextPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import UpstreamError, UsageError
from upthread.runtime.lease import conversation_request
from upthread.runtime.record.turn_views import turn_view
from upthread.runtime.turns.delegation import name_workstream


class ForkPlan(Struct, frozen=True, kw_only=True):
    """What a fork would do. `link` is the session an agent could fork, None where it must replay.

    `children_left` stay with the source; `changes` make what is copied valid.
    """

    source: Conversation
    target: ConversationKey
    at_message: int
    spoken: tuple[tuple[Speaker, tuple[Part, ...]], ...]
    link: Link | None
    effects: tuple[Effect, ...]
    children_left: tuple[ConversationId, ...]
    changes: tuple[Change, ...]


class Fork(Struct, frozen=True, kw_only=True):
    """A fork that was made. `link` is the session the agent forked, None for a replay.

    `why_replay` says why it could not, empty where nothing was tried.
    """

    plan: ForkPlan
    conversation: Conversation
    link: Link | None
    why_replay: str


_Made: TypeAlias = tuple[UpstreamSessionId, str, bool]
"""The session that an agent made, its profile, and whether the agent's command set that."""


async def make_fork(parts: ProjectParts, address: str, into: str, at_message: int | None) -> Fork:
    """Branch a conversation off; see `Project.fork`."""
    in_thread = parts.system.in_thread
    plan = await in_thread(lambda: plan_fork(parts, address, into, at_message))
    async with (
        parts.leases.held(conversation_request(plan.source.key, "fork")),
        parts.leases.held(conversation_request(plan.target, "fork")) as fence,
    ):
        # Again, under both leases: a person may have
        # been shown a plan of what has changed since.
        plan = await in_thread(lambda: plan_fork(parts, address, into, at_message))
        forked, why = await _forked_by_agent(parts, plan.link)
        return await in_thread(lambda: _commit(parts, plan, fence, forked, why))


def plan_fork(parts: ProjectParts, address: str, into: str, at_message: int | None) -> ForkPlan:
    """Return what `make_fork` would do, and do nothing. Raises as it does. Blocking."""
    store = parts.store
    target = key_of(parts.project_id, parse_address(into))
    parts.settings.role(target.role)
    resolved = parts.resolved(address)
    if store.resolve(target) is not None:
        raise UsageError(
            f"{target.address} has a conversation already",
            hint="fork into an address that has none, such as another workstream's",
            address=target.address,
        )
    messages = store.messages(resolved.conversation.conversation_id)
    at = at_message or max(fork_points(messages), default=0)
    kept = cut(messages, at)
    repaired = repair(history_of(without_children(kept)))
    newest = store.turns(resolved.conversation.conversation_id, newest=1)
    ended = [turn_view(store, each.conversation_id, each.turn_id).ended for each in newest]
    # Agents fork a session at its end and nowhere else (ADR 21); half a turn is no end.
    is_at_end = at == len(messages) and any(end and end.outcome is Outcome.OK for end in ended)
    return ForkPlan(
        source=resolved.conversation,
        target=target,
        at_message=at,
        spoken=tuple((each.speaker, each.parts) for each in repaired.history),
        link=resolved.link if is_at_end else None,
        effects=effects_of(kept),
        children_left=children_in(kept),
        changes=repaired.changes,
    )


async def _forked_by_agent(parts: ProjectParts, link: Link | None) -> tuple[_Made | None, str]:
    """Return the session the agent made, or None and why: then the branch replays."""
    if link is None:
        return None, ""
    opening = parts.open_request(link.agent)
    try:
        async with parts.adapter(link.agent).open(opening) as connection:
            if not connection.capabilities.can_fork:
                return None, f"{link.agent} cannot fork a session"
            forked = await connection.fork_session(link.upstream_session_id)
            profile = parts.own_sessions.profile_in(link.agent, connection)
            return (require_session(forked), *profile), ""
    # The better way and not the only one: without it the branch replays (ADR 21).
    except UpstreamError as error:
        return None, f"{link.agent} did not fork {link.upstream_session_id}: {error}"


def _commit(
    parts: ProjectParts, plan: ForkPlan, fence: Fence, forked: _Made | None, why: str
) -> Fork:
    key, system = plan.target, parts.system
    name_workstream(parts.store, key.project_id, key.workstream, now_ms=system.now_ms)
    conversation, opens = parts.conversations.opening(key)
    link = None
    if forked is not None and plan.link is not None:
        session, profile, chose_profile = forked
        link = replace(
            plan.link,
            conversation_id=conversation.conversation_id,
            seq=1,
            upstream_session_id=session,
            opened_because=FORKED,
            opened_at_ms=system.now_ms(),
            agent_profile=profile,
            chose_profile=chose_profile,
        )
    copied = _writes(plan, conversation, TurnId(system.new_id("trn")), link, now_ms=system.now_ms())
    # One commit: a branch that has but a part of its history would be gone on with as if whole.
    parts.store.commit((*opens, *copied), fences=(fence,))
    return Fork(plan=plan, conversation=conversation, link=link, why_replay=why)


def _writes(
    plan: ForkPlan, conversation: Conversation, turn_id: TurnId, link: Link | None, *, now_ms: int
) -> Sequence[Write]:
    """Return the copied messages as one ended turn, and the link where there is one."""
    conversation_id = conversation.conversation_id
    source = plan.source.address
    spoken = list(plan.spoken)
    if link is None:  # a session forked by the agent knows all this
        note = branch_note(source, plan.at_message, plan.effects, told_to_model(plan.changes))
        spoken.append((Speaker.USER, (TextPart(text=note),)))
    intended = TurnIntended(
        decision=FORKED,
        reasons=(FORKED,),
        prompt_seq=1,
        inputs={
            "source_conversation_id": plan.source.conversation_id,
            "at_message": plan.at_message,
        },
    )
    ended = TurnEnded(outcome=Outcome.OK, detail=f"from {source}, message {plan.at_message}")
    opened = OpenTurn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=now_ms)
    return (
        *([OpenLink(link=link)] if link else []),
        opened,
        *(
            RecordParts(
                conversation_id=conversation_id,
                seq=seq,
                first_ordinal=0,
                speaker=speaker,
                turn_id=turn_id,
                upstream_session_id=link.upstream_session_id if link else None,
                recorded_at_ms=now_ms,
                parts=parts,
            )
            for seq, (speaker, parts) in enumerate(spoken, start=1)
        ),
        *opened.with_events(intended, ended),
    )
