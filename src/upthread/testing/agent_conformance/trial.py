"""What an agent under test declares, how a promise is run on it, and how the outcome is shown."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import anyio
from msgspec import Struct

from upthread.agents.base import (
    START_TIMEOUT_S,
    AgentAdapter,
    AgentConnection,
    OpenRequest,
    PermissionAnswer,
    PermissionRequest,
    PromptResult,
)
from upthread.core.events import AgentEvent, TextReceived, UserTextReplayed
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.testing.store_conformance.backend import Verdict

CANCEL_TIMEOUT_S = 10.0
PATIENCE_S = 30.0
"""How much longer than it may take something is waited for, until the promise is broken."""

Returned = TypeVar("Returned")
Event = TypeVar("Event", bound=AgentEvent)


class AbsentError(Exception):
    """The agent cannot show this promise: it lacks the capability."""


class OwnError(Exception):
    """Raised by the caller while an agent runs."""


class AgentUnderTest(Struct, frozen=True, kw_only=True):
    """An agent and how it is provoked. Empty or None: it cannot be.

    `environment` gives the variables for a trial in a directory; they must keep what the agent
    stores below it. `bad_starts` are adapters that fail at start, by what they do wrong; `opaque`
    are more variables that make the agent's errors say nothing. The rest are prompts: `pieces` a
    prompt and the text its reply arrives in pieces with, `odd_text` a prompt and a text with
    characters that get lost easily, `outcomes` a prompt for each outcome it can be brought to,
    `permission` one that asks before it acts, `leaves` the file of the working directory that it
    makes once it may, `deaf` one that ignores a cancel, `late_words` what `late` says too late,
    `child_words` what the sub-agent of `child` says, `resets` one that meets a limit whose end is
    told, `usage` one with the tokens that are told to have been read and written, None where they
    are not told, `large` one with the long text of its reply.
    """

    name: str
    adapter: AgentAdapter
    environment: Callable[[Path], Mapping[str, str]] = lambda _: {}
    plain: str = "Say hello."
    unknown_session: str = "ses_0000000000000000000000"
    start_timeout_s: float = START_TIMEOUT_S
    bad_starts: Mapping[str, AgentAdapter] = {}
    opaque: Mapping[str, str] = {}
    outcomes: Mapping[Outcome, str] = {}
    pieces: tuple[str, str] | None = None
    odd_text: tuple[str, str] | None = None
    hang: str = ""
    deaf: str = ""
    late: str = ""
    late_words: str = ""
    unstamped: str = ""
    unknown_update: str = ""
    garbage: str = ""
    permission: str = ""
    leaves: str = ""
    child: str = ""
    child_words: str = ""
    resets: str = ""
    usage: tuple[str, int | None, int | None] | None = None
    large: tuple[str, str] | None = None


class Recorded(list[AgentEvent]):
    """An `on_event` that keeps what it is given."""

    async def __call__(self, event: AgentEvent) -> None:
        self.append(event)

    @property
    def text(self) -> str:
        """All that the agent said, whoever it was."""
        return "".join(event.text for event in self.of(TextReceived))

    def of(self, kind: type[Event]) -> list[Event]:
        """All of one kind, in order."""
        return [event for event in self if isinstance(event, kind)]


class Prompted(NamedTuple):
    """A new session after its first prompt."""

    session: UpstreamSessionId
    result: PromptResult
    events: Recorded


class Trial:
    """One promise on trial, in a directory of its own."""

    def __init__(self, agent: AgentUnderTest, place: Path) -> None:
        self.agent = agent
        self.work = place / "work"
        self.work.mkdir()
        self.asked: list[PermissionRequest] = []
        self.request = OpenRequest(
            working_directory=str(self.work),
            stderr_path=str(place / "log" / "stderr"),
            answer_permission=self.allow,
            environment=dict(agent.environment(place)),
            start_timeout_s=agent.start_timeout_s,
            cancel_timeout_s=CANCEL_TIMEOUT_S,
        )

    async def allow(self, request: PermissionRequest) -> PermissionAnswer:
        """Answer a permission request with the first option that allows it once."""
        return self.answer(request, "allow_once", "the conformance suite")

    def answer(self, request: PermissionRequest, kind: str, answered_by: str) -> PermissionAnswer:
        """Answer a permission request with the first option of a kind."""
        self.asked.append(request)
        option = next(name for name, offered in request.options if offered == kind)
        return PermissionAnswer(option_id=option, answered_by=answered_by)

    @asynccontextmanager
    async def opened(self, request: OpenRequest | None = None) -> AsyncGenerator[AgentConnection]:
        """Open the agent as declared, or with another request."""
        async with self.agent.adapter.open(request or self.request) as connection:
            yield connection

    async def prompted(self, prompt: str, request: OpenRequest | None = None) -> Prompted:
        """Prompt a new session, and leave its agent."""
        assert prompt, "the agent can be provoked so"
        events = Recorded()
        async with self.opened(request) as connection:
            session = await connection.new_session()
            result = await connection.prompt(session, prompt, on_event=events)
        return Prompted(session, result, events)

    async def session_told(self, *prompts: str) -> UpstreamSessionId:
        """Return a session that holds these prompts; its agent is gone."""
        async with self.opened() as connection:
            session = await connection.new_session()
            for prompt in prompts:
                await tell(connection, session, prompt)
        return session

    async def goes_on(self, session: UpstreamSessionId) -> None:
        """Assert that a session is there and answers, whatever happened in it."""
        async with self.opened() as connection:
            await attach(connection, session)
            await tell(connection, session, self.agent.plain)

    def numbered(self, number: int) -> str:
        """Return a plain prompt that is no other."""
        return f"Number {number}. {self.agent.plain}"

    @property
    def has_left(self) -> bool:
        """Whether the file is there that `permission` makes."""
        return (self.work / self.agent.leaves).exists()


async def tell(
    connection: AgentConnection, session: UpstreamSessionId, prompt: str
) -> PromptResult:
    """Prompt a session with something it answers."""
    result = await connection.prompt(session, prompt, on_event=Recorded())
    assert result.outcome is Outcome.OK, result
    return result


async def in_time(work: Awaitable[Returned], *, within_s: float, what: str) -> Returned:
    """Return what comes of it; AssertionError where it takes much longer than it may."""
    with anyio.move_on_after(within_s + PATIENCE_S):
        return await work
    raise AssertionError(f"{what} took longer than {within_s + PATIENCE_S:g} s")


def require(connection: AgentConnection, capability: str) -> None:
    """Raise AbsentError where the agent lacks a capability, for example `load`."""
    if not getattr(connection.capabilities, f"can_{capability}"):
        raise AbsentError(f"it cannot {capability}")


async def attach(connection: AgentConnection, session: UpstreamSessionId) -> None:
    """Attach a session by whatever way the agent has."""
    if connection.capabilities.can_resume:
        await connection.resume_session(session)
    elif connection.capabilities.can_load:
        await connection.load_session(session)
    else:
        raise AbsentError("it can neither resume nor load")


async def refusal_of(attaching: Awaitable[object]) -> UpstreamError:
    """Return the error an attach ends with; AssertionError when it succeeds."""
    try:
        await attaching
    except UpstreamError as error:
        return error
    raise AssertionError("an attach that had to fail succeeded")


def said_by_user(events: Iterable[AgentEvent]) -> str:
    """Return all that the user said in a history."""
    return "\n".join(event.text for event in events if isinstance(event, UserTextReplayed))


def prompts_of(events: Iterable[AgentEvent], *sought: str) -> list[str]:
    """Return which of the prompts sought a history holds, in its order, as often as it does."""
    said = (event.text for event in events if isinstance(event, UserTextReplayed))
    return [prompt for text in said for prompt in sought for _ in range(text.count(prompt))]


Check = Callable[[Trial], Awaitable[None]]


class Promise(Struct, frozen=True, kw_only=True):
    """One side of a numbered promise. `needs` names the provocation it takes, "" for none."""

    number: str
    check: Check
    needs: str = ""

    @property
    def name(self) -> str:
        """`A10_cancel_ends_the_turn`."""
        return f"{self.number}_{getattr(self.check, '__name__', '')}"

    async def run(self, agent: AgentUnderTest, place: Path) -> Verdict:
        """Run it in an empty directory. AssertionError: the promise is broken."""
        if self.needs and not getattr(agent, self.needs):
            return Verdict.ABSENT
        try:
            await self.check(Trial(agent, place))
        except AbsentError:
            return Verdict.ABSENT
        return Verdict.KEPT


def promises(table: Mapping[str, Mapping[Check, str]]) -> tuple[Promise, ...]:
    """Return promises from their numbers, checks, and what each check needs."""
    return tuple(
        Promise(number=number, check=check, needs=needs)
        for number, checks in table.items()
        for check, needs in checks.items()
    )
