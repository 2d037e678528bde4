"""Claude Code for one caller: one `claude -p` for each session, and one prompt at a time.

The CLI is bound to one session from its start, so attaching is starting: `--session-id` for one
that is made, with an id of ours; `--resume` for one there is. Attaching another session ends the
process of the one before. Nothing is decided here, only translated. Opening asks the CLI for its
version, unless that is remembered of this very program, and so finds out whether it runs at all.

What we ask (`control_request`) is answered under the id we gave it; what it asks is a frame like
any other. A role's limits are words of its command line: the CLI forgets them with its process, so
they are said again with each `--resume`. Only words that take away: nothing a role allows becomes
an `--allowedTools`.
"""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup, TaskStatus

from upthread.agent_stores.homes import agent_environment, home_of
from upthread.agents._connection import (
    Adapter,
    Connection,
    JsonLines,
    is_uuid,
    open_elsewhere,
    start_of,
)
from upthread.agents._outcomes import failed
from upthread.agents._process import (
    ChildProcess,
    remember,
    remembered,
    started_child,
    whole_command,
)
from upthread.agents._prompt import REJECT, RunningPrompt, ask_to_hold, permission
from upthread.agents.base import (
    AgentConnection,
    AnswerPermission,
    Capabilities,
    HoldCall,
    OnEvent,
    OpenRequest,
    PromptResult,
)
from upthread.agents.claude_code.reader import read_history, writers_of
from upthread.agents.claude_code.transcripts import find_transcript
from upthread.agents.claude_code.translation import (
    Translator,
    is_missing,
    request_of,
    result_of,
    session_of,
)
from upthread.core.agents import AGENTS
from upthread.core.codec import AnyJson, member, object_at, text_at, texts_at
from upthread.core.decision.rollover import STDERR_END
from upthread.core.events import Events
from upthread.core.quotas import TURN, milliseconds_of
from upthread.core.roles.limits import RoleLimits, allows_only_named, denies_wholly, named_tools
from upthread.core.runs.stops import NOT_ANSWERED
from upthread.core.types import Environment, Outcome, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.tasks import task_group

OnFrame: TypeAlias = Callable[[object], Awaitable[None]]

# `stream-json` is refused without `--verbose` (2.1.197). Without `--include-partial-messages` a
# reply comes only whole, and of one that is cut off there is nothing; a sub-agent's words stay in
# its transcript without `--forward-subagent-text`; and whatever would be asked is refused without
# `--permission-prompt-tool stdio`, since nobody is at a terminal (docs/agents/claude-code.md).
STREAMING = (
    *("-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"),
    *("--include-partial-messages", "--forward-subagent-text"),
    *("--permission-prompt-tool", "stdio"),
)

UNATTENDED = ("AskUserQuestion", "CronCreate", "ScheduleWakeup", "Monitor")
"""They wait for a person at a terminal, or go on when the turn is over."""

TOOLS = (
    *("Agent", "Bash", "Edit", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "NotebookRead"),
    *("PowerShell", "Read", "Skill", "Task", "TodoWrite", "WebFetch", "WebSearch", "Write"),
)
"""Its own tools that limits know by name, as seen in 2.1.330 and before."""

_IDENTITY = "upthread-"


def limiting_words(limits: RoleLimits, *, agent: str) -> tuple[str, ...]:
    """Return the words. Where only named tools are allowed, no other is even offered."""
    denied = [tool for tool in (*TOOLS, *named_tools(limits)) if denies_wholly(limits, tool)]
    words = [f"--disallowedTools={','.join((*UNATTENDED, *denied))}"]
    if allows_only_named(limits):
        offered = [tool for tool in TOOLS if tool not in denied]
        words.append(f"--tools={','.join(offered)}")
    model = limits.model_for(agent)
    return (*words, *([f"--model={model}"] if model else []))


class ClaudeProcess(JsonLines):
    """A running CLI. `is_released` is set by whoever has heard its last words."""

    def __init__(
        self, child: ChildProcess, *, agent: str, timeout_s: float, on_frame: OnFrame
    ) -> None:
        super().__init__(child, agent=agent, timeout_s=timeout_s)
        self.is_released = anyio.Event()
        self._on_frame = on_frame
        self._ended_with: list[str] = []

    def last_words(self) -> str:
        """Return what it wrote to stderr last, and the errors of its last result."""
        return "; ".join((super().last_words(), *self._ended_with))

    async def _take(self, message: object) -> None:
        kind = text_at(message, "type")
        if kind == "result":
            self._ended_with = texts_at(message, "errors")
        if kind == "control_request":
            self.child.allowance.take_request()
        if kind != "control_response":
            await self._on_frame(message)
            return
        response = object_at(message, "response")
        number = text_at(response, "request_id").removeprefix(_IDENTITY)
        # An interrupt's answer finds nobody: it is not waited for.
        if number.isdecimal():
            self._questions.answer(int(number), response)

    async def ask(self, subtype: str, more: AnyJson | None = None) -> None:
        """Ask and wait for the answer. UpstreamError when there is none, or it is a no."""
        answer = await self._answer_to(
            subtype, lambda number: self.request(subtype, f"{_IDENTITY}{number}", more)
        )
        if answer.get("subtype") == "error":
            raise self.refused(subtype, text_at(answer, "error"), outcome=Outcome.UNKNOWN)

    async def request(self, subtype: str, identity: str, more: AnyJson | None = None) -> None:
        """Ask without waiting."""
        request = {"subtype": subtype, **(more or {})}
        await self.send({"type": "control_request", "request_id": identity, "request": request})

    async def answer(self, request_id: str, body: AnyJson) -> None:
        """Answer what the agent asked, or say that it cannot be answered."""
        told = {"request_id": request_id, **body}
        await self.send({"type": "control_response", "response": told})


# --- its sessions, each in a process of its own ---------------------------------------------------


OPENING_WORDS = "This session was opened by upthread; its next task follows."
"""What a new session holds before its first prompt: without a message it cannot be resumed.

It is sent as no person's words, so that neither the model nor the history takes it for a prompt.
"""


class ClaudeCodeConnection(Connection):
    """A running Claude Code. Made by `ClaudeCodeAdapter.open` only, within a task group."""

    def __init__(
        self, tasks: TaskGroup, request: OpenRequest, adapter: ClaudeCodeAdapter, version: str
    ) -> None:
        super().__init__(request)
        self._tasks = tasks
        self._agent = adapter.agent
        self._command = adapter.command
        self._version = version
        self._environment = {**request.environment, **ENVIRONMENT}
        self._process: ClaudeProcess | None = None
        self._session = UpstreamSessionId("")
        self._translator = Translator()
        self._result: AnyJson = {}
        self._has_result = anyio.Event()
        self._reset_at_ms: int | None = None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            agent=self._agent,
            version=self._version,
            can_resume=True,
            can_load=True,
            can_fork=True,
            can_hold=True,
        )

    async def close(self) -> None:
        """End the process, reading what it still says."""
        if self._process is not None:
            await self._process.child.stop()
            await self._process.has_ended.wait()
            self._process.is_released.set()
            self._process = self._running_agent = None

    # --- sessions ------------------------------------------------------------------------------

    async def new_session(self) -> UpstreamSessionId:
        session = _new_id()
        await self._attach(session, "--session-id", session, *self._naming())
        await self._make_durable()
        return session

    async def resume_session(self, upstream_session_id: UpstreamSessionId) -> None:
        self._require_id(upstream_session_id)
        # Our own process has it open, and would be found as another writer of it.
        if self._process is not None and self._session == upstream_session_id:
            await self.close()
        sessions = (upstream_session_id,)
        writers = await anyio.to_thread.run_sync(writers_of, self._home(), sessions)
        if pid := writers.get(upstream_session_id):
            raise open_elsewhere(self._agent, upstream_session_id, pid)
        await self._attach(upstream_session_id, "--resume", upstream_session_id)

    async def load_session(self, upstream_session_id: UpstreamSessionId) -> Events:
        await self.resume_session(upstream_session_id)
        path = await self._transcript(upstream_session_id)
        if path is None:
            raise self._missing(upstream_session_id)
        return await anyio.to_thread.run_sync(read_history, path, upstream_session_id)

    async def list_sessions(self) -> tuple[UpstreamSessionId, ...]:
        # Its command line lists none. What its store has, for a person to choose from, is read by
        # `outline`, and is no word of the agent's that a session is gone.
        raise UpstreamError(
            f"{self._agent} {self._version} cannot list sessions",
            outcome=Outcome.UNKNOWN,
            hint="its sessions are found by their ids; see `upthread agents`",
        )

    async def fork_session(self, upstream_session_id: UpstreamSessionId) -> UpstreamSessionId:
        self._require_id(upstream_session_id)
        session = _new_id()
        words = ("--resume", upstream_session_id, "--fork-session", "--session-id", session)
        await self._attach(session, *words, *self._naming())
        await self._make_durable()
        return session

    def _naming(self) -> tuple[str, ...]:
        """The words that give a new session its title; several may have the same."""
        return (f"--name={self._request.title}",) if self._request.title else ()

    def _require_id(self, session: UpstreamSessionId) -> None:
        """Only an id: `--resume` also takes a title or a path, and would open what they name."""
        if not is_uuid(session):
            raise self._missing(session)

    def _home(self) -> Path:
        """Return where it keeps its sessions: behind a wrapper, only its process tells."""
        given = agent_environment(self._environment)
        return home_of("claude-code", self.environment() or given)

    async def _transcript(self, session: UpstreamSessionId) -> Path | None:
        return await anyio.to_thread.run_sync(find_transcript, self._home(), session)

    def _missing(self, session: UpstreamSessionId) -> UpstreamError:
        return UpstreamError(
            f"{self._agent} has no session {session}",
            outcome=Outcome.MISSING,
            hint=f"it keeps them below {self._home()}, 30 days unless told otherwise",
            upstream_session_id=session,
        )

    # --- its process ---------------------------------------------------------------------------

    async def _attach(self, session: UpstreamSessionId, *words: str) -> None:
        await self.close()
        self._translator = Translator()
        self._session = session
        process: ClaudeProcess = await self._tasks.start(self._serve, words)
        self._process = self._running_agent = process
        try:
            await process.ask("initialize", {"hooks": _HOOKS})
        except UpstreamError as error:
            await self.close()
            # It says so on stderr before it exits (2.1.330), and the hint has the end of that.
            if not is_missing(error.hint, session):
                if "--resume" in words:
                    # Its session may be why: asked for a new one, it may start.
                    error.message = error.message.replace("initialize", f"--resume {session}")
                raise
            # Where one that has exited looked is not seen, so that another one stays.
            unused = _new_id()
            await self._attach(unused, "--session-id", unused)
            raise self._missing(session) from error

    async def _serve(
        self, words: tuple[str, ...], *, task_status: TaskStatus[ClaudeProcess]
    ) -> None:
        limits = limiting_words(self._request.limits, agent=self._agent)
        sources = ("--setting-sources=user",) if self._request.ignores_project else ()
        command = (*self._command, *STREAMING, *limits, *sources, *words)
        start = start_of(self._request, command, self._environment)
        async with started_child(start) as child:
            process = ClaudeProcess(
                child,
                agent=self._agent,
                timeout_s=self._request.start_timeout_s,
                on_frame=self._on_frame,
            )
            task_status.started(process)
            await process.read_all()
            # Until its last words are heard: they are asked of the child, which leaving ends.
            await process.is_released.wait()

    async def _make_durable(self) -> None:
        """Write a first message without asking the model: a session is stored from then on.

        `shouldQuery` and `isSynthetic` are in no documentation: seen in 2.1.330, and known to be
        heeded by what is looked at afterwards.
        """
        process = self._require_process()
        self._has_result = anyio.Event()
        await process.send({**_message(OPENING_WORDS), "shouldQuery": False, "isSynthetic": True})
        with anyio.move_on_after(self._request.start_timeout_s):
            await self._result_or_end(process)
        # The file counts, and no answer: a session without one cannot be resumed (A3).
        if await self._transcript(self._session) is None:
            error = UpstreamError(
                f"{self._agent} {self._version} did not store a new session",
                outcome=Outcome.UNKNOWN,
                hint=process.last_words(),
            )
            await self.close()
            raise error

    def _require_process(self) -> ClaudeProcess:
        assert self._process is not None, "attached before"
        return self._process

    async def _result_or_end(self, process: ClaudeProcess) -> None:
        async with task_group() as tasks:

            async def wait_for(event: anyio.Event) -> None:
                await event.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(wait_for, self._has_result)
            tasks.start_soon(wait_for, process.has_ended)

    # --- prompts -------------------------------------------------------------------------------

    async def _answered(
        self, session: UpstreamSessionId, text: str, on_event: OnEvent
    ) -> PromptResult:
        # Another session of this connection may have taken its place.
        if self._process is None or self._session != session:
            try:
                await self.resume_session(session)
            except UpstreamError as error:
                return failed(error)
        running, process = RunningPrompt(session, self._request), self._require_process()
        self._translator.begin()
        self._reset_at_ms = None
        self._result = {}
        self._has_result = anyio.Event()

        async def ask() -> None:
            process.child.allowance.renew(TURN)
            await process.send(_prompt(text))
            await self._result_or_end(process)

        async def cancel() -> None:
            # Without waiting for its answer: the turn's own `result` says when it has ended.
            await process.request("interrupt", "upthread-interrupt")

        await self._run(running, on_event, ask=ask, cancel=cancel)
        return await self._concluded(running)

    async def _concluded(self, running: RunningPrompt) -> PromptResult:
        failure = self._cut_short(running, has_died=not self._has_result.is_set())
        if failure is None and not self._has_result.is_set():
            failure = failed(await self._require_process().died("a prompt"))
        if failure is not None:
            return self._with_tokens(running, failure)
        answered_in = session_of(self._result)
        # What was said was to be added to the session asked for, and to no other (A4).
        if answered_in != running.session:
            detail = f"it was answered in session {answered_in}, which was not asked"
            return PromptResult(outcome=Outcome.UNKNOWN, detail=detail)
        return result_of(
            self._result,
            error_kind=self._translator.error_kind,
            refused_by=self._translator.refused_by,
            reset_at_ms=self._reset_at_ms,
        )

    # --- what arrives --------------------------------------------------------------------------

    async def _on_frame(self, frame: object) -> None:
        content = object_at(frame)
        match content.get("type"):
            case "control_request":
                # Beside the reading: a person may be asked, and what ends the turn is to be read.
                self._tasks.start_soon(self._reply, self._require_process(), content)
            case "control_cancel_request":
                return  # the turn's own end withdraws what is still asked
            case "result":
                # First: with a result the prompt returns, and its events come before that (A6).
                await self._deliver(self._translator.translate(frame), self._running)
                self._result = content
                self._has_result.set()
            case "rate_limit_event":
                # What the provider says of a subscription's limit; the time is in seconds.
                if member(content, "rate_limit_info", "status") == "rejected":
                    resets_at = member(content, "rate_limit_info", "resetsAt")
                    self._reset_at_ms = milliseconds_of(resets_at)
            case _:
                await self._deliver(self._translator.translate(frame), self._running)

    async def _reply(self, process: ClaudeProcess, frame: AnyJson) -> None:
        request, request_id = object_at(frame, "request"), text_at(frame, "request_id")
        running = self._running
        match request.get("subtype"):
            case "can_use_tool":
                if running is None:
                    self.late_events += 1
                response = await _decide(request, running, self._request.answer_permission)
            case "hook_callback":
                told = object_at(request, "input")
                response = await _hold(told, running, self._request.hold_call)
            case _:
                refused = {"subtype": "error", "error": "upthread does not do this"}
                await process.answer(request_id, refused)
                return
        await process.answer(request_id, {"subtype": "success", "response": response})


def _prompt(text: str) -> AnyJson:
    """A text that begins like a command of Claude Code's own is a text all the same.

    Unmarked, `/clear` or `/compact` from a task's text would be carried out (2.1.330).
    """
    is_like_a_command = text.lstrip().startswith("/")
    more = {"client_composed": True} if is_like_a_command else {}
    return {**_message(text), **more}


def _message(text: str) -> AnyJson:
    return {
        "type": "user",
        "session_id": "",
        "parent_tool_use_id": None,
        "message": {"role": "user", "content": text},
    }


def _new_id() -> UpstreamSessionId:
    # Not by `uuid4`, which is for our own ids, minted in one place: this one is Claude Code's.
    return UpstreamSessionId(str(uuid.UUID(bytes=secrets.token_bytes(16), version=4)))


# --- whether a call may run (A13, A14) ------------------------------------------------------------
#
# Nothing is ever allowed here: without a running prompt or an answer, or with one that was not
# offered, the call is refused and the turn is ended.

_NOT_ANSWERED = {
    "behavior": "deny",
    "message": "Nobody could be asked for this permission.",
    "interrupt": True,
}
# An hour, since a person may be asked: a hook that is late lets its call run (2.1.329).
_HOOKS = {"PreToolUse": [{"hookCallbackIds": ["upthread-before-a-call"], "timeout": 3600}]}
"""What has the CLI tell us of every call before it runs, whatever its settings allow."""

_REJECTED = {"behavior": "deny", "message": "This was not permitted. Do not try it again."}


async def _decide(
    request: AnyJson,
    running: RunningPrompt | None,
    answer_permission: AnswerPermission,
) -> AnyJson:
    """Return the response to one `can_use_tool` request."""
    if running is None:
        return _NOT_ANSWERED
    asked = request_of(request, running.session)
    option_id = await permission(asked, running, answer_permission)
    if option_id is None:
        return _NOT_ANSWERED
    if option_id == REJECT:
        return _REJECTED
    return {"behavior": "allow", "updatedInput": request.get("input")}


async def _hold(
    told: AnyJson, running: RunningPrompt | None, hold_call: HoldCall | None
) -> AnyJson:
    """Return the response to one `hook_callback`: what a PreToolUse hook would print."""
    if running is None or hold_call is None or text_at(told, "hook_event_name") != "PreToolUse":
        return {}
    request = {**told, "input": told.get("tool_input")}
    held = await ask_to_hold(request_of(request, running.session), running, hold_call)
    if held is None:
        return {}
    return {
        **({"continue": False, "stopReason": held.why} if held.ends_turn else {}),
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": held.why,
        },
    }


# --- how it is started ----------------------------------------------------------------------------


ROW = AGENTS["claude-code"]
ENVIRONMENT = {
    # A task that goes on in the background would answer after its turn.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
}
_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")
SHOWN_CHARACTERS = 200


class ClaudeCodeAdapter(Adapter):
    """Claude Code by its command line, `claude` without being told."""

    row = ROW

    @asynccontextmanager
    async def open(self, request: OpenRequest) -> AsyncGenerator[AgentConnection]:
        environment = {**request.environment, **ENVIRONMENT}
        version = await self._version(request, environment)
        async with task_group() as tasks:
            connection = ClaudeCodeConnection(tasks, request, self, version)
            try:
                yield connection
            finally:
                # A caller that is cancelled leaves no process either (A1).
                with anyio.CancelScope(shield=True):
                    await connection.close()
                tasks.cancel_scope.cancel()

    async def _version(self, request: OpenRequest, environment: Environment) -> str:
        start = start_of(request, (*self.command, "--version"), environment)
        # A command of several words may be anybody's, and run another Claude Code tomorrow.
        command = whole_command(start) if len(self.command) == 1 else []
        # As it was printed: what lists the agents that are installed remembers it so as well.
        known = _VERSION.match(remembered(command) or "")
        if known is not None:
            return known[0]
        async with started_child(start) as child:
            line: bytes | None = b""
            with anyio.move_on_after(request.start_timeout_s) as patience:
                line = await child.read_line()
            printed = (line or b"").decode("utf-8", "replace").strip()
            found = _VERSION.match(printed)
            if found is not None:
                remember(command, printed)
                return found[0]
            is_late = patience.cancelled_caught
            said = f"printed {line[:SHOWN_CHARACTERS]!r}" if line else "printed nothing"
            tail = child.tail_of_stderr()
            raise UpstreamError(
                f"{self.agent} was asked for its version and {said}"
                + (f" within {request.start_timeout_s:g} s: it {NOT_ANSWERED}" if is_late else ""),
                outcome=Outcome.TIMED_OUT if is_late else Outcome.PROCESS_DIED,
                hint=f"run `{' '.join(start.command)}` once by hand"
                + (f"; {STDERR_END}{tail}" if tail else ""),
            )


ADAPTER = ClaudeCodeAdapter
"""By which the registry makes it."""
