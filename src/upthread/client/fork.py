"""A conversation branched off at a message, into another one that goes its own way.

The source keeps everything and is only read. The other branch gets the messages as they would be
handed to a model, as one turn of its own; where the agent can fork the session itself, and the
branch leaves at the very end, its first prompt resumes that; otherwise it replays. What was done
in the world is not undone, so it is listed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct, structs

from upthread.client.delegation_setup import Preparing, adapter_for
from upthread.client.parts import ProjectParts
from upthread.core.acts import FORKED
from upthread.core.commands import (
    OpenConversation,
    OpenLink,
    OpenTurn,
    RecordParts,
    RecordTurnEvent,
    Write,
)
from upthread.core.events import TurnEnded, TurnEvent, TurnIntended
from upthread.core.history.fork_points import (
    branch_note,
    children_in,
    cut,
    fork_points,
    without_children,
)
from upthread.core.history.model import history_of
from upthread.core.history.repair import Change, repair, told_to_model
from upthread.core.names import Address, key_of, parse_address
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
from upthread.errors import NotFoundError, UpstreamError, UsageError
from upthread.runtime.lease import LeaseRequest, Leases, conversation_lease
from upthread.runtime.record.turn_views import turn_view
from upthread.runtime.turns.conversation import name_workstream


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
    why_replay: str = ""


_Made: TypeAlias = tuple[UpstreamSessionId, str, bool]
"""The session that an agent made, its profile, and whether the agent's command set that."""


class ForkConversation:
    """Branches conversations off. `plan` says what would be done."""

    def __init__(
        self,
        parts: ProjectParts,
        leases: Leases,
        *,
        preparing: Preparing,
        parsed: Callable[[str], Address],
    ) -> None:
        self._store = parts.store
        self._system = parts.system
        self._settings = parts.settings
        self._project_id = parts.project_id
        self._leases = leases
        self._preparing = preparing
        self._parsed = parsed

    async def __call__(self, address: str, into: str, *, at_message: int | None = None) -> Fork:
        """Branch a conversation off after a message, into an address that has none yet.

        Without `at_message`, after the newest one where no turn and no call is open. Raises
        NotFoundError, UsageError for a place that cannot be cut, LeaseHeldError while a turn runs.
        """
        plan = await self.plan(address, into, at_message=at_message)
        source = plan.source.key
        doing = f"fork {source.address}"
        async with (
            self._leases.held(_lease(source, doing)),
            self._leases.held(_lease(plan.target, doing)) as fence,
        ):
            # Again, under both leases: a person may have
            # been shown a plan of what has changed since.
            plan = await self.plan(address, into, at_message=at_message)
            forked, why = await self._forked_by_agent(plan.link)
            return await self._system.in_thread(lambda: self._commit(plan, fence, forked, why))

    async def plan(self, address: str, into: str, *, at_message: int | None = None) -> ForkPlan:
        """Return what the call would do, and do nothing. Raises as it does."""
        return await self._system.in_thread(lambda: self._plan(address, into, at_message))

    def _plan(self, address: str, into: str, at_message: int | None) -> ForkPlan:
        source, to = key_of(self._project_id, self._parsed(address)), parse_address(into)
        self._settings.role(to.role)
        target = key_of(self._project_id, to)
        resolved = self._store.resolve(source)
        if resolved is None:
            raise NotFoundError(
                f"{source.address} has no conversation yet",
                hint=f'start one: upthread tell {shlex.quote(source.address)} "…"',
                address=source.address,
            )
        if self._store.resolve(target) is not None:
            raise UsageError(
                f"{target.address} has a conversation already",
                hint="fork into an address that has none, such as another workstream's",
                address=target.address,
            )
        messages = self._store.messages(resolved.conversation.conversation_id)
        at = at_message or max(fork_points(messages), default=0)
        kept = cut(messages, at)
        repaired = repair(history_of(without_children(kept)))
        # Agents fork a session at its end and nowhere else (ADR 21); half a turn is no end.
        is_at_end = at == len(messages) and self._has_last_turn_ended(resolved.conversation)
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

    def _has_last_turn_ended(self, conversation: Conversation) -> bool:
        (last,) = self._store.turns(conversation.conversation_id, newest=1)
        ended = turn_view(self._store, last.conversation_id, last.turn_id).ended
        return ended is not None and ended.outcome is Outcome.OK

    async def _forked_by_agent(self, link: Link | None) -> tuple[_Made | None, str]:
        """Return the session the agent made, or None and why: then the branch replays."""
        if link is None:
            return None, ""
        opening = self._preparing.open_request(link.agent)
        try:
            async with adapter_for(self._settings, link.agent).open(opening) as connection:
                if not connection.capabilities.can_fork:
                    return None, f"{link.agent} cannot fork a session"
                forked = await connection.fork_session(link.upstream_session_id)
                own = self._preparing.own_sessions
                return (require_session(forked), *own.profile_in(link.agent, connection)), ""
        # The better way and not the only one: without it the branch replays (ADR 21).
        except UpstreamError as error:
            return None, f"{link.agent} did not fork {link.upstream_session_id}: {error}"

    def _commit(self, plan: ForkPlan, fence: Fence, forked: _Made | None, why: str) -> Fork:
        key = plan.target
        conversation = Conversation(
            conversation_id=ConversationId(self._system.new_id("con")),
            key=key,
            generation=1,
            base_name=name_workstream(
                self._store, key.project_id, key.workstream, now_ms=self._system.now_ms
            ),
            opened_at_ms=self._system.now_ms(),
        )
        link = None
        if forked is not None and plan.link is not None:
            session, profile, chose_profile = forked
            link = structs.replace(
                plan.link,
                conversation_id=conversation.conversation_id,
                seq=1,
                upstream_session_id=session,
                opened_because=FORKED,
                opened_at_ms=self._system.now_ms(),
                agent_profile=profile,
                chose_profile=chose_profile,
            )
        turn_id = TurnId(self._system.new_id("trn"))
        copied = _writes(plan, conversation, turn_id, link, now_ms=self._system.now_ms())
        # One commit: a branch that has but a part of its history would be gone on with as if whole.
        self._store.commit((OpenConversation(conversation=conversation), *copied), fences=(fence,))
        return Fork(plan=plan, conversation=conversation, link=link, why_replay=why)


def _writes(
    plan: ForkPlan, conversation: Conversation, turn_id: TurnId, link: Link | None, *, now_ms: int
) -> Sequence[Write]:
    """Return the copied messages as one ended turn, and the link where there is one."""
    conversation_id = conversation.conversation_id
    source = plan.source.key.address
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
    events: tuple[TurnEvent, ...] = (intended, ended)
    return (
        *([OpenLink(link=link)] if link else []),
        OpenTurn(turn_id=turn_id, conversation_id=conversation_id, opened_at_ms=now_ms),
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
        *(
            RecordTurnEvent(
                conversation_id=conversation_id,
                turn_id=turn_id,
                seq=seq,
                event=event,
                recorded_at_ms=now_ms,
            )
            for seq, event in enumerate(events, start=1)
        ),
    )


def _lease(key: ConversationKey, doing: str) -> LeaseRequest:
    name = conversation_lease(key.project_id, key.address)
    return LeaseRequest(name=name, doing=doing)
