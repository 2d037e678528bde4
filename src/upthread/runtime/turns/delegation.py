"""One delegation: how its caller asks for it, what they hear meanwhile, and what came of it.

Values first. The options are what every surface says and every layer hands on; a `listener` of None
hears nothing. A request adds what the layers between know: agent, session, settings, leases.

Then the claim: the conversation is found or minted, leased, and looked at before a turn begins. One
claim, one lease, one turn at a time; a role that writes claims its working tree too. Two processes
that ask for the same address at the same moment meet at the lease, so that exactly one mints the
conversation and its upstream session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from upthread.core.commands import OpenConversation, OpenWorkstream, RecordDecision, Write
from upthread.core.decision.freshness import NOTHING_KNOWN, Freshness
from upthread.core.decision.handshake import because, decide, in_words
from upthread.core.decision.model import HandshakeInputs, recorded_inputs
from upthread.core.decision.words import (
    NOTHING_PRICED,
    RECOGNISED,
    REFUSE,
    RESUME,
    Price,
    Tokens,
    conversation_name,
    cost_in_words,
    decision_line,
)
from upthread.core.events import AgentEvent, AgentsCall, RunEvent, TurnEnded, TurnParked
from upthread.core.names import choose_base_name
from upthread.core.roles.reports import Report
from upthread.core.runs.stops import OURS, Source, shortfall
from upthread.core.text import visible_line
from upthread.core.turns.spent_tokens import NOTHING_SPENT
from upthread.core.turns.turn import Recognition, Task, TurnView
from upthread.core.types import (
    MAIN_SLOT,
    Continuity,
    Conversation,
    ConversationId,
    ConversationKey,
    Decision,
    Durability,
    Fence,
    Holder,
    Lease,
    Link,
    Outcome,
    ProjectId,
    RunId,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import ConflictError, LeaseHeldError, RefusedError
from upthread.runtime.lease import LeaseRequest, Leases, conversation_lease, cure_of
from upthread.runtime.record.turn_views import (
    last_attached,
    main_session_of,
    turn_count,
    views_newest_first,
)
from upthread.runtime.system import System
from upthread.store.base import Store

if TYPE_CHECKING:
    from upthread.agents.base import AgentAdapter, AgentConnection, OpenRequest
    from upthread.config import Settings
    from upthread.core.names import Address
    from upthread.core.redaction.redactor import Redactor
    from upthread.core.roles.role import Role
    from upthread.core.turns.agent_history import StoredSession
    from upthread.runtime.permissions import AskPerson

SIBLINGS_MAX = 64

WhenBusy: TypeAlias = Literal["refuse", "wait", "sibling"]


class _Options(Struct, frozen=True, kw_only=True):
    agent: str | None = None
    is_waiting: bool = False
    tokens_max: int | None = None
    listener: Listener | None = None


class TellOptions(_Options, frozen=True, kw_only=True):
    """How to tell. `agent` None leaves the choice to the project's order.

    A turn that would pass `tokens_max`, counted over all of the conversation, is refused. With
    `is_waiting` a limit of the agent is waited out, as long as it takes, where the agent said until
    when; `when_busy` says what becomes of a turn that has to wait for another one. A turn with a
    `key` is found by it, and is left open when it is cancelled: the next attempt continues it.
    `briefing` is kept with the conversation: a new session starts from it, now or later.
    """

    when_busy: WhenBusy = "refuse"
    is_fresh: bool = False
    key: str = ""
    briefing: str = ""


class RunOptions(_Options, frozen=True, kw_only=True):
    """How to run. `agents` overrides by role, `agent` for all others; so does `continuity`.

    `steps_max` stops after so many steps; None runs to the end. With `is_handed_back` a turn that
    is cancelled is left open, and another process continues it. `is_worktree` gives the workstream
    a working tree of its own, on a branch of its own; it is worked on there from then on.
    """

    agents: Mapping[str, str] = field(default_factory=dict[str, str])
    continuity: Continuity | None = None
    steps_max: int | None = None
    is_handed_back: bool = False
    is_worktree: bool = False
    on_event: Callable[[RunEvent], None] = field(default=lambda _: None)
    on_result: Callable[[str, TurnResult], Awaitable[None]] | None = None

    @property
    def names_an_agent(self) -> bool:
        """Whether an agent was named, which need not be the one that is limited."""
        return self.agent is not None or bool(self.agents)


class _OfTurn(Struct, frozen=True, kw_only=True):
    conversation: Conversation
    turn_id: TurnId
    decision: str
    reasons: tuple[str, ...]
    turn_number: int


class TurnStarted(_OfTurn, frozen=True, kw_only=True):
    """What a person is told when a session is attached. `turn_number` counts from 1.

    `recognition` is set when an interrupted turn is gone on with: complete, incomplete, absent or
    undecidable, as core/turns/agent_history.py found it.
    """

    agent: str
    upstream_session_id: UpstreamSessionId
    recognition: str = ""
    price: Price = NOTHING_PRICED
    freshness: Freshness = NOTHING_KNOWN

    @property
    def line(self) -> str:
        """The one line that says which decision was taken, and why when it is not the plain one."""
        said = self.conversation
        return decision_line(
            conversation_name(said.key.address, said.instance_name),
            # Whatever was decided at first, a turn that is gone on with is in its own session.
            RESUME if self.recognition else self.decision,
            visible_line(self.upstream_session_id),
            turn_number=self.turn_number,
            because=RECOGNISED.get(self.recognition) or because(self.reasons, self.freshness),
            cost=cost_in_words(self.price),
        )


class Notice(Struct, frozen=True, kw_only=True):
    """Something to know that is no part of the work. `about` names it, for programs."""

    kind: str
    text: str
    about: Mapping[str, str]


class TurnResult(_OfTurn, frozen=True, kw_only=True):
    """What became of a turn, also on failure. `report` is None when none could be read.

    `spent` is what this process spent on it, `source` where its agent's last words are. With
    `is_interrupted` the turn is still open, and the next attempt of its durable step continues it.
    """

    upstream_session_id: UpstreamSessionId | None
    outcome: Outcome
    reply: str
    report: Report | None
    parked: TurnParked | None
    detail: str
    reset_at_ms: int | None
    is_interrupted: bool = False
    spent: Tokens = NOTHING_SPENT
    source: Source = OURS

    @property
    def is_answered(self) -> bool:
        """Whether the agent did what it was told, as it says, and answered."""
        is_ok = not self.parked and self.outcome is Outcome.OK
        return is_ok and not shortfall(self.outcome, self.detail)


class Listener(Struct, frozen=True, kw_only=True):
    """Where progress goes; called on the event loop, so it must not block.

    `cancelled` is told what became of a turn whose caller gave it up, since that gets no result:
    its ids, and what was said so far. `limited` is told of a turn that is parked until a limit has
    passed, and is waited for.
    """

    started: Callable[[TurnStarted], None] = lambda _: None
    event: Callable[[AgentEvent], None] = lambda _: None
    waiting: Callable[[Lease], None] = lambda _: None
    notice: Callable[[Notice], None] = lambda _: None
    cancelled: Callable[[TurnResult], None] = lambda _: None
    limited: Callable[[TurnResult], None] = lambda _: None

    def telling_once(self) -> Listener:
        """Return a listener for many turns that tells the same notice once."""
        told: set[str] = set()

        def notice(each: Notice) -> None:
            if each.text not in told:
                told.add(each.text)
                self.notice(each)

        return replace(self, notice=notice)


SILENT = Listener()
"""Hears nothing."""


class OwnSessions(Struct, frozen=True, kw_only=True):
    """How the agents' own stores are looked into. Blocking; `stamp` and `read` raise StoreError.

    `is_read` says whether an agent's store is read here. `stamp` gives what a session is known by
    while nobody prompts it, empty where nothing is known of it; `read` gives all of it, None where
    there is none. `profile` gives the variable with the place of an agent's store, empty where that
    is not known, and `profile_without` the same if a session is not there and the given profile
    has it. Both are last given the running agent's environment, empty if it was not seen.
    `read` and `profile` name whose store it is, for example that of `codex` for an agent that is
    configured as `mine` and runs codex-acp. `of_call` gives the session of a call's sub-agent, and
    `version` the agent's version that a session is of, empty where that is not known. `writer`
    gives the process that has a session open in its agent, None where that is not known.
    """

    is_read: Callable[[str], bool]
    profile: Callable[[str, str, Mapping[str, str]], str]
    stamp: Callable[[str, UpstreamSessionId], str]
    profile_without: Callable[[str, UpstreamSessionId, str, Mapping[str, str]], str]
    read: Callable[[str, UpstreamSessionId, str], StoredSession | None]
    of_call: Callable[[AgentsCall], StoredSession | None]
    version: Callable[[str, UpstreamSessionId], str]
    writer: Callable[[str, UpstreamSessionId], int | None]

    def profile_in(self, agent: str, connection: AgentConnection) -> tuple[str, bool]:
        """Return the profile of a running agent, and whether its own command set it."""
        profile_with = partial(self.profile, agent, connection.capabilities.vendor)
        profile = profile_with(connection.environment())
        return profile, profile != profile_with({})


def _no_writes(*_: object) -> Sequence[Write]:
    return ()


class TellRequest(Struct, frozen=True, kw_only=True):
    """One delegation: whom, what, under which conditions, and what else its commits write."""

    project_id: ProjectId
    address: Address
    role: Role
    agent: str
    # None for a call that the agent's own tool makes.
    adapter: AgentAdapter | None
    open: OpenRequest
    task: Task
    settings: Settings
    options: TellOptions = field(default_factory=TellOptions)
    # None where nobody is there to ask.
    ask_person: AskPerson | None = None
    # What the turn is recorded with, None where it is recorded as it is.
    redactor: Redactor | None = None
    # How the session is compared with the record before the prompt leaves.
    own_sessions: OwnSessions
    # Given what the agent calls itself, and its version.
    version_notice: Callable[[str, str], Notice | None] = lambda _calls_itself, _version: None
    # The conversations that this call is made inside of.
    callers: tuple[ConversationId, ...] = ()
    # The working tree that the role writes to, None for a role that only reads.
    tree: str | None = None
    is_waiting_for_tree: bool = False
    # What this host is called where the store is shared; empty: all sessions live here.
    host: str = ""
    # Whether the agent opens a sub-agent's session from outside.
    opens_sub_agents: bool = True
    # The digest of what `resume_if` looks at.
    condition: str | None = None
    # What was spent so far of `tokens_max`, blocking; None: all of this conversation.
    spent: Callable[[], Tokens] | None = None
    # Not ended when it is cancelled, so that another process goes on.
    is_handed_back: bool = False

    # --- of a run's step -------------------------------------------------------------------------
    run_id: RunId | None = None
    fences: tuple[Fence, ...] = ()
    # Whether a verdict is passed on the working tree.
    is_tree_judged: bool = False
    # In the turn's own commits: a crash between two would leave a run that does not know its turn.
    at_intent: Callable[[TurnId], Sequence[Write]] = _no_writes
    at_end: Callable[[TurnId, TurnEnded, str], Sequence[Write]] = _no_writes
    at_park: Callable[[TurnId, TurnParked], Sequence[Write]] = _no_writes

    # --- of a call that the agent's own tool makes -----------------------------------------------
    call: AgentsCall | None = None
    # The agent's process, for which the call's lease is held.
    holder: Holder | None = None
    # Whether the tool cannot resume a session.
    takes_no_session: bool = False
    # What the agent says of the session that it was asked for.
    opens_only_within: bool = False
    session_lost: Outcome | None = None
    # Sessions that the agent itself is at work in.
    busy: frozenset[str] = frozenset()
    # Words how the model writes to a sub-agent of its own main session.
    reach: Callable[[str], str] | None = None
    # Reasons beside those of the handshake.
    further: tuple[str, ...] = ()

    @property
    def durability(self) -> Durability:
        """What a user message and a tool call are committed with."""
        is_strict = self.settings.durability == "strict"
        return Durability.SYNCED if is_strict else Durability.PROCESS

    @property
    def doing(self) -> str:
        """What the lease says that its holder does."""
        return f"tell {self.address.workstream}/{self.address.role}"

    @property
    def listener(self) -> Listener:
        """Who hears how it goes."""
        return self.options.listener or SILENT


# --- the claim ------------------------------------------------------------------------------------


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
        return recorded_inputs(
            self.conversation.conversation_id,
            self.link,
            self.last,
            turns=self.turns,
            other_host=None if is_here else self.session_host,
            continuity=request.role.continuity,
            agent=request.agent,
            callers=request.callers,
            depth_max=request.settings.depth_max,
            condition_now=request.condition,
            opens_only_within=self.is_of_sub_agent or request.opens_only_within,
            session_lost=request.session_lost,
            takes_no_session=request.takes_no_session,
        )


class Conversations(Struct, frozen=True):
    """Finds, mints and claims conversations."""

    store: Store
    system: System
    leases: Leases

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
        return await self.system.in_thread(lambda: self._open(request, key, claim.fences))

    async def _lease(
        self, request: TellRequest, stack: AsyncExitStack, claim: Callable[..., None]
    ) -> tuple[ConversationKey, Fence]:
        """Take the conversation's lease, and claim it with that where no tree is to be taken."""
        slot = request.address.slot
        while True:
            key = _key(request, slot)
            lease = LeaseRequest(
                name=conversation_lease(key),
                doing=request.doing,
                wait_s=None if request.options.when_busy == "wait" else 0.0,
                on_wait=request.listener.waiting,
                on_taken=None if request.tree else partial(claim, key),
            )
            try:
                return key, await stack.enter_async_context(self.leases.held(lease))
            except LeaseHeldError as error:
                if request.options.when_busy == "sibling" and slot < SIBLINGS_MAX:
                    slot += 1
                    continue
                # Asked once more, so that the refusal is worded
                # with its cure, and kept where it can be.
                await self._refuse(request, holder=error.holder)
                raise

    async def _claim_tree(
        self, request: TellRequest, tree: str, stack: AsyncExitStack, claim: Callable[..., None]
    ) -> None:
        name, above = await self.leases.tree_level(tree, request.callers)
        lease = LeaseRequest(
            name=name,
            doing=request.doing,
            wait_s=None if request.is_waiting_for_tree else 0.0,
            on_wait=request.listener.waiting,
            on_taken=lambda inner: claim(*above, inner),
        )
        try:
            await stack.enter_async_context(self.leases.held(lease))
        except LeaseHeldError as error:
            await self._refuse(request, tree_holder=error.holder)
            raise

    async def _refuse(
        self, request: TellRequest, *, holder: str | None = None, tree_holder: str | None = None
    ) -> None:
        """Raise if the handshake refuses; the refusal is kept where the conversation is known."""
        key = _key(request, request.address.slot)
        resolved = await self.system.in_thread(lambda: self.store.resolve(key))
        known = resolved.conversation.conversation_id if resolved else None
        # Of its turns nothing is read yet: whoever is refused must not wait for that.
        inputs = HandshakeInputs(
            conversation_id=known or ConversationId(""),
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
            name = conversation_lease(key)
            lease = await self.system.in_thread(lambda: self.store.lease(name))
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
        await self.system.in_thread(lambda: self.store.commit((write,)))

    def refusal(self, conversation_id: ConversationId, decision: Decision) -> RecordDecision:
        """Return the write that keeps a decision that leads to no turn."""
        return RecordDecision(
            conversation_id=conversation_id,
            decision=decision.decision,
            reasons=decision.reasons,
            inputs=decision.inputs,
            decided_at_ms=self.system.now_ms(),
        )

    def _open(self, request: TellRequest, key: ConversationKey, fences: tuple[Fence, ...]) -> Claim:
        """Return a conversation under its lease as it stands, minted where it is new. Blocking."""
        with self.store.moment():
            resolved = self.store.resolve(key)
            conversation = resolved.conversation if resolved else self.mint(key, fences=fences)
            claim = self.claim_of(conversation, resolved.link if resolved else None, fences)
            return replace(
                claim,
                session_host=last_attached(self.store, claim.link).agent_host
                if request.host
                else None,
                is_of_sub_agent=not request.opens_sub_agents
                and bool(main_session_of(self.store, claim.link)),
            )

    def standing(self, key: ConversationKey, fences: tuple[Fence, ...] = ()) -> Claim:
        """Return a conversation as it stands; what mints a new one is in the claim. Blocking."""
        resolved = self.store.resolve(key)
        if resolved:
            return self.claim_of(resolved.conversation, resolved.link, fences)
        conversation, opens = self.opening(key)
        return replace(self.claim_of(conversation, None, fences), opens=opens)

    def opening(
        self,
        key: ConversationKey,
        conversation_id: ConversationId | None = None,
        *,
        generation: int = 1,
    ) -> tuple[Conversation, tuple[Write, ...]]:
        """Return a new conversation and what opens it, after its workstream if that is new.

        ConflictError at the commit where another process opened one of the two, or took the base
        name. Blocking.
        """
        now_ms = self.system.now_ms()
        base_name, naming = _named(self.store, key.project_id, key.workstream, now_ms=now_ms)
        conversation = Conversation(
            conversation_id=conversation_id or ConversationId(self.system.new_id("con")),
            key=key,
            generation=generation,
            base_name=base_name,
            opened_at_ms=now_ms,
        )
        return conversation, (*naming, OpenConversation(conversation=conversation))

    def claim_of(
        self, conversation: Conversation, link: Link | None, fences: tuple[Fence, ...] = ()
    ) -> Claim:
        """Return a known conversation as it stands, with its open link. Blocking."""
        conversation_id = conversation.conversation_id
        last_id, last = next(views_newest_first(self.store, conversation_id), (None, None))
        return Claim(
            conversation=conversation,
            link=link,
            fences=fences,
            turns=turn_count(self.store, conversation_id, last),
            messages=self.store.message_count(conversation_id),
            last_id=last_id,
            last=last,
            is_prompted=_is_prompted(link, views_newest_first(self.store, conversation_id)),
        )

    def mint(
        self, key: ConversationKey, *, fences: tuple[Fence, ...] = (), generation: int = 1
    ) -> Conversation:
        """Open a conversation under a key, with its workstream's base name. Blocking."""
        while True:
            conversation, opens = self.opening(key, generation=generation)
            try:
                # Fenced, since a caller that was taken over must not open what its successor opens.
                self.store.commit(opens, fences=fences)
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
    if known:
        return known.base_name, ()
    # No two of a project have the same: the store refuses the second one (S11).
    taken = {other.base_name for other in store.workstreams(project_id)}
    base_name = choose_base_name(workstream, taken)
    naming = OpenWorkstream(
        project_id=project_id, workstream=workstream, base_name=base_name, opened_at_ms=now_ms
    )
    return base_name, (naming,)


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
        if not link or not attached or not view.is_in(link.upstream_session_id):
            continue
        is_absent = view.recognised is Recognition.ABSENT
        if view.sent and view.is_prompted and not is_absent:
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
