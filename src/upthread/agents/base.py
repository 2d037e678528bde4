"""The agent port: what every adapter promises, numbered. The verbs are ACP's.

An adapter translates: its upstream's words into events and outcomes, and nothing else. It never
sees the store, never decides, never makes a new session where it was asked to resume one. The
promises are tests in `upthread.testing.agent_conformance`.

A1   `open` starts the agent in its own process group, or attaching a session does where a process
     belongs to one; leaving the connection's context ends the whole group and what else it
     started, whatever happened, and leaves no process and no listening port. Enter and leave it in
     one task.
A2   An agent that dies, prints garbage, hangs or speaks another protocol version at start raises
     UpstreamError within `start_timeout_s` and the time it takes to end it, with the tail of its
     stderr or the cure in the hint. A command that does not exist raises ConfigError, a working
     directory that does not UpstreamError with outcome `workspace_changed`; nothing was started.
A3   `new_session` returns an id the agent has made durable enough to be resumed.
A4   `resume_session` and `load_session` attach exactly the session asked for. An unknown one raises
     UpstreamError with outcome `missing`; never a new session. Where the agent's error is opaque,
     the adapter confirms by listing, and answers `missing` only when the list does not have it.
     What is said next is added to what that session held, and to no other.
A5   `load_session` returns the history as events in order, every prompt once, with its reply, calls
     and results; `resume_session` returns none.
A6   Every event of a prompt is given to `on_event` in the order it arrived, and awaited, before
     `prompt` returns; a slow `on_event` slows the agent down (back-pressure).
A7   An event carries the upstream session it belongs to; None where the agent did not say.
A8   After `prompt` has returned or raised, no event of it is delivered, in the next prompt neither.
     Late ones are counted in `late_events`.
A9   `prompt` returns an outcome for every way a turn can end. It raises UpstreamError only for a
     second prompt at once. An error of `on_event` or `answer_permission`, and the caller's own
     cancellation, come through as they are and end the agent.
A10  `cancel` makes the running `prompt` return `cancelled`, whatever word the agent has for it, or,
     after `cancel_timeout_s`, ends the agent and makes it return `process_died`. The session stays
     resumable.
A11  A deadline that passes makes `prompt` return `timed_out`; the session stays resumable, and the
     agent is ended only when it does not stop within `cancel_timeout_s`.
A12  Text comes through identical: NUL, lone surrogates, 16 MiB frames. A frame that cannot be read
     is kept raw as UnknownReceived and never ends the turn. What goes past a limit of
     core/quotas.py ends the agent, and the prompt with outcome `unknown` and the limit's name.
A13  A permission request is answered by `answer_permission`, laid together with all that was told
     of its call (core/shell/expected_call.py), and that answer is an event before it is sent. When
     the turn is ended the question is withdrawn, which is an event too. What is refused is not
     done.
A14  An adapter whose `can_hold` is true tells `hold_call` of each call before it runs, whatever the
     agent's own settings allow, sub-agents' calls included. What is answered is an event as in A13.
     One that is held does not run; the turn is ended where the answer says so, else the agent is
     told why and goes on. `hold_call` is asked before a permission is.
A15  A call is announced once, before anything else is told of it, and is told to have ended.
A16  `fork_session` returns a session of its own that holds what the other one held. What is said in
     it from then on stays out of the other.
A17  `list_sessions` returns each session of the working directory once.
A18  Tokens that were read and written, and the end of a limit, are what the agent said of them.

Not numbered, since no suite sees it from outside: a session is attached and prompted with
`limits.model_for` the agent, each time. What `limits` deny wholly is not offered to the model where
the agent lets us say so; `hold_call` stands behind it. Nothing that they allow is passed on: the
agent's own settings are not loosened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from upthread.core.events import AgentEvent, Events, ToolCallAnnounced, ToolCallUpdated
from upthread.core.roles.limits import NO_LIMITS, RoleLimits
from upthread.core.shell.expected_call import Foreseen, Told, foreseen
from upthread.core.types import Environment, JsonValue, Outcome, UpstreamSessionId

if TYPE_CHECKING:
    from upthread.core.redaction.redactor import Redactor

OnEvent: TypeAlias = Callable[[AgentEvent], Awaitable[None]]


class Capabilities(Struct, frozen=True, kw_only=True):
    """What an agent said it can do, after `open`.

    `agent` is what the user calls it, `calls_itself` its own name where it has said one.
    `lists_sub_agents` says that its list has each session there is: one that it lacks is gone.
    `vendor` is whose agent it is where `agent` need not tell: over ACP, empty for an unknown one.
    `store` is whose store knows better than the agent's replay what a session holds, or empty.
    """

    agent: str
    version: str
    can_resume: bool
    can_load: bool
    calls_itself: str = ""
    can_list: bool = False
    lists_sub_agents: bool = False
    can_fork: bool = False
    can_hold: bool = False
    has_sandbox: bool = False
    vendor: str = ""
    store: str = ""


ALLOW_OR_REJECT = (("allow", "allow_once"), ("reject", "reject_once"))
"""What can be answered to an agent whose questions name no options of their own."""


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """The agent asks before it acts. `options` are (option id, kind) as the agent offered them.

    `tellings` is all that was said of the call, this request included; the other fields are that
    laid together (core/shell/expected_call.py). Without any the request is all there is. `tool` is
    the agent's own name of it, empty where it says none. `reads_by_commands`: its agent has no tool
    to read with. `is_sandboxed`: the sandbox of the role's limits is around the call.
    """

    upstream_session_id: UpstreamSessionId
    call_id: str | None
    title: str
    tool_kind: str
    arguments: JsonValue
    locations: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    implied_kinds: frozenset[str] = frozenset()
    tellings: tuple[Told, ...] = ()
    tool: str = ""
    reads_by_commands: bool = False
    is_sandboxed: bool = False

    @property
    def foreseen(self) -> Foreseen:
        """What will happen if it is allowed."""
        return foreseen(self.tellings or (self.told,))

    @property
    def told(self) -> Told:
        """What the request itself says."""
        return told_by(self)


def told_by(said: PermissionRequest | ToolCallAnnounced | ToolCallUpdated) -> Told:
    """Return what a request or an event says of its call."""
    return Told(
        title=said.title,
        tool_kind=said.tool_kind,
        arguments=said.arguments,
        locations=said.locations,
        implied_kinds=frozenset(said.implied_kinds),
    )


class PermissionAnswer(Struct, frozen=True, kw_only=True):
    """`option_id` of the request's options, None to cancel. `answered_by` is for the audit."""

    option_id: str | None
    answered_by: str


class CallAnswer(Struct, frozen=True, kw_only=True):
    """What was answered of a call that is about to run. `answered_by` is for the audit.

    `why` is what the agent is told of one that does not run; the turn may end with it.
    """

    answered_by: str
    # The strict ones: an answer that leaves something out lets nothing run.
    runs: bool = False
    why: str = ""
    ends_turn: bool = True


HoldCall: TypeAlias = Callable[[PermissionRequest], Awaitable[CallAnswer | None]]
"""Asked of a call that is about to run; None to let it run, of which nothing was asked."""

AnswerPermission: TypeAlias = Callable[[PermissionRequest], Awaitable[PermissionAnswer]]

NOBODY = "nobody"


async def nobody_answers(_request: PermissionRequest) -> PermissionAnswer:
    """Allow nothing, because nobody is there who could."""
    return PermissionAnswer(option_id=None, answered_by=NOBODY)


START_TIMEOUT_S = 90.0
"""For how long an agent is waited for at its start.

More than a minute: so long OpenCode (1.18) stands still at the lock of another one that ended while
it installed what its plug-ins need.
"""


class OpenRequest(Struct, frozen=True, kw_only=True):
    """How to start an agent.

    `environment` is added to a small inherited set (HOME, PATH, locale, proxies, the agents' own
    keys); `stderr_path` is a file the agent's stderr is appended to, 0600, None for nowhere. What
    `redactor` takes for a secret does not get there, nor into an error; None lets all through.
    `title` is what a session that is made is called, where the agent lets us say so; empty leaves
    it to the agent. `limits` are those of the role that is told. With
    `ignores_project` the agent is started without the project's own settings, if it can be.
    """

    working_directory: str
    stderr_path: str | None
    answer_permission: AnswerPermission = nobody_answers
    hold_call: HoldCall | None = None
    environment: Environment = {}
    start_timeout_s: float = START_TIMEOUT_S
    prompt_timeout_s: float = 3600.0
    cancel_timeout_s: float = 10.0
    redactor: Redactor | None = None
    title: str = ""
    limits: RoleLimits = NO_LIMITS
    ignores_project: bool = False


class PromptResult(Struct, frozen=True, kw_only=True):
    """How a prompt ended. `detail` is the agent's own word; `reset_at_ms` for rate limits.

    `tokens_used` is what the agent said the turn took, else what it last said the session holds.
    `tokens_in` counts all that the model read, what its cache held included; `tokens_out` what it
    wrote. None where the agent did not say.
    """

    outcome: Outcome
    detail: str = ""
    reset_at_ms: int | None = None
    tokens_used: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None


class AgentProcess(Struct, frozen=True, kw_only=True):
    """The agent's process, so that a successor can end it. Known like a lease's Holder."""

    pid: int
    started_at_ticks: int


class AgentConnection(Protocol):
    """A running agent. Every method may raise UpstreamError; one prompt at a time."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def process(self) -> AgentProcess | None:
        """None for an agent that is no process of ours, and before it has started one (A1)."""
        ...

    def environment(self) -> Environment:
        """Return what the running agent was started with; empty if the system does not tell.

        A wrapper may have changed what upthread gave.
        """
        ...

    @property
    def late_events(self) -> int:
        """How many events came after their prompt had ended (A8)."""
        ...

    async def new_session(self) -> UpstreamSessionId: ...

    async def resume_session(self, session: UpstreamSessionId, /) -> None: ...

    async def load_session(self, session: UpstreamSessionId, /) -> Events: ...

    async def list_sessions(self) -> tuple[UpstreamSessionId, ...]: ...

    async def fork_session(self, session: UpstreamSessionId, /) -> UpstreamSessionId: ...

    async def prompt(
        self, upstream_session_id: UpstreamSessionId, text: str, *, on_event: OnEvent
    ) -> PromptResult: ...

    async def cancel(self, upstream_session_id: UpstreamSessionId) -> None: ...


class AgentAdapter(Protocol):
    """One way to drive one agent."""

    @property
    def agent(self) -> str:
        """The word a user types: `opencode`, `rehearsal`, `acp:…`."""
        ...

    def open(self, request: OpenRequest) -> AbstractAsyncContextManager[AgentConnection]:
        """Start the agent and shake hands (A1, A2)."""
        ...
