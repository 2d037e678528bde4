"""An agent that speaks ACP: its messages in their order, its sessions, and one prompt at a time.

The adapter translates and never decides: an id that cannot be attached is an error, never another
session. A permission is granted by the caller's answer alone: without a running prompt, without an
answer, or with one the agent did not offer, the request is cancelled (A13). The words are ACP's
(schema 1.19.0).

On the wire is JSON-RPC 2.0. What we ask is answered under the number we gave it. What the agent
tells is handed to `on_notification` and awaited before the next line is read. What it asks is
answered in a task of its own, for a person may think about it, and the answer to our own prompt
comes after. Lines that cannot be read are handed on raw. Every way a request outside a prompt can
fail becomes an UpstreamError in full words.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from upthread.agent_stores.homes import agent_environment
from upthread.agents._connection import (
    Adapter,
    Connection,
    JsonLines,
    RefusedByAgentError,
    require_usable,
    start_of,
)
from upthread.agents._json_lines import Unreadable, unknown
from upthread.agents._outcomes import ended_with, failed
from upthread.agents._process import ChildProcess, started_child
from upthread.agents._prompt import RunningPrompt, permission
from upthread.agents.acp.children import Translator, read_silent_children
from upthread.agents.acp.wire import (
    ABOUT_THE_SESSION,
    CODE_METHOD_NOT_FOUND,
    Initialized,
    Message,
    PermissionParams,
    Quirk,
    Refusal,
    SessionPage,
    implied_kinds,
    in_agents_words,
    is_system_error,
    locations_of,
    message_in,
    outcome_of_suspicion,
    quirk_for,
    refusal_in,
    result_of,
    shaped,
)
from upthread.agents.base import (
    AgentConnection,
    Capabilities,
    OnEvent,
    OpenRequest,
    PermissionRequest,
    PromptResult,
)
from upthread.core.codec import AnyJson, member, object_at, session_at, text_at
from upthread.core.events import AgentEvent, Events, TextReceived
from upthread.core.quotas import (
    HISTORY,
    TURN,
    VERSION_CHARACTERS_MAX,
    milliseconds_of,
    one_line_name,
)
from upthread.core.types import Environment, Outcome, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.tasks import task_group
from upthread.version import __version__

_HAS_ENDED = "the agent's output has ended"


class RpcError(Exception):
    """An error object of JSON-RPC, as one end answers the other with."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class AgentWords(Struct, kw_only=True):
    """The agent as its user named it, what is particular to it, and the clock for reset times.

    `quirk` is settled once the agent has said its own name. `home` is the agent's HOME.
    """

    agent: str
    quirk: Quirk
    now_ms: Callable[[], int]
    home: Path

    def refusal(self, error: Exception | None) -> Refusal:
        """Say what an error answer means for this agent."""
        code = getattr(error, "code", 0)
        return refusal_in(code, str(error), getattr(error, "data", None), quirk=self.quirk)

    def reset_at_ms(self, refusal: Refusal) -> int | None:
        """Return when a rate limit ends, None where the agent did not say."""
        after_ms = milliseconds_of(refusal.reset_after_s)
        return None if after_ms is None else self.now_ms() + after_ms


class Peer(JsonLines):
    """A running agent at the other end. `serve` reads it until its output ends."""

    speaks: ClassVar = "ACP"

    def __init__(
        self,
        child: ChildProcess,
        words: AgentWords,
        *,
        timeout_s: float,
        on_notification: Callable[[Message | Unreadable], Awaitable[None]],
        on_request: Callable[[str, Any], Awaitable[AnyJson]],
    ) -> None:
        super().__init__(child, agent=words.agent, timeout_s=timeout_s)
        self.words = words
        self._on_notification = on_notification
        self._on_request = on_request
        self._tasks: TaskGroup | None = None

    async def serve(self, tasks: TaskGroup) -> None:
        """Read every message until there will be no more; requests are answered in `tasks`."""
        self._tasks = tasks
        await self.read_all()

    # --- what we ask ---------------------------------------------------------------------------

    async def call(self, method: str, params: AnyJson) -> AnyJson:
        """Ask, within the start-up deadline. Raises UpstreamError for every way it can fail."""
        # The answer to a load comes after the whole history, which has a quota of its own.
        self.child.allowance.renew(HISTORY)
        answer = await self._answer_to(
            method,
            lambda number: self._send({"id": number, "method": method, "params": params}),
            session=text_at(params, "sessionId"),
        )
        try:
            return object_at(_result_of(answer))
        except RpcError as error:
            raise self._refusal(method, text_at(params, "sessionId"), error) from error

    async def ask(self, method: str, params: AnyJson) -> object:
        """Return the result, however late. RpcError for a refusal, ConnectionError for none."""
        return _result_of(
            await self._questions.ask(
                lambda number: self._send({"id": number, "method": method, "params": params})
            )
        )

    async def prompt(
        self, session: UpstreamSessionId, text: str
    ) -> tuple[object, Exception | None]:
        """Return the answer to a prompt, or the error it ended with."""
        self.child.allowance.renew(TURN)
        # No deadline here: how long a prompt may take is kept by `RunningPrompt`.
        content = [{"type": "text", "text": text}]
        try:
            return await self.ask("session/prompt", {"sessionId": session, "prompt": content}), None
        except (RpcError, ConnectionError) as error:
            return None, error

    async def send_cancel(self, session: UpstreamSessionId) -> None:
        """Ask the agent to stop the running prompt; one that is gone has ended it."""
        if not self.has_ended.is_set():
            await self._send({"method": "session/cancel", "params": {"sessionId": session}})

    def _refusal(self, method: str, session: str, error: RpcError) -> RefusedByAgentError:
        refusal = self.words.refusal(error)
        is_auth = refusal.outcome is Outcome.AUTH
        hint = "sign in with the agent's own command first" if is_auth else ""
        refused = self.refused(
            method, refusal.detail, outcome=refusal.outcome, session=session, hint=hint
        )
        refused.is_certain, refused.said = refusal.is_certain, refusal.detail
        refused.reset_at_ms = self.words.reset_at_ms(refusal)
        return refused

    # --- what it says --------------------------------------------------------------------------

    async def _take(self, message: object) -> None:
        frame = message if isinstance(message, Unreadable) else message_in(message)
        if isinstance(frame, Unreadable):
            self.note_unreadable(frame.raw)
            await self._on_notification(frame)
        elif frame.is_request:
            self.child.allowance.take_request()
            assert self._tasks is not None
            self._tasks.start_soon(self._answer, frame)
        elif frame.method is not None:
            await self._on_notification(frame)
        else:
            self._questions.answer(frame.content.get("id"), frame.content)

    async def _answer(self, request: Message) -> None:
        said: dict[str, Any] = {"id": request.content["id"]}
        try:
            said["result"] = await self._on_request(
                request.method or "", request.content.get("params")
            )
        except RpcError as error:
            said["error"] = {"code": error.code, "message": str(error), "data": error.data}
        await self._send(said)

    async def _send(self, message: AnyJson) -> None:
        await self.send({"jsonrpc": "2.0", **message})


def _result_of(answer: AnyJson | None) -> object:
    if answer is None:
        raise ConnectionError(_HAS_ENDED)
    if "error" in answer and "result" not in answer:
        error = object_at(answer["error"])
        raise RpcError(error["code"], str(error.get("message", "")), error.get("data"))
    return answer.get("result")


# --- its sessions: exactly the one asked for, or an error -----------------------------------------

# `missing` is said only where it is known: by the agent's own code for it, or because the agent
# lists its sessions and this is not among them. Whatever else goes wrong leaves the session where
# it is.
#
# One agent would empty a session that it loads too soon. Gemini CLI 0.61.0 keeps a session in a
# file that carries the minute it was begun in. Each load begins a recording of its own first, under
# the minute of the load: within the same minute that is the very file, whose messages are gone then
# for good. Which minute a session has a file for can be seen, so that there is never a wait without
# need, and at most one of a minute.


LIST_PAGES_MAX = 1000
"""Of pages as small as 20 that is 20,000 sessions. A list that does not end may lack any session,
and what it lacks would count as gone."""

_IF_LISTED = {
    True: "; the agent still lists this session",
    False: "; the agent does not list this session",
}

MINUTE_MS = 60_000
_HEAD_CHARACTERS = 8
"""As much of a session's id as Gemini CLI puts into the name of its file (0.61.0)."""
_HEAD = re.compile(rf"[0-9a-z-]{{{_HEAD_CHARACTERS}}}")


def wait_ms(home: Path, pattern: str, session: str, *, now_ms: int) -> int:
    """Return how long a load is to wait, 0 where it may begin. Blocking.

    `pattern` says where below `home` the file of a session is; `{minute}` in it is a minute of UTC,
    `{head}` how the session's id begins.
    """
    head = session[:_HEAD_CHARACTERS]
    if not _HEAD.fullmatch(head):
        return 0  # no session of that agent: it will say so
    minute = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H-%M")
    if not any(home.glob(pattern.format(minute=minute, head=head))):
        return 0
    return MINUTE_MS - now_ms % MINUTE_MS


# --- one that runs, and how it is started ---------------------------------------------------------


PROTOCOL_VERSION = 1
SETTLE_S = 0.25
"""How long after an aborted prompt its late words may still come; then the next one may leave."""

_CANCELLED = {"outcome": {"outcome": "cancelled"}}


class AcpConnection(Connection):
    """A running agent. Made by `AcpAdapter.open` only; shake hands before anything else."""

    def __init__(self, child: ChildProcess, request: OpenRequest, words: AgentWords) -> None:
        peer = Peer(
            child,
            words,
            timeout_s=request.start_timeout_s,
            on_notification=self._on_notification,
            on_request=self._on_request,
        )
        super().__init__(request, peer)
        self._peer = peer
        self._words = words
        self._place: AnyJson = {"cwd": request.working_directory, "mcpServers": []}
        self.capabilities = Capabilities(
            agent=words.agent, version="", can_resume=False, can_load=False
        )
        self._translator = Translator()
        self._replay: list[AgentEvent] | None = None
        self._aborted_messages: set[str] = set()
        self._settled_at = 0.0

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Read the agent for a block; at its end the agent is ended, and read to its last word."""
        async with task_group() as tasks:
            tasks.start_soon(self._peer.serve, tasks)
            try:
                yield
            finally:
                await self._peer.child.stop()
                tasks.cancel_scope.cancel()

    # --- the handshake -------------------------------------------------------------------------

    async def shake_hands(self) -> None:
        """Say hello and learn what the agent can do. Raises UpstreamError (A2)."""
        answer = await self._peer.call("initialize", _introduction(self._words.quirk))
        hello = shaped(answer, Initialized)
        if hello is None:
            raise UpstreamError(
                f"{self._words.agent} answered `initialize` with what is not ACP: {answer!r}",
                outcome=Outcome.UNKNOWN,
                hint="is the command an ACP agent? it may need an argument such as `acp`",
            )
        if hello.protocol_version != PROTOCOL_VERSION:
            raise UpstreamError(
                f"{self._words.agent} speaks ACP version {hello.protocol_version!r}, "
                f"and upthread speaks version {PROTOCOL_VERSION}",
                outcome=Outcome.UNKNOWN,
                hint="install a version of the agent, or of upthread, that matches",
            )
        self._learn(hello)

    def _learn(self, hello: Initialized) -> None:
        name = hello.agent_info.name if hello.agent_info else ""
        version_said = hello.agent_info.version if hello.agent_info else ""
        if not self._words.quirk.name:
            self._words.quirk = quirk_for(name)
        capabilities = hello.agent_capabilities
        self.capabilities = Capabilities(
            agent=self._words.agent,
            version=one_line_name(version_said, most=VERSION_CHARACTERS_MAX),
            calls_itself=one_line_name(name),
            can_resume=hello.can("resume"),
            can_load=bool(capabilities and capabilities.load_session),
            can_list=hello.can("list"),
            lists_sub_agents=hello.can("list"),
            can_fork=hello.can("fork"),
            vendor=self._words.quirk.name,
            store=self._words.quirk.store,
        )

    # --- sessions ------------------------------------------------------------------------------

    def _require(self, *, can: bool, what: str) -> None:
        if not can:
            raise UpstreamError(
                f"{self._words.agent} {self.capabilities.version} cannot {what}".replace("  ", " "),
                outcome=Outcome.UNKNOWN,
                hint="it did not announce that at start; see `upthread agents`",
            )

    async def new_session(self) -> UpstreamSessionId:
        answer = await self._peer.call("session/new", self._place)
        return self._peer.session_named(answer.get("sessionId"), "session/new")

    async def resume_session(self, session: UpstreamSessionId) -> None:
        self._require(can=self.capabilities.can_resume, what="resume sessions")
        await self._attach("session/resume", session)

    async def _attach(self, method: str, session: UpstreamSessionId) -> None:
        await self._wait_out_minute(session)
        answer = await self._called(method, session)
        # ACP has no id in this answer; one that is there all the same has to be this (A4).
        returned = answer.get("sessionId", session)
        if returned != session:
            error = self._peer.opened_another(returned, session)
            await self._confirm(error, session)
            raise error
        if self._words.quirk.attaches_what_is_gone and (await self._looked_up(session))[0] is False:
            raise UpstreamError(
                f"{self._peer.agent} attached session {session} and does not list it",
                outcome=Outcome.MISSING,
                hint="it was not used",
                upstream_session_id=session,
            )

    async def _called(self, method: str, session: UpstreamSessionId) -> AnyJson:
        try:
            return await self._peer.call(method, {**self._place, "sessionId": session})
        except RefusedByAgentError as refused:
            await self._confirm(refused, session)
            raise

    async def _wait_out_minute(self, session: UpstreamSessionId) -> None:
        words = self._words
        if pattern := words.quirk.file_of_minute:
            patience_ms = partial(wait_ms, words.home, pattern, session, now_ms=words.now_ms())
            await anyio.sleep(await anyio.to_thread.run_sync(patience_ms) / 1000)

    async def _confirm(self, refused: UpstreamError, session: UpstreamSessionId) -> None:
        """Give an error an outcome that can be relied on (A4)."""
        if isinstance(refused, RefusedByAgentError) and refused.is_certain:
            return
        # An opaque refusal of this very session suggests the one thing that its list can tell.
        is_opaque = refused.outcome is Outcome.UNKNOWN
        suspected = Outcome.MISSING if is_opaque else Outcome(refused.outcome)
        # Not our message, which names the session in any case.
        said = ""
        if isinstance(refused, RefusedByAgentError) and not is_opaque:
            said = refused.said
        refused.outcome, because = await self._confirmed(suspected, said, session)
        refused.message += because

    async def _confirmed(
        self, suspected: Outcome, said: str, session: UpstreamSessionId
    ) -> tuple[Outcome, str]:
        """Return what is left of an outcome that words alone suggest, and what the list says."""
        is_listed, because = (
            await self._looked_up(session) if suspected in ABOUT_THE_SESSION else (None, "")
        )
        outcome = outcome_of_suspicion(suspected, is_listed=is_listed, is_named=session in said)
        return outcome, because

    async def _looked_up(self, session: UpstreamSessionId) -> tuple[bool | None, str]:
        """Return whether the agent lists a session, anywhere or here, and the words for it.

        None when it cannot be asked, or does not end its list in time.
        """
        if not self.capabilities.can_list:
            return None, ""
        # What an agent lists without a directory is its own choice, so it is asked twice.
        try:
            listed = await self._listed({}, {"cwd": self._place["cwd"]}, until=session)
        # Not to be asked is not to lack it: only a list without it makes it missing (A4).
        except UpstreamError as error:
            return None, f"; {error.message}" if error.outcome is Outcome.TIMED_OUT else ""
        is_listed = session in listed
        return is_listed, _IF_LISTED[is_listed]

    async def list_sessions(self) -> tuple[UpstreamSessionId, ...]:
        self._require(can=self.capabilities.can_list, what="list sessions")
        return await self._listed({})

    async def _listed(
        self, *scopes: Mapping[str, str], until: str = ""
    ) -> tuple[UpstreamSessionId, ...]:
        """Return the sessions of each scope, or those up to one. All pages have one deadline."""
        listed: list[UpstreamSessionId] = []
        try:
            with anyio.fail_after(self._peer.timeout_s):
                for scope in scopes:
                    async for sessions in self._pages(scope):
                        listed += sessions
                        if until in sessions:
                            return tuple(listed)
        except TimeoutError as error:
            raise self._peer.timed_out("session/list to its end") from error
        return tuple(listed)

    async def _pages(self, scope: Mapping[str, str]) -> AsyncGenerator[list[UpstreamSessionId]]:
        cursor: str | None = None
        for _ in range(LIST_PAGES_MAX):
            params = {**scope, "cursor": cursor} if cursor else dict(scope)
            page = shaped(await self._peer.call("session/list", params), SessionPage)
            if page is None:
                break
            yield [UpstreamSessionId(one.session_id) for one in page.sessions]
            # A cursor that stands still would give the same page for ever.
            if not page.next_cursor or page.next_cursor == cursor:
                return
            cursor = page.next_cursor
        raise UpstreamError(
            f"{self._peer.agent} answered session/list with something that is no list",
            outcome=Outcome.UNKNOWN,
            hint="its sessions cannot be confirmed",
        )

    async def fork_session(self, session: UpstreamSessionId) -> UpstreamSessionId:
        self._require(can=self.capabilities.can_fork, what="fork sessions")
        answer = await self._called("session/fork", session)
        return self._peer.fork_named(answer.get("sessionId"), session, "session/fork")

    async def load_session(self, session: UpstreamSessionId) -> Events:
        self._require(can=self.capabilities.can_load, what="load sessions")
        replay = self._replay = []
        try:
            await self._attach("session/load", session)
        finally:
            self._replay = None
            self._translator.take_silent()  # calls that are replayed are no calls of a prompt
        return tuple(replay)

    # --- prompts -------------------------------------------------------------------------------

    async def _answered(
        self, session: UpstreamSessionId, text: str, on_event: OnEvent
    ) -> PromptResult:
        await anyio.sleep_until(self._settled_at)
        running = RunningPrompt(session, self._request)

        async def ask() -> None:
            running.answer, running.error = await self._peer.prompt(running.session, text)

        async def cancel() -> None:
            await self._peer.send_cancel(running.session)

        await self._run(running, on_event, ask=ask, cancel=cancel)
        # Before the prompt returns, while its events still belong to it (A6, A8).
        is_alive = not isinstance(running.error, ConnectionError)
        if is_alive and self._words.quirk.has_silent_children and self.capabilities.can_load:
            await read_silent_children(self._translator, self.load_session, on_event)
        return await self._concluded(running)

    async def _concluded(self, running: RunningPrompt) -> PromptResult:
        has_died = isinstance(running.error, ConnectionError)
        failure = self._cut_short(running, has_died=has_died)
        if failure is not None:
            self._aborted_messages |= running.message_ids
            self._settled_at = anyio.current_time() + SETTLE_S
        elif has_died:
            failure = failed(await self._peer.died("session/prompt"))
        elif running.error is not None:
            failure = await self._failure_of(running)
        else:
            return result_of(running.answer, running.seen, quirk=self._words.quirk)
        return self._with_tokens(running, failure)

    async def _failure_of(self, running: RunningPrompt) -> PromptResult:
        refusal = self._words.refusal(running.error)
        outcome, detail = refusal.outcome, refusal.detail
        if not refusal.is_certain:
            outcome, because = await self._confirmed(outcome, detail, running.session)
            detail = in_agents_words(detail + because) if outcome is Outcome.UNKNOWN else detail
        return ended_with(outcome, detail, reset_at_ms=self._words.reset_at_ms(refusal))

    # --- what arrives --------------------------------------------------------------------------

    async def _on_notification(self, frame: Message | Unreadable) -> None:
        for event in self._events_of(frame):
            await self._take(event)

    def _events_of(self, frame: Message | Unreadable) -> Events:
        if isinstance(frame, Unreadable):
            return (unknown("unreadable_frame", frame.raw),)
        params = frame.content.get("params")
        if frame.method == "session/update":
            if self._running is not None:
                update = member(params, "update")
                self._running.seen.has_system_error |= is_system_error(update)
            return self._translator.translate(params)
        session = session_at(params, "sessionId") or None
        return (unknown(frame.method or "", frame.content, session),)

    async def _take(self, event: AgentEvent) -> None:
        if self._replay is not None:
            self._replay.append(event)
            return
        # A message of a prompt that was left may go on, and would join this reply (A8).
        is_stale = isinstance(event, TextReceived) and event.message_id in self._aborted_messages
        await self._deliver((event,), None if is_stale else self._running)

    async def _on_request(self, method: str, params: object) -> AnyJson:
        # OpenCode 1.18.33 asks for its edits all the same, and writes by itself (ADR 97).
        if method != "session/request_permission":
            raise RpcError(CODE_METHOD_NOT_FOUND, "Method not found", {"method": method})
        if self._running is None:
            self.late_events += 1
        asked = shaped(params, PermissionParams)
        if asked is None or self._running is None:
            return _CANCELLED
        ask = self._request.answer_permission
        option_id = await permission(_permission_request(asked), self._running, ask)
        if option_id is None:
            return _CANCELLED
        return {"outcome": {"outcome": "selected", "optionId": option_id}}


def _introduction(quirk: Quirk) -> AnyJson:
    capabilities: dict[str, Any] = {
        # Each agent reads, writes and runs by itself (ADR 97).
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        # A compaction is then told apart from a call (claude-agent-acp 0.101.0, codex-acp 2.6.0).
        "session": {"compaction": {}},
        # Beside the protocol: codex-acp tells with it what its sub-agents do, each under a session
        # id of its own, unless its row's `client_meta` keeps it from that (2.6.0); others pass it
        # over.
        "subagents": {},
    }
    if quirk.client_meta:
        capabilities["_meta"] = dict(quirk.client_meta)
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": capabilities,
        "clientInfo": {"name": "upthread", "title": "upthread", "version": __version__},
    }


def _permission_request(asked: PermissionParams) -> PermissionRequest:
    call = asked.tool_call
    return PermissionRequest(
        upstream_session_id=UpstreamSessionId(asked.session_id),
        call_id=call.tool_call_id,
        title=call.title or "",
        tool_kind=call.kind or "other",
        arguments=call.raw_input,
        locations=locations_of(call) or (),
        implied_kinds=frozenset(implied_kinds(call)),
        options=tuple((option.option_id, option.kind) for option in asked.options),
    )


class AcpAdapter(Adapter):
    """One ACP agent. Its `quirk` row is found by the agent's name and its command."""

    @cached_property
    def _quirk(self) -> Quirk:
        return quirk_for(self.agent, *self.command)

    @asynccontextmanager
    async def open(self, request: OpenRequest) -> AsyncGenerator[AgentConnection]:
        # The row's last: this adapter relies on what it sets.
        environment = {**request.environment, **self._quirk.environment}
        is_opencode = self._quirk.name == "opencode"
        if is_opencode:
            await anyio.to_thread.run_sync(require_usable, request, environment)
        words = AgentWords(
            agent=self.agent,
            quirk=self._quirk,
            now_ms=self.now_ms,
            home=_home(agent_environment(environment), self._quirk),
        )
        start = start_of(request, self.command, environment, is_opencode=is_opencode)
        async with started_child(start) as child:
            connection = AcpConnection(child, request, words)
            async with connection.serving():
                await connection.shake_hands()
                yield connection


def _home(environment: Environment, quirk: Quirk) -> Path:
    named = (environment.get(name) for name in quirk.home_variables)
    return Path(next(filter(None, named), "~"))
