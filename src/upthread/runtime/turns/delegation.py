"""One delegation: how its caller asks for it, what they hear meanwhile, and what came of it.

Values only. The options are what every surface says and every layer hands on; a `listener` of None
hears nothing. A request adds what the layers between know: agent, session, settings, leases.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct, field, structs

from upthread.core.decision.freshness import NOTHING_KNOWN, Freshness
from upthread.core.decision.handshake import RESUME, Continuity, because
from upthread.core.decision.words import (
    NOTHING_PRICED,
    RECOGNISED,
    Price,
    Tokens,
    conversation_name,
    cost_in_words,
    decision_line,
)
from upthread.core.events import AgentEvent, AgentsCall, RunEvent, TurnEnded, TurnParked
from upthread.core.roles.reports import Report
from upthread.core.runs.stops import OURS, Source, shortfall
from upthread.core.text import visible_line
from upthread.core.turns.spent_tokens import NOTHING_SPENT
from upthread.core.turns.turn import Task
from upthread.core.types import (
    Conversation,
    ConversationId,
    Durability,
    Fence,
    Holder,
    Lease,
    Outcome,
    ProjectId,
    RunId,
    TurnId,
    UpstreamSessionId,
)

if TYPE_CHECKING:
    from upthread.agents.base import AgentAdapter, AgentConnection, OpenRequest
    from upthread.config import Settings
    from upthread.core.commands import Write
    from upthread.core.names import Address
    from upthread.core.redaction.redactor import Redactor
    from upthread.core.roles.role import Role
    from upthread.core.turns.agent_history import CutOffCall, StoredSession
    from upthread.runtime.permissions import AskPerson

WhenBusy: TypeAlias = Literal["refuse", "wait", "sibling"]


class TellOptions(Struct, frozen=True, kw_only=True):
    """How to tell. `agent` None leaves the choice to client/delegation_setup.py's order.

    A turn that would pass `tokens_max`, counted over all of the conversation, is refused. With
    `is_waiting` a limit of the agent is waited out, as long as it takes, where the agent said until
    when; `when_busy` says what becomes of a turn that has to wait for another one. A turn with a
    `key` is found by it, and is left open when it is cancelled: the next attempt continues it.
    """

    agent: str | None = None
    when_busy: WhenBusy = "refuse"
    is_fresh: bool = False
    is_waiting: bool = False
    tokens_max: int | None = None
    listener: Listener | None = None
    key: str = ""


class RunOptions(Struct, frozen=True, kw_only=True):
    """How to run. `agents` overrides by role, `agent` for all others; so does `continuity`.

    `steps_max` stops after so many steps; None runs to the end. With `is_handed_back` a turn that
    is cancelled is left open, and another process continues it. `is_worktree` gives the workstream
    a working tree of its own, on a branch of its own; it is worked on there from then on.
    """

    agent: str | None = None
    agents: Mapping[str, str] = field(default_factory=dict[str, str])
    continuity: Continuity | None = None
    steps_max: int | None = None
    tokens_max: int | None = None
    is_waiting: bool = False
    is_handed_back: bool = False
    is_worktree: bool = False
    listener: Listener | None = None
    on_event: Callable[[RunEvent], None] = field(default=lambda _: None)
    on_result: Callable[[str, TurnResult], Awaitable[None]] | None = None

    @property
    def names_an_agent(self) -> bool:
        """Whether an agent was named, which need not be the one that is limited."""
        return self.agent is not None or bool(self.agents)


class TurnStarted(Struct, frozen=True, kw_only=True):
    """What a person is told when a session is attached. `turn_number` counts from 1.

    `recognition` is set when an interrupted turn is gone on with: complete, incomplete, absent or
    undecidable, as core/turns/agent_history.py found it.
    """

    conversation: Conversation
    turn_id: TurnId
    decision: str
    reasons: tuple[str, ...]
    agent: str
    upstream_session_id: UpstreamSessionId
    turn_number: int
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
    about: Mapping[str, str] = field(default_factory=dict[str, str])


class TurnResult(Struct, frozen=True, kw_only=True):
    """What became of a turn, also on failure. `report` is None when none could be read.

    `spent` is what this process spent on it, `source` where its agent's last words are. With
    `is_interrupted` the turn is still open, and the next attempt of its durable step continues it.
    """

    conversation: Conversation
    turn_id: TurnId
    decision: str
    reasons: tuple[str, ...]
    upstream_session_id: UpstreamSessionId | None
    outcome: Outcome
    reply: str
    report: Report | None
    parked: TurnParked | None
    detail: str
    reset_at_ms: int | None
    turn_number: int
    is_interrupted: bool = False
    spent: Tokens = NOTHING_SPENT
    source: Source = OURS

    @property
    def is_answered(self) -> bool:
        """Whether the agent did what it was told, as it says, and answered."""
        is_ok = self.parked is None and self.outcome is Outcome.OK
        return is_ok and shortfall(self.outcome, self.detail) is None


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

        return structs.replace(self, notice=notice)


SILENT: Final = Listener()
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
    of_call: Callable[[CutOffCall], StoredSession | None]
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
