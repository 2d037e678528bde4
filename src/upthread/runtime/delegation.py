"""One delegation as its caller sees it: what is asked, what is heard meanwhile, what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from upthread.agents.base import AgentAdapter
from upthread.core.commands import Write
from upthread.core.decision_words import (
    RECOGNISED,
    conversation_name,
    cost_in_words,
    decision_line,
)
from upthread.core.effects import OUTWARD_PATTERNS
from upthread.core.events import AgentEvent, TurnEnded, TurnParked
from upthread.core.freshness import NOTHING_KNOWN, Freshness
from upthread.core.handshake import RESUME, because
from upthread.core.price import NOTHING_PRICED, Price, Tokens
from upthread.core.prior_context import Injection
from upthread.core.prompt import Task
from upthread.core.redaction.redactor import Redactor
from upthread.core.reports import Report
from upthread.core.spending import NOTHING_SPENT
from upthread.core.stops import OURS, Source
from upthread.core.types import (
    Conversation,
    Durability,
    Fence,
    Lease,
    Outcome,
    RunId,
    TurnId,
    UpstreamSessionId,
)
from upthread.core.visible import visible_line
from upthread.runtime.conversation import ClaimRequest
from upthread.runtime.gathering import USUAL_FRESHNESS, FreshnessSettings
from upthread.runtime.permissions import PermissionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """What a person is told when a session is attached. `turn_number` counts from 1.

    `recognition` is set when an interrupted turn is gone on with: complete, incomplete, absent or
    undecidable, as core/recognition.py found it.
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
            RESUME if self.recognition else self.decision,
            visible_line(self.upstream_session_id),
            turn_number=self.turn_number,
            because=RECOGNISED.get(self.recognition) or because(self.reasons, self.freshness),
            cost=cost_in_words(self.price),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something to know that is no part of the work. `about` names it, for programs."""

    kind: str
    text: str
    about: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Where progress goes; called on the event loop, so it must not block.

    `cancelled` is told what became of a turn whose caller gave it up, since that gets no result:
    its ids, and what was said so far.
    """

    started: Callable[[TurnStarted], None] = lambda _: None
    event: Callable[[AgentEvent], None] = lambda _: None
    waiting: Callable[[Lease], None] = lambda _: None
    notice: Callable[[Notice], None] = lambda _: None
    cancelled: Callable[[TurnResult], None] = lambda _: None

    def telling_once(self) -> Listener:
        """Return a listener for many turns that tells the same notice once."""
        told: set[str] = set()

        def notice(each: Notice) -> None:
            if each.text not in told:
                told.add(each.text)
                self.notice(each)

        return replace(self, notice=notice)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenVersion:
    """The version of an agent that was tested; `warning` is empty where another does not differ."""

    version: str
    warning: Callable[[str], str]


def _untested(_calls_itself: str) -> SeenVersion | None:
    return None


def _no_writes(_turn_id: TurnId) -> Sequence[Write]:
    return ()


def _no_writes_parked(_turn_id: TurnId, _parked: TurnParked) -> Sequence[Write]:
    return ()


def _no_follow_up(_turn_id: TurnId, _ended: TurnEnded, _reply: str) -> Sequence[Write]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """How the agent is started; see agents.base.OpenRequest."""

    working_directory: str
    stderr_path: str | None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    start_timeout_s: float = 60.0
    prompt_timeout_s: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TellRequest:
    """One delegation. `at_intent`, `at_end` and `at_park` add a run's writes to the turn's commits.

    `durability` is what a user message and a tool call are committed with.
    `condition` is the digest of what `resume_if` looks at. `injection` says when a session is told
    what was said before; `outward_patterns` which commands and titles reach beyond this machine.
    `redactor` is what the turn is recorded with, None where it is recorded as it is.
    `tokens_max` is what may be spent in all, `spent` gives what was so far, blocking; None: in this
    conversation. `tested` is asked with what the agent calls itself, None for one that nobody
    tested. `is_tree_judged` for a turn whose verdict is passed on the working tree. One that
    `is_handed_back` is not ended when it is cancelled, so that another process goes on with it.
    """

    claim: ClaimRequest
    task: Task
    adapter: AgentAdapter
    open: OpenOptions
    permissions: PermissionPolicy
    listener: Listener = field(default_factory=Listener)
    fences: tuple[Fence, ...] = ()
    run_id: RunId | None = None
    is_fresh_asked: bool = False
    is_tree_judged: bool = False
    tested: Callable[[str], SeenVersion | None] = _untested
    tokens_max: int | None = None
    spent: Callable[[], Tokens] | None = None
    condition: str | None = None
    durability: Durability = Durability.PROCESS
    redactor: Redactor | None = None
    injection: Injection = "auto"
    freshness: FreshnessSettings = USUAL_FRESHNESS
    outward_patterns: tuple[str, ...] = OUTWARD_PATTERNS
    is_handed_back: bool = False
    at_intent: Callable[[TurnId], Sequence[Write]] = _no_writes
    at_end: Callable[[TurnId, TurnEnded, str], Sequence[Write]] = _no_follow_up
    at_park: Callable[[TurnId, TurnParked], Sequence[Write]] = _no_writes_parked


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """What became of a turn, also on failure. `report` is None when none could be read.

    `spent` is what this process spent on it, `source` where its agent's last words are.
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
    spent: Tokens = NOTHING_SPENT
    source: Source = OURS
