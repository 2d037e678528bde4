"""Claiming a conversation: found or minted, leased, and looked at before a turn begins.

One claim, one lease, one turn at a time; a role that writes claims its working tree too. Two
processes that ask for the same address at the same moment meet at the lease, so that exactly one
mints the conversation and its upstream session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from msgspec import Struct, structs

from upthread.core.commands import OpenConversation, OpenWorkstream, RecordDecision, Write
from upthread.core.decision.handshake import (
    REFUSE,
    HandshakeInputs,
    decide,
    in_words,
)
from upthread.core.decision.model import RecordFacts
from upthread.core.names import choose_base_name
from upthread.core.turns.turn import Recognition, TurnView
from upthread.core.types import (
    MAIN_SLOT,
    Conversation,
    ConversationId,
    ConversationKey,
    Decision,
    Fence,
    Link,
    ProjectId,
    TurnId,
)
from upthread.errors import ConflictError, LeaseHeldError, RefusedError
from upthread.runtime.lease import (
    LeaseRequest,
    Leases,
    conversation_lease,
    cure_of,
)
from upthread.runtime.record.turn_views import (
    last_attached,
    main_session_of,
    turn_count,
    views_newest_first,
)
from upthread.runtime.system import System
from upthread.runtime.turns.delegation import TellRequest
from upthread.store.base import Store

SIBLINGS_MAX = 64


class Claim(Struct, frozen=True, kw_only=True):
    """A leased conversation as it stands. `last` is its newest turn, None before any.

    `is_prompted` is whether a prompt of ours ever left for its session. `opens` is what mints the
    conversation, where that is left to the commit of the turn's intent.

    `session_host` is where its session lives, None without one and where nobody asked. `fences` are
    those of the conversation and of the working tree, where the role writes to one.
    `is_of_sub_agent` is whether the session is a sub-agent's, which a plug-in saw begin; False
    where its agent opens such from outside.
    """

    conversation: Conversation
    link: Link | None
    fences: tuple[Fence, ...]
    turns: int
    messages: int
    last_id: TurnId | None
    last: TurnView | None
    is_prompted: bool
    session_host: str | None = None
    is_of_sub_agent: bool = False
    opens: tuple[Write, ...] = ()

    def inputs(self, request: TellRequest) -> HandshakeInputs:
        """Return what the handshake decides on, as far as the claim knows it."""
        # Of a session that a hook saw the host is not on record: it counts as here.
        is_here = self.session_host in {None, request.host}
        facts = RecordFacts(
            conversation_id=self.conversation.conversation_id,
            turns=self.turns,
            link=self.link,
            last=self.last,
            other_host=None if is_here else self.session_host,
        )
        inputs = facts.inputs(
            continuity=request.role.continuity,
            agent=request.agent,
            callers=request.callers,
            depth_max=request.settings.depth_max,
            condition_now=request.condition,
        )
        return structs.replace(
            inputs,
            opens_only_within=self.is_of_sub_agent or request.opens_only_within,
            session_lost=request.session_lost,
            takes_no_session=request.takes_no_session,
        )


class Conversations:
    """Finds, mints and claims conversations."""

    def __init__(self, store: Store, system: System, leases: Leases) -> None:
        self._store = store
        self._system = system
        self._leases = leases

    @asynccontextmanager
    async def claimed(self, request: TellRequest) -> AsyncGenerator[Claim]:
        """Hold a conversation for a block.

        Raises RefusedError for a call that must not be made, LeaseHeldError when it is busy and
        the request neither waits nor opens a sibling, or when another role writes in its tree.
        """
        # Before any lease: a call from inside this very conversation would wait for itself for
        # ever. One from outside of all is in nobody's way, and is looked up under its lease.
        if request.callers or request.settings.depth_max <= 0:
            await self._refuse(request)
        claims: list[Claim] = []

        def claim(key: ConversationKey, *fences: Fence) -> None:
            # Minted under the leases and not before: of many
            # callers at once exactly one does it (ADR 10).
            claims.append(self._open(request, key, fences))

        async with AsyncExitStack() as stack:
            key, fence = await self._lease(request, stack, claim)
            if request.tree is not None:
                await self._claim_tree(request, request.tree, stack, partial(claim, key, fence))
            yield claims[-1]

    async def looked_at_again(self, request: TellRequest, claim: Claim) -> Claim:
        """Return a claim as its conversation stands by now."""
        key = claim.conversation.key
        return await self._system.in_thread(lambda: self._open(request, key, claim.fences))

    async def _lease(
        self, request: TellRequest, stack: AsyncExitStack, claim: Callable[..., None]
    ) -> tuple[ConversationKey, Fence]:
        """Take the conversation's lease, and claim it with that where no tree is to be taken."""
        slot = request.address.slot
        while True:
            key = _key(request, slot)
            lease = LeaseRequest(
                name=conversation_lease(key.project_id, key.address),
                doing=request.doing,
                wait_s=None if request.options.when_busy == "wait" else 0.0,
                on_wait=request.listener.waiting,
                on_taken=None if request.tree else partial(claim, key),
            )
            try:
                return key, await stack.enter_async_context(self._leases.held(lease))
            except LeaseHeldError as error:
                if request.options.when_busy == "sibling" and slot < SIBLINGS_MAX:
                    slot += 1
                    continue
                # Asked once more, so that the refusal is worded
                # with its cure, and kept where it can be.
                await self._refuse(request, holder=error.holder)
                raise

    async def _claim_tree(
        self,
        request: TellRequest,
        tree: str,
        stack: AsyncExitStack,
        claim: Callable[..., None],
    ) -> None:
        name, above = await self._leases.tree_level(tree, request.callers)
        lease = LeaseRequest(
            name=name,
            doing=request.doing,
            wait_s=None if request.is_waiting_for_tree else 0.0,
            on_wait=request.listener.waiting,
            on_taken=lambda inner: claim(*above, inner),
        )
        try:
            await stack.enter_async_context(self._leases.held(lease))
        except LeaseHeldError as error:
            await self._refuse(request, tree_holder=error.holder)
            raise

    async def _refuse(
        self, request: TellRequest, *, holder: str | None = None, tree_holder: str | None = None
    ) -> None:
        """Raise if the handshake refuses; the refusal is kept where the conversation is known."""
        key = _key(request, request.address.slot)
        resolved = await self._system.in_thread(lambda: self._store.resolve(key))
        known = resolved.conversation.conversation_id if resolved else None
        # Of its turns nothing is read yet: whoever is refused must not wait for that.
        inputs = RecordFacts(conversation_id=known or ConversationId("")).inputs(
            continuity=request.role.continuity,
            agent=request.agent,
            holder=holder,
            tree_holder=tree_holder,
            callers=request.callers,
            depth_max=request.settings.depth_max,
        )
        decision = decide(inputs)
        if decision.decision != REFUSE:
            return
        if known:
            await self.keep_refusal(known, decision)
        held_by = holder or tree_holder
        if held_by is not None and decision.reasons[0] in {"busy", "tree_busy"}:
            name = conversation_lease(key.project_id, key.address)
            lease = await self._system.in_thread(lambda: self._store.lease(name))
            raise LeaseHeldError(
                f"{key.address}: {in_words(decision.reasons[0])}, held by {held_by}",
                holder=held_by,
                hint=cure_of(lease, key.address) or decision.hint,
                address=key.address,
                **({"working_directory": request.tree or ""} if tree_holder else {}),
            )
        raise refused(key.address, decision)

    async def keep_refusal(self, conversation_id: ConversationId, decision: Decision) -> None:
        """Keep a decision that leads to no turn."""
        write = self.refusal(conversation_id, decision)
        # Without a fence: most who are refused hold no lease, and it is no part of any turn.
        await self._system.in_thread(lambda: self._store.commit((write,)))

    def refusal(self, conversation_id: ConversationId, decision: Decision) -> RecordDecision:
        """Return the write that keeps a decision that leads to no turn."""
        return RecordDecision(
            conversation_id=conversation_id,
            decision=decision.decision,
            reasons=decision.reasons,
            inputs=decision.inputs,
            decided_at_ms=self._system.now_ms(),
        )

    def _open(self, request: TellRequest, key: ConversationKey, fences: tuple[Fence, ...]) -> Claim:
        """Return a conversation under its lease as it stands, minted where it is new. Blocking."""
        with self._store.moment():
            resolved = self._store.resolve(key)
            conversation = resolved.conversation if resolved else self.mint(key, fences=fences)
            claim = self.claim_of(conversation, resolved.link if resolved else None, fences)
            return structs.replace(
                claim,
                session_host=last_attached(self._store, claim.link).agent_host
                if request.host
                else None,
                is_of_sub_agent=not request.opens_sub_agents
                and bool(main_session_of(self._store, claim.link)),
            )

    def standing(self, key: ConversationKey, fences: tuple[Fence, ...]) -> Claim:
        """Return a conversation as it stands; what mints a new one is in the claim. Blocking."""
        resolved = self._store.resolve(key)
        if resolved is not None:
            return self.claim_of(resolved.conversation, resolved.link, fences)
        conversation, opens = self._opening(key)
        return structs.replace(self.claim_of(conversation, None, fences), opens=opens)

    def _opening(
        self, key: ConversationKey, generation: int = 1
    ) -> tuple[Conversation, tuple[Write, ...]]:
        conversation_id = ConversationId(self._system.new_id("con"))
        now_ms = self._system.now_ms()
        return opening(self._store, key, conversation_id, now_ms=now_ms, generation=generation)

    def claim_of(
        self, conversation: Conversation, link: Link | None, fences: tuple[Fence, ...]
    ) -> Claim:
        """Return a known conversation as it stands, with its open link. Blocking."""
        conversation_id = conversation.conversation_id
        last_id, last = next(views_newest_first(self._store, conversation_id), (None, None))
        return Claim(
            conversation=conversation,
            link=link,
            fences=fences,
            turns=turn_count(self._store, conversation_id, last),
            messages=self._store.message_count(conversation_id),
            last_id=last_id,
            last=last,
            is_prompted=_is_prompted(link, views_newest_first(self._store, conversation_id)),
        )

    def mint(
        self, key: ConversationKey, *, fences: tuple[Fence, ...] = (), generation: int = 1
    ) -> Conversation:
        """Open a conversation under a key, with its workstream's base name. Blocking."""
        while True:
            conversation, opens = self._opening(key, generation)
            try:
                # Fenced, since a caller that was taken over must not open what its successor opens.
                self._store.commit(opens, fences=fences)
            except ConflictError:
                if len(opens) == 1:
                    raise
                continue  # another process named this workstream, or took this name: look again
            return conversation


def name_workstream(
    store: Store, project_id: ProjectId, workstream: str, *, now_ms: Callable[[], int]
) -> str:
    """Return the workstream's base name, given on first use. Blocking.

    Two processes that choose at the same moment do not collide.
    """
    while True:
        base_name, naming = _named(store, project_id, workstream, now_ms=now_ms())
        try:
            if naming:
                store.commit(naming)
        except ConflictError:
            continue  # another process named this workstream, or took this name: look again
        return base_name


def _named(
    store: Store, project_id: ProjectId, workstream: str, *, now_ms: int
) -> tuple[str, tuple[Write, ...]]:
    """Return a workstream's base name, and the write that gives it to a new workstream."""
    known = store.workstream(project_id, workstream)
    if known is not None:
        return known.base_name, ()
    # No two of a project have the same: the store refuses the second one (S11).
    taken = {other.base_name for other in store.workstreams(project_id)}
    base_name = choose_base_name(workstream, taken)
    naming = OpenWorkstream(
        project_id=project_id, workstream=workstream, base_name=base_name, opened_at_ms=now_ms
    )
    return base_name, (naming,)


def opening(
    store: Store,
    key: ConversationKey,
    conversation_id: ConversationId,
    *,
    now_ms: int,
    generation: int = 1,
) -> tuple[Conversation, tuple[Write, ...]]:
    """Return a new conversation and the writes that open it, after its workstream if that is new.

    ConflictError at the commit where another process opened one of the two, or took the base name.
    Blocking.
    """
    base_name, naming = _named(store, key.project_id, key.workstream, now_ms=now_ms)
    conversation = Conversation(
        conversation_id=conversation_id,
        key=key,
        generation=generation,
        base_name=base_name,
        opened_at_ms=now_ms,
    )
    return conversation, (*naming, OpenConversation(conversation=conversation))


def refused(address: str, decision: Decision, *, tokens: str = "") -> RefusedError:
    """Return the error that tells a refusal, with its cure; `tokens` where they are why."""
    words = in_words(decision.reasons[0])
    return RefusedError(
        f"{address} was refused: {words}" + (f": {tokens}" if tokens else ""),
        reasons=decision.reasons,
        hint=decision.hint,
        address=address,
        **({"tokens": tokens} if tokens else {}),
    )


def _is_prompted(link: Link | None, views: Iterable[tuple[TurnId, TurnView]]) -> bool:
    """Look back to the newest turn that prompted the session, or the one that made it."""
    for _, view in views:
        attached = view.attached
        if link is None or attached is None or not view.is_in(link.upstream_session_id):
            continue
        is_absent = view.recognised is Recognition.ABSENT
        if view.sent is not None and view.is_prompted and not is_absent:
            return True
        # Made, and cut off before its first prompt: it still has to be told who it is.
        if attached.how == "new":
            return False
    # Not known that far back: taken for one that was told its role.
    return True


def _key(request: TellRequest, slot: int) -> ConversationKey:
    return ConversationKey(
        project_id=request.project_id,
        workstream=request.address.workstream,
        role=request.address.role,
        # Slot 0 is that of children: they share their key, and no address leads to them.
        slot=max(slot, MAIN_SLOT),
    )
