"""What every connection to an agent does alike: one prompt at a time, its limits, and its end.

A connection translates and never decides. `Connection` is below all of them. `ServerConnection` is
below those whose agent is a server that tells of all its sessions in one stream: what belongs to a
prompt is then said by a turn, which is fed with what the server tells.
"""

from __future__ import annotations

import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field, structs

from upthread.agents._json_lines import as_object, member
from upthread.agents._permissions import ask_to_hold
from upthread.agents._process import ChildProcess, ChildStart
from upthread.agents._process_end import RunningAgent
from upthread.agents._prompt import Action, RunningPrompt
from upthread.agents.base import (
    AgentConnection,
    AgentProcess,
    CallAnswer,
    ListedSession,
    OnEvent,
    OpenRequest,
    PermissionRequest,
    PromptResult,
)
from upthread.boundary.files import read_start
from upthread.core.agents import Agent
from upthread.core.events import AgentEvent
from upthread.core.text import command
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import ConfigError, UpstreamError

PROMPT_RUNNING_HINT: Final = "one prompt at a time on one connection; open another"

LEAVE_ANSWERED_S: Final = 0.5
LEAVE_WRITTEN_S: Final = 0.05
"""How long a last cancel gets before an agent that nobody waits for is ended: to be answered, and
to leave where nobody answers it. A line on a pipe needs no more than to be written."""

SETTINGS_BYTES_MAX: Final = 1024 * 1024

_IGNORING: Final = {
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    # Also the person's own skills of Claude Code, which OpenCode cannot be given without these.
    "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
}
"""Set for every agent, because OpenCode (1.18.33) may be driven over ACP under any name."""


def start_of(
    request: OpenRequest,
    command: Sequence[str],
    environment: Mapping[str, str],
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


def require_usable(request: OpenRequest, environment: Mapping[str, str]) -> None:
    """Raise ConfigError for what OpenCode would fail with, or must not run. Blocking."""
    _require_no_plugins(request, environment)
    ignoring = _IGNORING if request.ignores_project else {}
    for where in unusable_names(request.working_directory, {**environment, **ignoring}):
        raise ConfigError(f"{where}: {UNUSABLE}", hint=RENAME)


UNUSABLE: Final = "OpenCode fails each prompt while it is there: its name is JavaScript's own"
RENAME: Final = "rename it"

_OWN_NAMES: Final = frozenset(
    """
    constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf
    __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__
    """.split()
)
"""Properties of each object of JavaScript: an agent, provider or model of such a name fails each
prompt, a command, skill or MCP server does not (1.18.33)."""

_CONFIGS: Final = ("opencode.json", "opencode.jsonc")
_NOT_JSON: Final = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
"""A text, which stays, or a comment or comma that JSON does not have."""
_NAME: Final = re.compile(r"""---\s*\n(?:(?!---).*\n)*?name:[ \t]*["']?([\w-]+)""")


def unusable_names(working_directory: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield each file or key that OpenCode (1.18.33) fails with by its name. Blocking."""
    home, here = Path(environment.get("HOME") or "/"), Path(os.path.realpath(working_directory))
    own = Path(environment.get("XDG_CONFIG_HOME") or home / ".config", "opencode")
    up = [here, *here.parents]
    # Up to the root of the repository; without one to that of the disk.
    up = up[: 1 + next((n for n, place in enumerate(up) if (place / ".git").exists()), len(up))]
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
        for file in (file for pattern in patterns for file in folder.glob(pattern)):
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
    models = (("provider", name, "models") for name in as_object(member(config, "provider")))
    for path in (("agent",), ("mode",), ("provider",), *models):
        for name, value in as_object(member(config, *path)).items():
            if name in _OWN_NAMES and member(value, "disable") is not True:
                yield ".".join((*path, name))


def _require_no_plugins(request: OpenRequest, environment: Mapping[str, str]) -> None:
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


_RUN_BY_OPENCODE: Final = (b"plugin", b"reference", b"\\u")
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


def wall_clock_ms() -> int:
    """Only to compare with the times an agent gives: it is not recorded as one of ours."""
    return time.time_ns() // 1_000_000


class Adapter(ABC):
    """One way to drive one agent. It holds no state: every `open` is a process of its own.

    `row` is what the house knows of an agent with an interface of its own; what is given wins.
    """

    row: ClassVar[Agent]
    now_ms: Callable[[], int] = staticmethod(wall_clock_ms)

    def __init__(self, *, agent: str = "", command: Sequence[str] = ()) -> None:
        self._agent = agent or self.row.name
        self._command = tuple(command or self.row.ways[0].command)

    @property
    def agent(self) -> str:
        return self._agent

    @property
    def command(self) -> tuple[str, ...]:
        """What is started, before the words that an adapter adds."""
        return self._command

    @abstractmethod
    def open(self, request: OpenRequest) -> AbstractAsyncContextManager[AgentConnection]:
        """Start the agent and shake hands (A1, A2)."""

    def resume_command(self, upstream_session_id: UpstreamSessionId) -> tuple[str, ...] | None:
        return self.row.resume_command(upstream_session_id)


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
        self._late_events: int = 0

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

    def environment(self) -> Mapping[str, str]:
        return self._child.environment() if self._child is not None else {}

    @property
    def late_events(self) -> int:
        return self._late_events

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
                self._late_events += 1

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
        return structs.replace(result, tokens_used=running.seen.tokens_used)


class ServerTurn(Protocol):
    """What a turn of a server says of itself."""

    is_stopping: bool
    late: int

    @property
    def is_over(self) -> bool: ...


class ServerSessions(Protocol):
    """A server's sessions, as the adapter's port has them (A3 to A5, A16, A17)."""

    async def new(self) -> UpstreamSessionId: ...

    async def attach(self, session: UpstreamSessionId, /) -> None: ...

    async def read(self, session: UpstreamSessionId, /) -> tuple[AgentEvent, ...]: ...

    async def listed(self) -> tuple[ListedSession, ...]: ...

    async def fork(self, session: UpstreamSessionId, /) -> UpstreamSessionId: ...


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
    """One running server: its sessions, and one prompt at a time.

    `_tasks` runs beside the reading of what the server sends, while the connection serves.
    """

    def __init__(
        self, request: OpenRequest, server: RunningAgent, *, sessions: ServerSessions
    ) -> None:
        super().__init__(request, server)
        self._sessions = sessions
        self._prompt: PromptT | None = None
        self._tasks: TaskGroup | None = None

    @abstractmethod
    def _call_request(self, told: Mapping[str, Any]) -> PermissionRequest:
        """Return a call that is about to run, as what is ours inside the agent reports it."""

    def _begin(self, call: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        """Begin what must not keep the reader waiting."""
        assert self._tasks is not None, "only while it serves"
        self._tasks.start_soon(call, *arguments)

    async def new_session(self) -> UpstreamSessionId:
        return await self._sessions.new()

    async def resume_session(self, upstream_session_id: UpstreamSessionId) -> None:
        await self._sessions.attach(upstream_session_id)

    async def load_session(self, upstream_session_id: UpstreamSessionId) -> tuple[AgentEvent, ...]:
        return await self._sessions.read(upstream_session_id)

    async def list_sessions(self) -> tuple[ListedSession, ...]:
        return await self._sessions.listed()

    async def fork_session(self, upstream_session_id: UpstreamSessionId) -> UpstreamSessionId:
        return await self._sessions.fork(upstream_session_id)

    async def _hold(self, told: Mapping[str, Any]) -> CallAnswer | None:
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
            self._late_events += prompt.turn.late

    async def _stop_until_ended(self, prompt: PromptT, stop: Action, *, again_s: float) -> None:
        """Ask for the end until it is told: what comes before a turn has begun ends nothing."""
        while not prompt.is_ended.is_set():
            await stop()
            await prompt.ended_within(again_s)
