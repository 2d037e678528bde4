"""Starting an agent that speaks ACP, and one that runs: its sessions, and one prompt at a time.

It translates and never decides: an id that cannot be attached is an error, never another session. A
permission is granted by the caller's answer alone: without a running prompt, without an answer, or
with one the agent did not offer, the request is cancelled (A13). The words are ACP's (schema
1.19.0).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Final

import anyio
import anyio.to_thread

from upthread.agent_stores.homes import agent_environment
from upthread.agents._connection import Adapter, Connection, require_usable, start_of
from upthread.agents._json_lines import Unreadable, member
from upthread.agents._outcomes import ended_with, failed
from upthread.agents._permissions import permission
from upthread.agents._process import ChildProcess, started_child
from upthread.agents._prompt import RunningPrompt
from upthread.agents.acp.children import Translator, read_silent_children
from upthread.agents.acp.outcomes import (
    CODE_METHOD_NOT_FOUND,
    in_agents_words,
    is_system_error,
    result_of,
)
from upthread.agents.acp.peer import AgentWords, Peer, RpcError
from upthread.agents.acp.quirks import Quirk, quirk_for
from upthread.agents.acp.sessions import Sessions
from upthread.agents.acp.wire import (
    Initialized,
    Message,
    PermissionParams,
    implied_kinds,
    locations_of,
    shaped,
)
from upthread.agents.base import (
    AgentConnection,
    Capabilities,
    ListedSession,
    OnEvent,
    OpenRequest,
    PermissionRequest,
    PromptResult,
)
from upthread.core.agents import AGENTS
from upthread.core.events import AgentEvent, TextReceived, UnknownReceived
from upthread.core.quotas import VERSION_CHARACTERS_MAX, one_line_name
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.tasks import task_group
from upthread.version import __version__

PROTOCOL_VERSION: Final = 1
SETTLE_S: Final = 0.25
"""How long after an aborted prompt its late words may still come; then the next one may leave."""

_CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}


class AcpConnection(Connection):
    """A running agent. Made by `AcpAdapter.open` only; shake hands before anything else."""

    def __init__(self, child: ChildProcess, request: OpenRequest, words: AgentWords) -> None:
        self._peer = Peer(
            child,
            words,
            timeout_s=request.start_timeout_s,
            on_notification=self._on_notification,
            on_request=self._on_request,
        )
        super().__init__(request, self._peer)
        self._words = words
        self._translator = Translator()
        self._replay: list[AgentEvent] | None = None
        self._aborted_messages: set[str] = set()
        self._settled_at = 0.0
        self._capabilities = Capabilities(
            agent=words.agent, version="", can_resume=False, can_load=False
        )
        self._sessions = Sessions(self._peer, working_directory=request.working_directory)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

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
        self._capabilities = Capabilities(
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
        self._sessions.can_list = self._capabilities.can_list

    # --- sessions ------------------------------------------------------------------------------

    async def new_session(self) -> UpstreamSessionId:
        return await self._sessions.new()

    async def resume_session(self, upstream_session_id: UpstreamSessionId) -> None:
        self._require(can=self._capabilities.can_resume, what="resume sessions")
        await self._sessions.attach("session/resume", upstream_session_id)

    async def load_session(self, upstream_session_id: UpstreamSessionId) -> tuple[AgentEvent, ...]:
        self._require(can=self._capabilities.can_load, what="load sessions")
        replay = self._replay = []
        try:
            await self._sessions.attach("session/load", upstream_session_id)
        finally:
            self._replay = None
            self._translator.take_silent()  # calls that are replayed are no calls of a prompt
        return tuple(replay)

    async def list_sessions(self) -> tuple[ListedSession, ...]:
        self._require(can=self._capabilities.can_list, what="list sessions")
        return await self._sessions.listed({})

    async def fork_session(self, upstream_session_id: UpstreamSessionId) -> UpstreamSessionId:
        self._require(can=self._capabilities.can_fork, what="fork sessions")
        return await self._sessions.fork(upstream_session_id)

    def _require(self, *, can: bool, what: str) -> None:
        if not can:
            raise UpstreamError(
                f"{self._words.agent} {self._capabilities.version} cannot {what}".replace(
                    "  ", " "
                ),
                outcome=Outcome.UNKNOWN,
                hint="it did not announce that at start; see `upthread agents`",
            )

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
        if is_alive and self._words.quirk.has_silent_children and self._capabilities.can_load:
            await read_silent_children(self._translator, self.load_session, on_event)
        return await self._concluded(running)

    async def _concluded(self, running: RunningPrompt) -> PromptResult:
        has_died = isinstance(running.error, ConnectionError)
        cut_short = self._cut_short(running, has_died=has_died)
        if cut_short is not None:
            self._aborted_messages |= running.message_ids
            self._settled_at = anyio.current_time() + SETTLE_S
            return self._with_tokens(running, cut_short)
        if has_died:
            return self._with_tokens(running, failed(await self._peer.died("session/prompt")))
        if running.error is not None:
            return self._with_tokens(running, await self._failure_of(running))
        return result_of(running.answer, running.seen, quirk=self._words.quirk)

    async def _failure_of(self, running: RunningPrompt) -> PromptResult:
        refusal = self._words.refusal(running.error)
        outcome, detail = refusal.outcome, refusal.detail
        if not refusal.is_certain:
            outcome, because = await self._sessions.confirmed(outcome, detail, running.session)
            detail = in_agents_words(detail + because) if outcome is Outcome.UNKNOWN else detail
        return ended_with(outcome, detail, reset_at_ms=self._words.reset_at_ms(refusal))

    # --- what arrives --------------------------------------------------------------------------

    async def _on_notification(self, frame: Message | Unreadable) -> None:
        for event in self._events_of(frame):
            await self._take(event)

    def _events_of(self, frame: Message | Unreadable) -> tuple[AgentEvent, ...]:
        if isinstance(frame, Unreadable):
            unreadable = UnknownReceived(
                upstream_session_id=None, kind="unreadable_frame", raw=frame.raw
            )
            return (unreadable,)
        params = frame.content.get("params")
        if frame.method == "session/update":
            if self._running is not None:
                update = member(params, "update")
                self._running.seen.has_system_error |= is_system_error(update)
            return self._translator.translate(params)
        said_by = member(params, "sessionId")
        session = UpstreamSessionId(said_by) if isinstance(said_by, str) else None
        kind = frame.method or ""
        return (UnknownReceived(upstream_session_id=session, kind=kind, raw=frame.content),)

    async def _take(self, event: AgentEvent) -> None:
        if self._replay is not None:
            self._replay.append(event)
            return
        # A message of a prompt that was left may go on, and would join this reply (A8).
        is_stale = isinstance(event, TextReceived) and event.message_id in self._aborted_messages
        await self._deliver((event,), None if is_stale else self._running)

    async def _on_request(self, method: str, params: object) -> dict[str, Any]:
        # OpenCode 1.18.33 asks for its edits all the same, and writes by itself (ADR 50).
        if method != "session/request_permission":
            raise RpcError(CODE_METHOD_NOT_FOUND, "Method not found", {"method": method})
        if self._running is None:
            self._late_events += 1
        return await self._permitted(params)

    async def _permitted(self, params: object) -> dict[str, Any]:
        """Return the result to send back for one request for a permission."""
        asked = shaped(params, PermissionParams)
        if asked is None or self._running is None:
            return _CANCELLED
        ask = self._request.answer_permission
        option_id = await permission(_permission_request(asked), self._running, ask)
        if option_id is None:
            return _CANCELLED
        return {"outcome": {"outcome": "selected", "optionId": option_id}}


def _introduction(quirk: Quirk) -> dict[str, Any]:
    capabilities: dict[str, Any] = {
        # Each agent reads, writes and runs by itself (ADR 50).
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
        # Without directories: the name of one says nothing of the agent.
        return quirk_for(self._agent, *(PurePath(word).name for word in self._command))

    @asynccontextmanager
    async def open(self, request: OpenRequest) -> AsyncGenerator[AgentConnection]:
        # The row's last: this adapter relies on what it sets.
        environment = {**request.environment, **self._quirk.environment}
        is_opencode = self._quirk.name == "opencode"
        if is_opencode:
            await anyio.to_thread.run_sync(require_usable, request, environment)
        words = AgentWords(
            agent=self._agent,
            quirk=self._quirk,
            now_ms=self.now_ms,
            home=_home(agent_environment(environment), self._quirk),
        )
        start = start_of(request, self._command, environment, is_opencode=is_opencode)
        async with started_child(start) as child:
            connection = AcpConnection(child, request, words)
            async with connection.serving():
                await connection.shake_hands()
                yield connection

    def resume_command(self, upstream_session_id: UpstreamSessionId) -> tuple[str, ...] | None:
        row = AGENTS.get(self._quirk.name)
        return row.resume_command(upstream_session_id) if row else None


def _home(environment: Mapping[str, str], quirk: Quirk) -> Path:
    named = (environment.get(name) for name in quirk.home_variables)
    return Path(next(filter(None, named), "~"))
