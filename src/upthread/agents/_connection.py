"""A running agent, and a connection to it: one prompt at a time, its limits, and how it may fail.

An agent may have ended, be silent for too long, or say no. Each error names the agent, what was
asked of it and the session, and ends with what the agent last wrote to stderr. A question in JSON
waits for its answer by its number, as JSON-RPC has it. Each protocol has words of its own around
that, which stand with its adapter.

A connection translates and never decides. `Connection` is below all of them. `ServerConnection` is
below those whose agent is a server that tells of all its sessions in one stream: what belongs to a
prompt is then said by a turn, which is fed with what the server tells.
"""

import itertools
import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from uuid import UUID

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field
from msgspec.structs import replace

from upthread.agent_stores.homes import settings_of
from upthread.agents._json_lines import Unreadable, read_json, write_frame
from upthread.agents._process import ChildProcess, ChildStart
from upthread.agents._prompt import Action, RunningPrompt, ask_to_hold
from upthread.agents.base import (
    AgentConnection,
    AgentProcess,
    CallAnswer,
    OnEvent,
    OpenRequest,
    PermissionRequest,
    PromptResult,
)
from upthread.boundary.files import read_start
from upthread.core.agents import Agent
from upthread.core.codec import AnyJson, member, object_at
from upthread.core.decision.rollover import STDERR_END
from upthread.core.events import AgentEvent
from upthread.core.runs.stops import NOT_ANSWERED
from upthread.core.text import command
from upthread.core.types import Environment, Outcome, UpstreamSessionId
from upthread.errors import ConfigError, QuotaExceededError, UpstreamError

EXIT_CODE_PATIENCE_S = 0.5
"""How long an agent that has closed its side may take to exit by itself."""

UNREADABLE_SHOWN_CHARACTERS = 200


class RefusedByAgentError(UpstreamError):
    """The agent answered with an error. `is_certain` False: confirm `missing` by listing."""

    is_certain: bool = False
    said: str = ""
    """The agent's own words, without ours around them."""


class RunningAgent:
    """An agent that is spoken to, `timeout_s` being its patience for whatever is no prompt.

    `violation` is the limit it went past where we stopped reading. What an agent has in place of an
    `output`, and what it is to speak, are words of its kind.
    """

    closes: ClassVar = "output"
    speaks: ClassVar = "JSON"

    def __init__(self, child: ChildProcess, *, agent: str, timeout_s: float) -> None:
        self.child = child
        self.agent = agent
        self.timeout_s = timeout_s
        self.violation: QuotaExceededError | None = None
        self._first_unreadable = ""

    def note_unreadable(self, raw: object) -> None:
        """Remember the first that was not what the agent should speak."""
        self._first_unreadable = self._first_unreadable or str(raw)[:UNREADABLE_SHOWN_CHARACTERS]

    def last_words(self) -> str:
        """Return what it last wrote to stderr, and what on its stdout was not what it speaks."""
        tail, first = self.child.tail_of_stderr(), self._first_unreadable
        # A program that waits for a person's answer ends its question without a line feed.
        rest = self.child.unfinished_line.decode("utf-8", "replace").strip()
        if not rest.startswith("{"):
            first = first or rest[:UNREADABLE_SHOWN_CHARACTERS]
        said = f"{STDERR_END}{tail}" if tail else "it wrote nothing to stderr"
        held = f"; its stdout held what is not {self.speaks}, first: {first}" if first else ""
        return said + held

    async def died(self, asked: str, *, when: str = "during") -> UpstreamError:
        """End what is left of an agent that says nothing more, and return the error that tells it.

        It has EXIT_CODE_PATIENCE_S seconds to exit by itself. A limit that it went past is returned
        as it is.
        """
        # We stopped reading ourselves: its exit code would only tell how we ended it.
        if self.violation is not None:
            await self.child.stop()
            return self.violation
        # Asked before it is ended: from then on the code is that of our own signal.
        with anyio.move_on_after(EXIT_CODE_PATIENCE_S):
            await self.child.wait()
        exit_code = self.child.exit_code
        await self.child.stop()
        error = UpstreamError(
            f"{self.agent} {how_it_ended(exit_code, closed=self.closes)}"
            f"{self.child.fault_of_home} {when} {asked}",
            outcome=Outcome.PROCESS_DIED,
            hint=self.last_words(),
            pid=str(self.child.pid),
        )
        # Such an agent is started once more; one that exits by itself would do so again.
        error.was_killed = exit_code is not None and exit_code < 0
        return error

    def timed_out(self, asked: str, *, session: str = "") -> UpstreamError:
        """Return the error for an agent that has not answered in time."""
        about = f" for session {session}" if session else ""
        error = UpstreamError(
            f"{self.agent} {NOT_ANSWERED} {asked}{about} within {self.timeout_s:g} s",
            outcome=Outcome.TIMED_OUT,
            hint=self.last_words(),
        )
        return _about(session, error)

    def refused(
        self, asked: str, said: str, *, outcome: Outcome, session: str = "", hint: str = ""
    ) -> RefusedByAgentError:
        """Return the error for an agent that said no, in its own words; `hint` where one helps."""
        about = f" for session {session}" if session else ""
        error = RefusedByAgentError(
            f"{self.agent} refused {asked}{about}: {said}",
            outcome=outcome,
            hint=hint or self.last_words(),
        )
        _about(session, error)
        return error

    # --- sessions it cannot have meant ---------------------------------------------------------

    def session_named(self, session: object, asked: str) -> UpstreamSessionId:
        """Return the session that an answer names. Raises UpstreamError where it names none."""
        if not isinstance(session, str) or not session:
            raise UpstreamError(
                f"{self.agent} answered {asked} without a session id",
                outcome=Outcome.UNKNOWN,
                hint="nothing was recorded",
            )
        return UpstreamSessionId(session)

    def fork_named(
        self, forked: object, session: UpstreamSessionId, asked: str
    ) -> UpstreamSessionId:
        """Return the session that a fork made, as `session_named`; it is another one (A16)."""
        made = self.session_named(forked, asked)
        if made == session:
            raise UpstreamError(
                f"{self.agent} answered the fork of session {made} with that session",
                outcome=Outcome.UNKNOWN,
                hint="start a fresh session with a briefing instead",
                upstream_session_id=made,
            )
        return made

    def opened_another(self, returned: object, session: UpstreamSessionId) -> UpstreamError:
        """Return the error for an answer about another session than the one asked for (A4)."""
        return UpstreamError(
            f"{self.agent} answered with session {returned} when asked for session {session}",
            outcome=Outcome.UNKNOWN,
            hint="it was not used",
            upstream_session_id=session,
        )


def _about(session: str, error: UpstreamError) -> UpstreamError:
    if session:
        error.ids["upstream_session_id"] = session
    return error


def is_uuid(session: str) -> bool:
    """Return whether a session's id has the form that Claude Code and Codex give theirs."""
    try:
        # As text: `UUID` also takes capitals, braces and `urn:uuid:`.
        return str(UUID(session)) == session
    except ValueError:
        return False


def how_it_ended(exit_code: int | None, *, closed: str = RunningAgent.closes) -> str:
    """Return in words how a child ended; `exit_code` None where it had not exited."""
    if exit_code is None:
        return f"closed its {closed} without exiting and was ended"
    if exit_code < 0:
        return f"was ended by signal {-exit_code}"
    return f"exited with code {exit_code}"


# --- one that speaks JSON, a message a line -------------------------------------------------------


class _Question:
    def __init__(self) -> None:
        self.answer: AnyJson | None = None
        self.is_over = anyio.Event()


class Questions:
    """What was asked on one connection. `has_ended` is set once no answer will come any more."""

    def __init__(self) -> None:
        self.has_ended = anyio.Event()
        self._numbers = itertools.count()
        self._open: dict[object, _Question] = {}

    async def ask(self, send: Callable[[int], Awaitable[None]]) -> AnyJson | None:
        """Send a question under a number of its own; returns its answer, None if none will come."""
        if self.has_ended.is_set():
            return None
        number = next(self._numbers)
        question = self._open[number] = _Question()
        try:
            await send(number)
            # It may have ended while the question left.
            if not self.has_ended.is_set():
                await question.is_over.wait()
        finally:
            self._open.pop(number, None)
        return question.answer

    def answer(self, number: object, answer: AnyJson) -> None:
        """Hand an answer to whoever asked; the first counts. Nobody may wait for it any more."""
        question = self._open.pop(number, None)
        if question is not None:
            question.answer = answer
            question.is_over.set()

    def end(self) -> None:
        """Let nobody wait any more."""
        self.has_ended.set()
        for question in self._open.values():
            question.is_over.set()


class JsonLines(RunningAgent, ABC):
    """A running agent that speaks JSON on its pipes. `read_all` serves it, until its output ends.

    Messages are handed on and awaited before the next line is read, so that a full pipe stops an
    agent that is faster than we are. `has_ended` is set when there will be no more.
    """

    def __init__(self, child: ChildProcess, *, agent: str, timeout_s: float) -> None:
        super().__init__(child, agent=agent, timeout_s=timeout_s)
        self._questions = Questions()
        self.has_ended = self._questions.has_ended

    @abstractmethod
    async def _take(self, message: object) -> None:
        """Hand one message on, an answer by `_questions`."""

    async def read_all(self) -> None:
        """Hand on every message until there will be no more."""
        try:
            while (line := await self.child.read_line()) is not None:
                if not line.strip():
                    continue
                message = read_json(line)
                if isinstance(message, Unreadable):
                    self.note_unreadable(message.raw)
                await self._take(message)
        except QuotaExceededError as violation:
            self.violation = violation
            # Past a limit it is ended, and what it had said before is kept (A12, ADR 63).
            await self.child.stop()
        finally:
            # Whoever waits is woken without an answer, and says how it ended.
            self._questions.end()

    async def send(self, message: AnyJson) -> None:
        """Queue a message; a dead agent eats it."""
        await self.child.write_line(write_frame(message))

    async def _answer_to(
        self, asked: str, send: Callable[[int], Awaitable[None]], *, session: str = ""
    ) -> AnyJson:
        """Ask within the agent's patience. Raises UpstreamError when it does not answer."""
        try:
            with anyio.fail_after(self.timeout_s):
                answer = await self._questions.ask(send)
        except TimeoutError as error:
            raise self.timed_out(asked, session=session) from error
        if answer is None:
            raise await self.died(asked)
        return answer


# --- what is started, and what OpenCode must not find there ---------------------------------------


PROMPT_RUNNING_HINT = "one prompt at a time on one connection; open another"

LEAVE_ANSWERED_S = 0.5
LEAVE_WRITTEN_S = 0.05
"""How long a last cancel gets before an agent that nobody waits for is ended: to be answered, and
to leave where nobody answers it. A line on a pipe needs no more than to be written."""

SETTINGS_BYTES_MAX = 1024 * 1024

_IGNORING = {
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    # Also the person's own skills of Claude Code, which OpenCode cannot be given without these.
    "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
}
"""Set for every agent, because OpenCode (1.18.33) may be driven over ACP under any name."""


def start_of(
    request: OpenRequest,
    command: Sequence[str],
    environment: Environment,
    *,
    ends_at_eof: bool = True,
    is_opencode: bool = False,
) -> ChildStart:
    """Return the start of an agent's process as it is asked for, with a whole `environment`.

    OpenCode (1.18.33) does not start in the project, because its runtime would run the code that a
    `tsconfig.json` there names.
    """
    return ChildStart(
        command=command,
        working_directory=request.working_directory,
        stderr_path=request.stderr_path,
        redactor=request.redactor,
        environment={**environment, **(_IGNORING if request.ignores_project else {})},
        ends_at_eof=ends_at_eof,
        starts_in=str(Path(__file__).parent) if is_opencode else "",
    )


def require_usable(request: OpenRequest, environment: Environment) -> None:
    """Raise ConfigError for what OpenCode would fail with, or must not run. Blocking."""
    _require_no_plugins(request, environment)
    ignoring = _IGNORING if request.ignores_project else {}
    for where in unusable_names(request.working_directory, {**environment, **ignoring}):
        raise ConfigError(f"{where}: {UNUSABLE}", hint=RENAME)


UNUSABLE = "OpenCode fails each prompt while it is there: its name is JavaScript's own"
RENAME = "rename it"

_OWN_NAMES = frozenset(
    """
    constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf
    __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__
    """.split()
)
"""Properties of each object of JavaScript: an agent, provider or model of such a name fails each
prompt, a command, skill or MCP server does not (1.18.33)."""

_CONFIGS = ("opencode.json", "opencode.jsonc")
_NOT_JSON = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
"""A text, which stays, or a comment or comma that JSON does not have."""
_NAME = re.compile(r"""---\s*\n(?:(?!---).*\n)*?name:[ \t]*["']?([\w-]+)""")


def unusable_names(working_directory: str, environment: Environment) -> Iterator[str]:
    """Yield each file or key that OpenCode (1.18.33) fails with by its name. Blocking."""
    home, here = Path(environment.get("HOME") or "/"), Path(os.path.realpath(working_directory))
    own = settings_of("opencode", environment)
    up = [here, *here.parents]
    # Up to the root of the repository; without one to that of the disk.
    up = up[
        : 1 + next((n for n, place in enumerate(up) if os.path.lexists(place / ".git")), len(up))
    ]
    if environment.get("OPENCODE_DISABLE_PROJECT_CONFIG") in {"1", "true"}:
        up = []
    given = Path(environment.get("OPENCODE_CONFIG_DIR") or own)
    folders = dict.fromkeys((own, given, home / ".opencode", *(each / ".opencode" for each in up)))
    places = (*folders, *(place for place in up if place not in folders))
    configs = [place / name for place in places for name in ("config.json", *_CONFIGS)]
    for config in (*configs, Path(environment.get("OPENCODE_CONFIG", ""))):
        for key in _unusable_keys(_text_of(config)):
            yield f"the key {key} in {config}"
    for key in _unusable_keys(environment.get("OPENCODE_CONFIG_CONTENT", "")):
        yield f"the key {key} in OPENCODE_CONFIG_CONTENT"
    patterns = ("agent/**/*.md", "agents/**/*.md", "mode/*.md", "modes/*.md")
    for folder in folders:
        readable = patterns if os.access(folder, os.R_OK | os.X_OK) else ()
        for file in (file for pattern in readable for file in folder.glob(pattern)):
            named = _NAME.match(_text_of(file))
            # Of a file in a folder below, that folder is a part of the name.
            stem = file.stem if file.parent.parent == folder else ""
            if (named[1] if named else stem) in _OWN_NAMES:
                yield str(file)


def _text_of(file: Path) -> str:
    with suppress(OSError):  # OpenCode cannot read it either
        return read_start(str(file), SETTINGS_BYTES_MAX).decode("utf-8-sig", "replace")
    return ""


def _unusable_keys(text: str) -> Iterator[str]:
    for _ in range(2):  # a comma may stand before a comment
        text = _NOT_JSON.sub(lambda found: found[1] or "", text)
    config: object = None
    with suppress(ValueError, RecursionError):  # OpenCode says itself that it cannot read it
        config = json.loads(text)
    models = (("provider", name, "models") for name in object_at(config, "provider"))
    for path in (("agent",), ("mode",), ("provider",), *models):
        for name, value in object_at(config, *path).items():
            if name in _OWN_NAMES and member(value, "disable") is not True:
                yield ".".join((*path, name))


def _require_no_plugins(request: OpenRequest, environment: Environment) -> None:
    """Raise ConfigError if OpenCode would run a plug-in of a project that is not trusted. Blocking.

    OpenCode (1.18.33) imports `{plugin,plugins}/*.{ts,js}` of each `.opencode` from the working
    directory up, and what `opencode.json` names, whatever its variables say.
    """
    if not request.ignores_project:
        return
    home = os.path.realpath(environment.get("HOME") or "/")
    given = (Path(request.working_directory), Path(os.path.realpath(request.working_directory)))
    for place in dict.fromkeys(each for path in given for each in (path, *path.parents)):
        if os.path.realpath(place) == home:  # what is there is the person's own
            continue
        for found in _plugins_at(place):
            raise ConfigError(
                f"OpenCode would run {found}, and you have not trusted this directory",
                hint=f"read it, then run {command('upthread', 'trust')}, or name another agent"
                " by --agent",
            )


_RUN_BY_OPENCODE = (b"plugin", b"reference", b"\\u")
"""What a configuration holds that has code run or a repository fetched; `\\u` may hide a word."""


def _plugins_at(place: Path) -> Iterator[Path]:
    folder = place / ".opencode"
    for each in (place, folder):
        for name in _CONFIGS:
            with suppress(OSError):  # OpenCode cannot read it either
                content = read_start(str(each / name), SETTINGS_BYTES_MAX)
                is_whole = len(content) < SETTINGS_BYTES_MAX
                if not is_whole or any(word in content for word in _RUN_BY_OPENCODE):
                    yield each / name
    for name in ("plugin", "plugins"):
        with suppress(OSError):
            yield from (e for e in (folder / name).iterdir() if e.suffix.lower() in {".ts", ".js"})


# --- adapters and connections --------------------------------------------------------------------


class Adapter(ABC):
    """One way to drive one agent. It holds no state: every `open` is a process of its own.

    `row` is what the house knows of an agent with an interface of its own; what is given wins.
    """

    row: ClassVar[Agent]
    # Only to compare with the times an agent gives: it is not recorded as one of ours.
    now_ms: Callable[[], int] = staticmethod(lambda: time.time_ns() // 1_000_000)

    def __init__(self, *, agent: str = "", command: Sequence[str] = ()) -> None:
        self.agent = agent or self.row.name
        # What is started, before the words that an adapter adds.
        self.command = tuple(command or self.row.ways[0].command)

    @abstractmethod
    def open(self, request: OpenRequest) -> AbstractAsyncContextManager[AgentConnection]:
        """Start the agent and shake hands (A1, A2)."""


def open_elsewhere(agent: str, session: UpstreamSessionId, pid: int) -> UpstreamError:
    """Return the error for a session that another process of its agent has open."""
    return UpstreamError(
        f"session {session} is open in another {agent}, process {pid}",
        outcome=Outcome.BUSY,
        hint="leave it there first: what two of them write is not kept",
        upstream_session_id=session,
    )


class Connection(ABC):
    """One running agent of one caller."""

    def __init__(self, request: OpenRequest, running_agent: RunningAgent | None = None) -> None:
        self._request = request
        self._running_agent = running_agent
        self._running: RunningPrompt | None = None
        self._is_prompting = False
        self.late_events: int = 0

    @property
    def _child(self) -> ChildProcess | None:
        """The agent's process, None while there is none."""
        return self._running_agent.child if self._running_agent is not None else None

    @abstractmethod
    async def _answered(
        self, session: UpstreamSessionId, text: str, on_event: OnEvent
    ) -> PromptResult:
        """Prompt by `_run`, and say how it ended. Nothing else is prompted meanwhile."""

    @property
    def process(self) -> AgentProcess | None:
        child = self._child
        if child is None:
            return None
        return AgentProcess(pid=child.pid, started_at_ticks=child.started_at_ticks)

    def environment(self) -> Environment:
        return self._child.environment() if self._child is not None else {}

    async def prompt(
        self, upstream_session_id: UpstreamSessionId, text: str, *, on_event: OnEvent
    ) -> PromptResult:
        if self._is_prompting:
            raise UpstreamError(
                f"session {upstream_session_id} cannot be prompted: a prompt is running",
                outcome=Outcome.BUSY,
                hint=PROMPT_RUNNING_HINT,
                upstream_session_id=upstream_session_id,
            )
        # Before the first await: whoever prompts meanwhile has to find it.
        self._is_prompting = True
        try:
            return await self._answered(upstream_session_id, text, on_event)
        finally:
            self._is_prompting = False

    async def cancel(self, upstream_session_id: UpstreamSessionId) -> None:
        # One that comes late must not end the prompt of another session.
        if self._running is not None and self._running.session == upstream_session_id:
            self._running.request_cancel()

    async def _run(
        self,
        running: RunningPrompt,
        on_event: OnEvent,
        *,
        ask: Action,
        cancel: Action,
        leave: Action | None = None,
    ) -> None:
        """Run a prompt to its end, within the limits of the request.

        `ask` sends it and returns when it is answered, `cancel` asks for its end. `leave` asks an
        agent for it that is ended right after, and returns once it has answered; without it
        `cancel` does.

        One that the caller leaves ends the agent: words still to come from it would pass for the
        next reply, as no agent says which prompt they answer.
        """
        child = self._child
        assert child is not None, "attached before"
        self._running = running
        try:
            await running.run(ask=ask, send_cancel=cancel, end_agent=child.stop, on_event=on_event)
        except BaseException:
            # Unshielded, a cancelled caller would leave the agent running at the first await.
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(LEAVE_ANSWERED_S):
                    await (leave or cancel)()
                await anyio.sleep(0 if leave else LEAVE_WRITTEN_S)
                await child.stop()
            raise
        finally:
            self._running = None

    async def _deliver(self, events: Iterable[AgentEvent], running: RunningPrompt | None) -> None:
        """Hand events over in their order; what comes while nobody waits for it is counted."""
        for event in events:
            if running is None or not await running.deliver(event):
                self.late_events += 1

    # --- how a prompt ended --------------------------------------------------------------------

    def _cut_short(
        self, running: RunningPrompt, *, has_died: bool, asked_to: str = "cancel"
    ) -> PromptResult | None:
        """Return how a prompt ended that was cancelled or ran out of time, None for any other.

        Ours comes first, whatever word an agent has for a turn that was cut short (A10, A11).
        """
        if not (running.is_timed_out or running.is_cancelled):
            return None
        outcome, detail = running.aborted(has_died=has_died, asked_to=asked_to)
        return PromptResult(outcome=outcome, detail=detail)

    def _with_tokens(self, running: RunningPrompt, result: PromptResult) -> PromptResult:
        """Return a result with the tokens that the agent reported while the prompt ran."""
        return replace(result, tokens_used=running.seen.tokens_used)


class ServerTurn(Protocol):
    """What a turn of a server says of itself."""

    is_stopping: bool
    late: int

    @property
    def is_over(self) -> bool: ...


TurnT = TypeVar("TurnT", bound=ServerTurn)


class ServerPrompt(Struct, Generic[TurnT], kw_only=True):
    """A prompt and the turn that is made for it; `is_ended` once nothing more is waited for."""

    running: RunningPrompt
    turn: TurnT
    is_ended: anyio.Event = field(default_factory=anyio.Event)

    async def ended_within(self, seconds: float) -> bool:
        """Wait for its end, at most so long, and return whether it has ended."""
        with anyio.move_on_after(seconds):
            await self.is_ended.wait()
        return self.is_ended.is_set()

    def end_if_over(self) -> None:
        """End it where its turn says that nothing of it is to come."""
        if self.turn.is_over:
            self.is_ended.set()


PromptT = TypeVar("PromptT", bound=ServerPrompt[Any])


class ServerConnection(Connection, Generic[PromptT]):
    """One running server: its sessions (A3 to A5, A16, A17), and one prompt at a time.

    `_tasks` runs beside the reading of what the server sends, while the connection serves.
    """

    def __init__(self, request: OpenRequest, server: RunningAgent) -> None:
        super().__init__(request, server)
        self._prompt: PromptT | None = None
        self._tasks: TaskGroup | None = None

    @abstractmethod
    def _call_request(self, told: AnyJson) -> PermissionRequest:
        """Return a call that is about to run, as what is ours inside the agent reports it."""

    def _begin(self, call: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        """Begin what must not keep the reader waiting."""
        assert self._tasks is not None, "only while it serves"
        self._tasks.start_soon(call, *arguments)

    async def _hold(self, told: AnyJson) -> CallAnswer | None:
        """Return what holds back a call that is about to run, None to let it run (A14)."""
        running, hold_call = self._running, self._request.hold_call
        # Outside of a prompt there is no turn to end, to park, or to record an answer in.
        if running is None or hold_call is None:
            return None
        held = await ask_to_hold(self._call_request(told), running, hold_call)
        # The agent is only told that this call does not run, and would go on with the next.
        if held is not None and held.ends_turn:
            running.request_cancel()
        return held

    async def _run_turn(
        self, prompt: PromptT, on_event: OnEvent, *, ask: Action, cancel: Action, leave: Action
    ) -> None:
        """As `_run`; what the turn counted as late is kept, and nothing more is waited for."""
        try:
            await self._run(prompt.running, on_event, ask=ask, cancel=cancel, leave=leave)
        finally:
            # Whoever asks for the end until it is told has to stop, also where it never will be.
            prompt.is_ended.set()
            self._prompt = None
            # However it ended: what came late and was left out must not go uncounted.
            self.late_events += prompt.turn.late

    async def _stop_until_ended(self, prompt: PromptT, stop: Action, *, again_s: float) -> None:
        """Ask for the end until it is told: what comes before a turn has begun ends nothing."""
        while not prompt.is_ended.is_set():
            await stop()
            await prompt.ended_within(again_s)
