"""OpenCode for one caller: its server, its sessions, and one prompt at a time.

Nothing is decided here, only translated. One task reads the server's events, in order, and holds
the stream while an event is taken in; the prompts themselves are short requests beside it.

Exactly the session asked for is attached, or there is an error. `missing` is the server's own 404.
An id of another form than OpenCode's gets a bare error from it (500 in 1.18.33), so such a one is
looked for in the list before anything is said.

A role's limits go with each prompt: tools that are off, and the model. Only ever `false`: a tool
that is switched on would pass by what the person's own configuration asks about. What is denied for
some arguments only, our gate refuses.
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.resources import files
from typing import Any, Self
from urllib.parse import quote

import anyio
import anyio.to_thread
from msgspec import field, structs

from upthread.agent_stores.homes import agent_environment, home_of
from upthread.agents._connection import (
    Adapter,
    RefusedByAgentError,
    ServerConnection,
    ServerPrompt,
    open_elsewhere,
    require_usable,
)
from upthread.agents._json_lines import Unreadable, unknown
from upthread.agents._prompt import CallListener, RunningPrompt, listening
from upthread.agents.base import (
    AgentConnection,
    Capabilities,
    OnEvent,
    OpenRequest,
    PermissionRequest,
    PromptResult,
)
from upthread.agents.opencode.reader import AGENT, writers_of
from upthread.agents.opencode.server import (
    ApiError,
    OpenCodeServer,
    ServerGoneError,
    answer_asked,
    call_request,
    dismiss_question,
    started_server,
)
from upthread.agents.opencode.turn import SPOKEN, Turn, detail_of_finish, history, window_of
from upthread.core.agents import AGENTS
from upthread.core.codec import AnyJson, member, object_at, objects_at, session_at, text_at
from upthread.core.events import Events
from upthread.core.quotas import TURN, VERSION_CHARACTERS_MAX, one_line_name
from upthread.core.roles.limits import EDITING, RoleLimits, denies_wholly, named_tools
from upthread.core.types import Environment, Outcome, UpstreamSessionId
from upthread.errors import QuotaExceededError, UpstreamError
from upthread.tasks import task_group

LISTED_MAX = 100_000
"""More than anybody was seen to have. A list of as many may go on."""

EVERYWHERE = {"scope": "project"}
"""The query for a repository's sessions in all directories."""

TOOLS = ("bash", "codesearch", "external_directory", "glob", "grep", "list", "lsp", "read")
"""OpenCode's tools and permissions, as seen in 1.18.33; `edit` stands for all that edit."""
MORE_TOOLS = ("question", "skill", "task", "todoread", "todowrite", "webfetch", "websearch")


def path_of(session: UpstreamSessionId, *below: str) -> str:
    """Return the path of a session; whatever the id holds, it stays one segment."""
    return "/".join(["/session", quote(session, safe=""), *below])


class _Prompt(ServerPrompt[Turn], kw_only=True):
    preparing: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_doubted: bool = False
    is_listened_for: bool = False


async def _require_directory(session: UpstreamSessionId, directory: str) -> None:
    if directory and not await anyio.Path(directory).is_dir():
        raise UpstreamError(
            f"the session {session} works in {directory}, which is gone",
            outcome=Outcome.WORKSPACE_CHANGED,
            hint="put the directory back, or let the session be replaced",
        )


def prompt_limits(limits: RoleLimits, *, agent: str) -> AnyJson:
    """Return the members of a prompt's body that hold the limits, none for none."""
    off = [tool for tool in (*TOOLS, *MORE_TOOLS) if denies_wholly(limits, tool)]
    off += ["edit"] if all(denies_wholly(limits, tool) for tool in EDITING) else []
    off += [tool for tool in named_tools(limits) if denies_wholly(limits, tool) and tool not in off]
    provider, _, model = limits.model_for(agent).partition("/")
    return {
        **({"tools": dict.fromkeys(off, False)} if off else {}),
        **({"model": {"providerID": provider, "modelID": model}} if model else {}),
    }


# --- the connection -------------------------------------------------------------------------------


MAJOR_VERSION = "1"
# Both far above the second in which a prompt begins (docs/agents/opencode-serve.md): too short, and
# one that goes on would be told as failed.
BEGINS_WITHIN_S = 5.0
"""An error before a prompt has begun is its own when it has not begun so long after."""

IS_AT_WORK_WITHIN_S = 15.0
"""After so long without a word the server is asked whether it works at the prompt it has taken."""

ACCEPTED = 204
NOT_AT_WORK = "it took the prompt and does not work at it; its own log may say why"

TOLD_WITHIN_S = 5.0
"""A sub-agent in the background that stands still so long, and is not told as ended, has ended."""

SETTLE_S = 0.25
"""How long after a prompt that failed its last words may still come; then the next may leave."""
ABORT_AGAIN_S = 0.5
"""An abort that comes before the server has begun to work is without effect: it is repeated."""


class OpenCodeConnection(ServerConnection[_Prompt]):
    """A running server. Use `serving` around everything else."""

    def __init__(
        self,
        server: OpenCodeServer,
        request: OpenRequest,
        *,
        calls: CallListener | None,
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__(request, server)
        self._server = server
        self._now_ms = now_ms
        if calls is not None:
            calls.hold = self._hold
        self._is_listening = anyio.Event()
        self._lost = ""
        self._stale: set[str] = set()
        self._settled_at = 0.0
        self._providers: object = None
        self._has_providers = anyio.Event()
        self.capabilities = Capabilities(
            agent=server.agent,
            version="",
            can_resume=True,
            can_load=True,
            can_list=True,
            can_fork=True,
            can_hold=calls is not None,
        )

    def _call_request(self, told: AnyJson) -> PermissionRequest:
        return call_request(told)

    # --- its life ------------------------------------------------------------------------------

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Self]:
        """Shake hands, and read the server's events until the context is left."""
        await self._shake_hands()
        async with task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._drain_output)
            tasks.start_soon(self._read_events)
            tasks.start_soon(self._learn_providers)
            try:
                # What happens before the stream of events is open is not told.
                with anyio.move_on_after(self._request.start_timeout_s):
                    await self._is_listening.wait()
                if not self._is_listening.is_set() or self._lost:
                    raise await self._server.died("GET /global/event")
                yield self
            finally:
                tasks.cancel_scope.cancel()

    async def _shake_hands(self) -> None:
        try:
            health = await self._server.get("/global/health")
        except RefusedByAgentError as error:
            # What is not there is the question, and no session: OpenCode 2 asks it elsewhere.
            raise UpstreamError(
                f"the server of {self._server.agent} does not speak the API of version "
                f"{MAJOR_VERSION}: {error.message}",
                outcome=Outcome.UNKNOWN,
                hint="which version it is: upthread agents; OpenCode 2 is not driven yet",
            ) from error
        version = text_at(health, "version")
        if version.partition(".")[0] != MAJOR_VERSION:
            raise UpstreamError(
                f"{self._server.agent} says its version is {version!r}, "
                f"and upthread speaks the API of version {MAJOR_VERSION}",
                outcome=Outcome.UNKNOWN,
                hint='drive it over ACP: --agent acp:"opencode acp"',
            )
        self.capabilities = structs.replace(
            self.capabilities, version=one_line_name(version, most=VERSION_CHARACTERS_MAX)
        )

    async def _drain_output(self) -> None:
        """Read what the server prints; a full pipe would stop it."""
        child = self._server.child
        is_open = True
        while is_open:
            child.allowance.renew(TURN)  # what it prints is not kept
            with suppress(QuotaExceededError):  # nor is what is too long to be a line
                is_open = await child.read_line() is not None

    async def _read_events(self) -> None:
        lost = "it closed its stream of events"
        try:
            async for event in self._server.client.events():
                self._is_listening.set()
                await self._has_providers.wait()
                await self._take(event)
        except QuotaExceededError as violation:
            self._server.violation = violation
            lost = str(violation)
        except (ServerGoneError, ApiError) as error:
            lost = str(error)
        self._lost = lost
        # Also where there never was a stream: whoever waits for it is told at once.
        self._is_listening.set()
        if self._prompt is not None:
            self._prompt.is_ended.set()

    # --- sessions ------------------------------------------------------------------------------

    async def new_session(self) -> UpstreamSessionId:
        """Make a session. Raises UpstreamError when none was named.

        With a title of ours OpenCode asks no model for one.
        """
        body = {"title": self._request.title} if self._request.title else None
        answer = await self._server.post("/session", body)
        return self._server.session_named(text_at(answer, "id"), "POST /session")

    async def resume_session(self, session: UpstreamSessionId) -> None:
        """Raise UpstreamError unless the server has exactly this session, and alone (A4)."""
        home = home_of(AGENT, self._server.child.environment())
        writers = await anyio.to_thread.run_sync(writers_of, home, (session,))
        if pid := writers.get(session):
            raise open_elsewhere(self._server.agent, session, pid)
        try:
            answer = await self._server.get(path_of(session), session=session)
        except RefusedByAgentError as refused:
            await self._confirm(refused, session)
            raise
        returned = text_at(answer, "id")
        if returned != session:
            raise self._server.opened_another(repr(returned), session)
        # Without it OpenCode takes a prompt, and fails without a word (1.18.33).
        await _require_directory(session, text_at(answer, "directory"))

    async def _confirm(self, refused: RefusedByAgentError, session: UpstreamSessionId) -> None:
        if refused.outcome == Outcome.MISSING:
            return
        # Sub-agents' sessions too, and those of other directories: one whose directory was moved is
        # looked for there (500 if a file has its place, 1.18.33).
        listed = [one for query in ({}, EVERYWHERE) for one in await self._rows(query)]
        for one in listed:
            if text_at(one, "id") == session:
                await _require_directory(session, text_at(one, "directory"))
                return
        # Nor is it known to be gone where the list may go on: `missing` ends a session for good.
        if len(listed) >= LISTED_MAX:
            return
        refused.message += "; it does not list this session"
        refused.outcome = Outcome.MISSING

    async def load_session(self, session: UpstreamSessionId) -> Events:
        """Return a session's history. One whose messages it cannot read is `corrupted`."""
        await self.resume_session(session)
        try:
            messages = await self._server.get(path_of(session, "message"), session=session)
        except RefusedByAgentError as refused:
            # Not for the moment: it has just read the session itself from the same database.
            if refused.outcome == Outcome.UNKNOWN:
                refused.outcome = Outcome.CORRUPTED
            raise
        return history(messages, session)

    async def list_sessions(self) -> tuple[UpstreamSessionId, ...]:
        """Return the main sessions of the project."""
        rows = await self._rows({"roots": "true"})
        return tuple(session_at(row, "id") for row in rows)

    async def _rows(self, query: Mapping[str, str]) -> list[AnyJson]:
        answer = await self._server.get("/session", query={"limit": str(LISTED_MAX), **query})
        return objects_at(answer)

    async def fork_session(self, session: UpstreamSessionId) -> UpstreamSessionId:
        """Return a new session with the same history. The server gives a fork no parent."""
        await self.resume_session(session)
        answer = await self._server.post(path_of(session, "fork"), session=session)
        return self._server.fork_named(text_at(answer, "id"), session, "the fork")

    # --- prompts -------------------------------------------------------------------------------

    async def _answered(
        self, session: UpstreamSessionId, text: str, on_event: OnEvent
    ) -> PromptResult:
        turn = Turn(
            session,
            stale=self._stale,
            window_of=lambda message: window_of(self._providers, message),
            now_ms=self._now_ms,
        )
        prompt = _Prompt(running=RunningPrompt(session, self._request), turn=turn)

        async def ask() -> None:
            self._server.client.allowance.renew(TURN)
            if await self._prepare(prompt):
                await self._send(prompt, text)
                await self._has_providers.wait()  # no word of it is taken before
                has_ended = await prompt.ended_within(IS_AT_WORK_WITHIN_S)
                is_silent = not (has_ended or prompt.turn.is_answered)
                if is_silent and not await self._is_at_work(session):
                    prompt.running.error = ApiError(ACCEPTED, "", NOT_AT_WORK)
                    prompt.is_ended.set()
                await prompt.is_ended.wait()

        async def cancel() -> None:
            # One that has not left is kept from leaving.
            prompt.preparing.cancel()
            self._stop(prompt)

        leave = partial(self._abort, prompt)
        try:
            await self._run_turn(prompt, on_event, ask=ask, cancel=cancel, leave=leave)
        finally:
            # However it ended: what is still said in them is no word of the next prompt's (A8).
            self._stale |= prompt.turn.messages.keys()
        return await self._concluded(prompt)

    async def _is_at_work(self, session: UpstreamSessionId) -> bool:
        """Whether the server says that it works at a session. One that is gone ends the prompt."""
        with suppress(UpstreamError):
            known = object_at(await self._server.get("/session/status"))
            return text_at(known, session, "type") not in {"", "idle"}
        return True

    async def _prepare(self, prompt: _Prompt) -> bool:
        """Let an earlier prompt's last words pass; False when this one was ended meanwhile."""
        with prompt.preparing:
            await anyio.sleep_until(self._settled_at)
            # Not before: what is told until now is an earlier prompt's, and its messages are stale.
            self._prompt = prompt
        return self._prompt is prompt

    async def _learn_providers(self) -> None:
        """Learn how large the models' windows are. It takes a second, so only events wait for it.

        A server that is gone ends the prompt.
        """
        with suppress(UpstreamError):
            self._providers = await self._server.get("/config/providers")
        self._has_providers.set()

    async def _send(self, prompt: _Prompt, text: str) -> None:
        session = prompt.running.session
        limits = prompt_limits(self._request.limits, agent=self._server.agent)
        body = {"parts": [{"type": "text", "text": text}], **limits}
        try:
            await self._server.client.post(path_of(session, "prompt_async"), body)
        except (ApiError, ServerGoneError, TimeoutError) as error:
            prompt.running.error = error
            prompt.is_ended.set()
        # The stream may have ended before there was a prompt to end with it.
        if self._lost:
            prompt.is_ended.set()

    def _stop(self, prompt: _Prompt) -> None:
        """Have the running work aborted; the server's own events say when it has ended."""
        if self._prompt is prompt and not prompt.turn.is_stopping:
            prompt.turn.is_stopping = True
            until_ended = partial(self._stop_until_ended, again_s=ABORT_AGAIN_S)
            self._begin(until_ended, prompt, partial(self._abort_all, prompt))

    async def _abort_all(self, prompt: _Prompt) -> None:
        await self._abort(prompt)
        await self._deliver(prompt.turn.end_background(), prompt.running)
        prompt.end_if_over()

    async def _abort(self, prompt: _Prompt) -> None:
        # What an abort cannot reach is ended by the deadline for cancelling.
        for session in (*sorted(prompt.turn.family.in_background), prompt.running.session):
            with suppress(ApiError, ServerGoneError, TimeoutError):
                await self._server.client.post(path_of(session, "abort"))

    # --- how a prompt ended --------------------------------------------------------------------

    async def _concluded(self, prompt: _Prompt) -> PromptResult:
        failure = await self._failure_of(prompt)
        if failure is not None and failure.outcome is Outcome.UNKNOWN:
            failure = await self._as_damage(prompt, failure)
        if failure is not None:
            self._settled_at = anyio.current_time() + SETTLE_S
        detail = detail_of_finish(prompt.turn.finish)
        ended = failure or PromptResult(outcome=Outcome.OK, detail=detail)
        return self._with_tokens(prompt.running, ended)

    async def _as_damage(self, prompt: _Prompt, failure: PromptResult) -> PromptResult:
        """Return a failure as what it means where the server cannot read the session at all."""
        if not prompt.turn.is_answered:
            try:
                await self.load_session(prompt.running.session)
            except UpstreamError as error:
                if error.outcome == Outcome.CORRUPTED:
                    detail = f"{failure.detail}; {error.message}"
                    return PromptResult(outcome=Outcome.CORRUPTED, detail=detail)
        return failure

    async def _failure_of(self, prompt: _Prompt) -> PromptResult | None:
        running = prompt.running
        cut_short = self._cut_short(running, has_died=bool(self._lost), asked_to="abort")
        if cut_short is not None:
            return cut_short
        if isinstance(running.error, ApiError):
            return PromptResult(outcome=running.error.outcome, detail=str(running.error))
        if isinstance(running.error, TimeoutError):
            waited_s = self._request.start_timeout_s
            detail = f"the server did not take the prompt within {waited_s:g} s"
            return PromptResult(outcome=Outcome.TIMED_OUT, detail=detail)
        if running.error is not None or not prompt.turn.is_over:
            died = await self._server.died("the prompt")
            detail = f"{died} ({self._lost})" if self._server.violation is None else str(died)
            return PromptResult(outcome=Outcome(died.outcome), detail=detail)
        # What was given up comes before the error that our own abort of it leaves.
        return prompt.turn.given_up or prompt.turn.failure

    # --- what arrives --------------------------------------------------------------------------

    async def _take(self, event: Any) -> None:
        payload = member(event, "payload")
        kind, properties = text_at(payload, "type"), object_at(payload, "properties")
        prompt = self._prompt
        if prompt is None or prompt.is_ended.is_set():
            # What was said after a prompt's end is counted; its messages are not the next one's.
            self.late_events += kind in SPOKEN
            if kind == "message.updated":
                self._stale.add(text_at(properties, "info", "id"))
            return
        if isinstance(event, Unreadable) or not kind:
            raw = event.raw if isinstance(event, Unreadable) else event
            await self._deliver((unknown("unreadable_event", raw),), prompt.running)
            return
        await self._deliver(prompt.turn.take(kind, properties), prompt.running)
        self._answer(prompt, kind, properties, text_at(event, "directory"))
        if prompt.turn.given_up is not None:
            self._stop(prompt)
        if prompt.turn.failure_before is not None and not prompt.is_doubted:
            prompt.is_doubted = True
            self._begin(self._end_unbegun, prompt)
        if prompt.turn.has_silent_child and not prompt.is_listened_for:
            prompt.is_listened_for = True
            self._begin(self._end_silent, prompt)
        prompt.end_if_over()

    async def _end_silent(self, prompt: _Prompt) -> None:
        """End the sub-agents in the background that stand still and are not told as ended."""
        has_ended = await prompt.ended_within(TOLD_WITHIN_S)
        prompt.is_listened_for = False
        if not has_ended:
            await self._deliver(prompt.turn.end_silent(), prompt.running)
        prompt.end_if_over()

    async def _end_unbegun(self, prompt: _Prompt) -> None:
        """End a prompt that the server has given up before it began, and says nothing more of."""
        await prompt.ended_within(BEGINS_WITHIN_S)
        prompt.is_doubted = False
        prompt.turn.end_unbegun()
        prompt.end_if_over()

    def _answer(self, prompt: _Prompt, kind: str, properties: AnyJson, directory: str) -> None:
        """Have a question answered in a task of its own: the others are not kept waiting."""
        if not prompt.turn.family.has(session_at(properties, "sessionID")):
            return
        client = self._server.client
        if kind in {"permission.asked", "question.asked"}:
            client.allowance.take_request()
        if kind == "permission.asked":
            ask = self._request.answer_permission
            self._begin(answer_asked, client, ask, properties, prompt.running, directory)
        elif kind == "question.asked":
            self._begin(dismiss_question, client, properties, prompt.running, directory)


# --- how it is started, with the plug-in of ours that asks before each call -----------------------


CONFIG = "OPENCODE_CONFIG_CONTENT"
"""The variable with more configuration. OpenCode adds up the plug-ins of all its configurations."""


class OpenCodeAdapter(Adapter):
    """OpenCode, natively."""

    row = AGENTS["opencode"]

    @asynccontextmanager
    async def open(self, request: OpenRequest) -> AsyncGenerator[AgentConnection]:
        async with listening() as calls:
            given = request.environment
            await anyio.to_thread.run_sync(require_usable, request, given)
            # A configuration of the person's own in that variable stays in it: sooner without the
            # gate, which `can_hold` tells, than in the place of what cannot be read.
            is_asking = request.hold_call is not None
            gate = with_gate(agent_environment(given)) if is_asking else None
            environment = {**given, **calls.environment, **gate} if gate else given
            async with started_server(self.agent, self.command, request, environment) as server:
                connection = OpenCodeConnection(
                    server, request, calls=calls if gate else None, now_ms=self.now_ms
                )
                async with connection.serving():
                    yield connection


def with_gate(environment: Environment) -> dict[str, str] | None:
    """Return the variable that adds the plug-in to what it held; None where that cannot be read."""
    given: Any = {}
    if environment.get(CONFIG):
        try:
            given = json.loads(environment[CONFIG])
        except ValueError:  # OpenCode also takes comments
            return None
    plugins = object_at(given).get("plugin", [])
    if not isinstance(given, dict) or not isinstance(plugins, list):
        return None
    gate = f"file://{files('upthread').joinpath('agents/opencode/gate.js')}"
    return {CONFIG: json.dumps({**given, "plugin": [*plugins, gate]})}


ADAPTER = OpenCodeAdapter
"""By which the registry makes it."""
