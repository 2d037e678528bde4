"""Codex for one caller: its threads, one prompt at a time, its hooks, and what it asks.

Nothing is decided here, only translated. One task reads the server's lines, another takes what it
tells, in order, and waits while an event is taken in; what we ask is answered beside that.

Our hook asks before each call. It stands in the configuration of that one start, and so does the
trust in it: Codex runs no hook that nobody trusts, says so only when asked, and knows one by a hash
of what it runs (as seen in 0.169.0). Hooks of others stay as they are, trusted or not.

Only ids reach the server, in the one form Codex gives them: what is no UUID it would take for a
name or refuse with words of its own. What comes back is compared with what was asked for.
"""

import hashlib
import json
import re
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import anyio
from msgspec import Struct, structs

from upthread.agents._connection import Adapter, ServerConnection, is_uuid, start_of
from upthread.agents._json_lines import Unreadable, of_session, unknown
from upthread.agents._outcomes import failed
from upthread.agents._process import started_child
from upthread.agents._prompt import (
    ALLOW,
    REJECT,
    CallListener,
    RunningPrompt,
    listening,
    permission,
)
from upthread.agents.base import (
    ALLOW_OR_REJECT,
    AnswerPermission,
    Capabilities,
    OnEvent,
    OpenRequest,
    PermissionRequest,
    PromptResult,
)
from upthread.agents.codex.items import history_of
from upthread.agents.codex.server import FIRST_NAME, SPOKEN, CodexServer, Prompt, Turn
from upthread.core.agents import AGENTS
from upthread.core.codec import AnyJson, member, object_at, objects_at, session_at, text_at
from upthread.core.events import Events, ToolCallAnnounced
from upthread.core.quotas import HISTORY, TITLE_CHARACTERS_MAX, TURN, VERSION_CHARACTERS_MAX
from upthread.core.text import one_line
from upthread.core.types import QUESTION_DISMISSED, JsonValue, Outcome, UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.tasks import task_group
from upthread.version import __version__

TIMEOUT_S = 3600
"""How long a call waits for us: a person may be asked."""

# What a hook of the command line is called in Codex's own list of trust (0.169.0): the first group
# of hooks for the event, and in it the first hook. Whether Codex takes that one for trusted is
# asked once it runs: what it does not trust it leaves out without a word.
_KEY = "/<session-flags>/config.toml:pre_tool_use:0:0"
_RUNS = frozenset({"trusted", "managed"})


def hook_command() -> str:
    """Return the line that Codex runs: an interpreter of nothing but its own library."""
    python = str(Path(sys.executable).resolve())
    return shlex.join([python, "-I", "-S", str(files("upthread").joinpath("agents/codex/gate.py"))])


def hook_words() -> tuple[str, ...]:
    """Return the words for Codex's command line. TOML reads JSON's strings as its own."""
    line = hook_command()
    hook = f'{{type="command",command={json.dumps(line)},timeout={TIMEOUT_S}}}'
    trust = f"{{trusted_hash={json.dumps(_hash(line))}}}"
    return (
        *("-c", f'hooks.PreToolUse=[{{matcher="*",hooks=[{hook}]}}]'),
        *("-c", f"hooks.state={{{json.dumps(_KEY)}={trust}}}"),
    )


def _hash(line: str) -> str:
    # Codex's own form of a hook, with the member it fills in by itself. One byte else, and it
    # leaves the hook out without a word (0.169.0).
    hook = {"async": False, "command": line, "timeout": TIMEOUT_S, "type": "command"}
    identity = {"event_name": "pre_tool_use", "hooks": [hook], "matcher": "*"}
    canonical = json.dumps(identity, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


class Hook(Struct, frozen=True, kw_only=True):
    """A hook of any configuration Codex reads. `event` is its own name for it: `preToolUse`."""

    event: str
    command: str
    is_run: bool


def hooks_in(answer: AnyJson) -> tuple[Hook, ...]:
    """Return the hooks that an answer to `hooks/list` holds, in its order."""
    return tuple(
        Hook(
            event=text_at(listed, "eventName"),
            command=text_at(listed, "command"),
            is_run=listed.get("enabled") is True and text_at(listed, "trustStatus") in _RUNS,
        )
        for each in objects_at(answer, "data")
        for listed in objects_at(each, "hooks")
    )


# --- what Codex asks while a prompt runs (A13) ----------------------------------------------------

# A permission goes to the caller, and its answer is an event before it leaves. What is granted is
# granted once, for the one call: never for the session, and never as a rule of Codex's own. A
# question of the agent's own has no answer here, since questions to a person travel in reports; it
# is dismissed, and the event says so. Without an answer the call is refused and the turn is ended.


CANCEL = "cancel"

QUESTION = "item/tool/requestUserInput"
APPLY_PATCH = "apply_patch"
"""What its hook calls a change of files, whose text it hands over as a command (0.169.0)."""


class _Kind(Struct, frozen=True, kw_only=True):
    """One kind of request: what it is about, and each answer in Codex's own words."""

    tool_kind: str
    title: Callable[[AnyJson], str]
    answers: Callable[[AnyJson], Mapping[str, AnyJson]]


_WORDS = {ALLOW: "accept", REJECT: "decline", CANCEL: "cancel"}


def _decisions(_told: AnyJson) -> Mapping[str, AnyJson]:
    return {answer: {"decision": word} for answer, word in _WORDS.items()}


def _grants(told: AnyJson) -> Mapping[str, AnyJson]:
    nothing: AnyJson = {"permissions": {}, "scope": "turn"}
    asked_for = object_at(told, "permissions")
    return {ALLOW: {**nothing, "permissions": asked_for}, REJECT: nothing, CANCEL: nothing}


_REQUESTS = {
    "item/commandExecution/requestApproval": _Kind(
        tool_kind="execute",
        title=lambda told: text_at(told, "command") or "a command",
        answers=_decisions,
    ),
    "item/fileChange/requestApproval": _Kind(
        tool_kind="edit", title=lambda _told: "edit", answers=_decisions
    ),
    "item/permissions/requestApproval": _Kind(
        tool_kind="other",
        title=lambda told: f"more permissions: {text_at(told, 'reason') or 'no reason given'}",
        answers=_grants,
    ),
    "mcpServer/elicitation/request": _Kind(
        tool_kind="other",
        title=lambda told: f"{text_at(told, 'serverName')}: {text_at(told, 'message')}",
        answers=lambda _told: {
            answer: {"action": word, "content": {} if answer == ALLOW else None, "_meta": None}
            for answer, word in _WORDS.items()
        },
    ),
}


async def answer_request(
    server: CodexServer,
    answer_permission: AnswerPermission,
    message: AnyJson,
    running: RunningPrompt | None,
    call: ToolCallAnnounced | None,
) -> None:
    """Answer one request of the server's. `call` is the call it is about, where it is known."""
    method, told = text_at(message, "method"), object_at(message, "params")
    request_id = message.get("id")
    kind = _REQUESTS.get(method)
    if method == QUESTION:
        if running is not None:
            question = unknown(QUESTION_DISMISSED, dict(told), session_at(told, "threadId"))
            await running.deliver(question)
        await server.answer(request_id, {"answers": {}})
    # A form wants words of a person, which travel in reports; a yes or a no is a permission.
    elif kind is None or member(told, "requestedSchema", "properties") or text_at(told, "url"):
        await server.refuse(request_id, "upthread does not do this")
    else:
        asked, decided = _request(kind, told, call), None
        if running is not None:
            decided = await permission(asked, running, answer_permission)
        await server.answer(request_id, kind.answers(told)[decided or CANCEL])


def call_request(told: AnyJson, *, is_sandboxed: bool = False) -> PermissionRequest:
    """Return a call that is about to run, as our hook tells it."""
    tool, arguments = text_at(told, "tool"), told.get("arguments")
    command = text_at(arguments, "command")
    if tool == APPLY_PATCH:
        arguments, command = {"patch": command}, ""
    return PermissionRequest(
        upstream_session_id=session_at(told, "session"),
        call_id=text_at(told, "call") or None,
        title=one_line(command or tool)[:TITLE_CHARACTERS_MAX],
        tool_kind="execute" if command else "edit" if tool == APPLY_PATCH else "other",
        arguments=arguments,
        locations=(),
        options=(),
        tool=tool,
        reads_by_commands=True,
        is_sandboxed=is_sandboxed,
    )


def _request(kind: _Kind, told: AnyJson, call: ToolCallAnnounced | None) -> PermissionRequest:
    arguments: dict[str, JsonValue] = {}
    for name in ("command", "cwd", "reason", "permissions", "grantRoot", "networkApprovalContext"):
        value: Any = told.get(name)
        if value not in (None, ""):
            arguments[name] = value
    # A request to change files names its call only: what it changes stands there.
    if call and isinstance(call.arguments, dict):
        arguments = {**call.arguments, **arguments}
    title = call.title if call and kind.tool_kind == "edit" else kind.title(told)
    return PermissionRequest(
        upstream_session_id=session_at(told, "threadId"),
        call_id=text_at(told, "itemId") or None,
        title=one_line(title)[:TITLE_CHARACTERS_MAX],
        tool_kind=call.tool_kind if call and kind.tool_kind == "edit" else kind.tool_kind,
        arguments=arguments,
        locations=call.locations if call else (),
        options=ALLOW_OR_REJECT,
        reads_by_commands=True,
    )


# --- the connection, and how it is started --------------------------------------------------------


PAGE_ENTRIES = 100
PAGES_MAX = 10_000
ROLE_PATIENCE_S = 2.0
"""How long the server may take to say what a sub-agent is, while its words wait."""
ROLE_ASKED_AGAIN_S = 0.05
SOURCES = ("cli", "vscode", "exec", "appServer")
"""Threads that people or programs have begun; those of sub-agents are left out."""

_LEGACY = "legacy"
"""A thread that an older Codex began: its items are listed by turns alone (0.171.0)."""

_AS_NARROW = {
    "read-only": frozenset({"readOnly"}),
    "workspace-write": frozenset({"readOnly", "workspaceWrite"}),
}
"""The policies a thread answers with, as narrow as each mode or narrower (0.169.0)."""

RETRY_WAIT_MAX_S = {Outcome.RATE_LIMITED: 10.0, Outcome.TRANSIENT: 120.0}
"""How long a silence after a provider's limit, or without a network, is left to Codex, which waits
for ever (0.171.0); then the turn is ended with that outcome."""
INTERRUPT_AGAIN_S = 0.1
"""An interrupt that comes before the turn has begun has nothing to end: it is repeated."""

_VERSION = re.compile(r"/(\d+\.\d+\.\d+\S*)")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
REPLACEMENT = "\ufffd"


class CodexConnection(ServerConnection[Prompt]):
    """A running server, and its threads. Use `serving` around everything else."""

    def __init__(self, server: CodexServer, request: OpenRequest, *, calls: CallListener) -> None:
        super().__init__(request, server)
        self._server = server
        self._place = {"cwd": request.working_directory}
        self._waited_out: PromptResult | None = None
        calls.hold = self._hold
        self._can_hold = False
        self._version = ""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            agent=self._server.agent,
            version=self._version,
            can_resume=True,
            can_load=True,
            can_list=True,
            can_fork=True,
            can_hold=self._can_hold,
            has_sandbox=True,
        )

    def _call_request(self, told: AnyJson) -> PermissionRequest:
        return call_request(told, is_sandboxed=bool(self._request.limits.sandbox))

    # --- its life ------------------------------------------------------------------------------

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Self]:
        """Shake hands, and take what the server tells until the context is left."""
        async with task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._server.read_all)
            tasks.start_soon(self._take_all)
            try:
                await self._shake_hands()
                yield self
            finally:
                with anyio.CancelScope(shield=True):
                    await self._server.child.stop()
                tasks.cancel_scope.cancel()

    async def _shake_hands(self) -> None:
        us = {"name": "upthread", "title": None, "version": __version__}
        # The commands a turn has left running can be ended by an experimental request only.
        asked = {"clientInfo": us, "capabilities": {"experimentalApi": True}}
        answer = await self._server.ask("initialize", asked)
        found = _VERSION.search(text_at(answer, "userAgent"))
        if found is None:
            raise UpstreamError(
                f"{self._server.agent} answered `initialize` without a version: {answer!r}",
                outcome=Outcome.UNKNOWN,
                hint="is the command Codex's? it is `codex app-server`",
            )
        self._version = found[1][:VERSION_CHARACTERS_MAX]
        await self._server.send({"method": "initialized"})
        if self._request.hold_call is not None:
            # Codex leaves out in silence what it does not trust (0.169.0): its list alone tells
            # whether our hook runs, and what a role may not do rests on that.
            asked_of = hook_command()
            hooks = await self.hooks()
            self._can_hold = any(hook.is_run and hook.command == asked_of for hook in hooks)

    async def hooks(self) -> tuple[Hook, ...]:
        """Return the hooks that hold in the working directory, in Codex's order."""
        asked = {"cwds": [self._request.working_directory]}
        return hooks_in(await self._server.ask("hooks/list", asked))

    async def _take_all(self) -> None:
        with self._server.told:
            async for message in self._server.told:
                await self._take(message)
        # The server is gone: the end of its turn would be waited for until the deadline.
        if self._prompt is not None:
            self._prompt.is_ended.set()

    # --- prompts -------------------------------------------------------------------------------

    async def _answered(
        self, session: UpstreamSessionId, text: str, on_event: OnEvent
    ) -> PromptResult:
        turn = Turn(session, title=self._request.title)
        running = RunningPrompt(session, self._request)
        prompt = self._prompt = Prompt(running=running, turn=turn)

        async def ask() -> None:
            self._server.child.allowance.renew(TURN)
            await self._send(prompt, text)
            await prompt.is_ended.wait()

        async def cancel() -> None:
            self._stop(prompt)

        leave = partial(self._interrupt, prompt)
        await self._run_turn(prompt, on_event, ask=ask, cancel=cancel, leave=leave)
        return await self._concluded(prompt)

    async def _send(self, prompt: Prompt, text: str) -> None:
        session = prompt.running.session
        # Half a surrogate pair would have Codex drop the whole message without a word (0.169.0).
        told = {"type": "text", "text": _LONE_SURROGATE.sub(REPLACEMENT, text)}
        try:
            asked = {"threadId": session, "input": [told]}
            await self._server.ask("turn/start", asked, session=session)
        except UpstreamError as error:
            prompt.running.error = error
            prompt.is_ended.set()
        if self._server.has_ended.is_set():
            prompt.is_ended.set()

    def _stop(self, prompt: Prompt) -> None:
        """Have the running work interrupted; the server itself says when it has ended."""
        prompt.turn.is_stopping = True
        interrupt = partial(self._interrupt, prompt)
        until_ended = partial(self._stop_until_ended, again_s=INTERRUPT_AGAIN_S)
        self._begin(until_ended, prompt, interrupt)

    async def _interrupt(self, prompt: Prompt) -> None:
        """Interrupt the turn and those below it, and end the commands they leave running."""
        # Codex interrupts one thread alone: its commands and sub-agents go on (0.169.0). Of a copy,
        # since turns end while it is asked.
        for session, turn_id in tuple(prompt.turn.running.items()):
            asked = {"threadId": session, "turnId": turn_id}
            # What an interrupt cannot reach is ended by the deadline for cancelling.
            with suppress(UpstreamError):
                await self._server.ask("turn/interrupt", asked)
                await self._server.ask("thread/backgroundTerminals/clean", {"threadId": session})

    # --- how a prompt ended --------------------------------------------------------------------

    async def _concluded(self, prompt: Prompt) -> PromptResult:
        turn = prompt.turn
        failure = await self._failure_of(prompt)
        tokens = [each for each in (turn.tokens_in, turn.tokens_out) if each is not None]
        return structs.replace(
            failure or PromptResult(outcome=Outcome.OK),
            tokens_used=sum(tokens) if tokens else prompt.running.seen.tokens_used,
            tokens_in=turn.tokens_in,
            tokens_out=turn.tokens_out,
        )

    async def _failure_of(self, prompt: Prompt) -> PromptResult | None:
        running, turn = prompt.running, prompt.turn
        cut_short = self._cut_short(running, has_died=self._server.has_ended.is_set())
        if cut_short is not None:
            return cut_short
        if isinstance(running.error, UpstreamError):
            return failed(running.error)
        # What was given up comes before the interrupt by which it ended: that was no cancel.
        if turn.given_up is not None or turn.failure is not None:
            return turn.given_up or turn.failure
        if not turn.is_over:
            return failed(await self._server.died("a prompt"))
        if turn.is_stopping:
            return PromptResult(outcome=Outcome.CANCELLED, detail="the turn was interrupted")
        return None

    # --- what arrives --------------------------------------------------------------------------

    async def _take(self, message: Any) -> None:
        prompt, told = self._prompt, object_at(message)
        method, params = text_at(told, "method"), object_at(told, "params")
        # Without a prompt too: it is answered with a cancel then, and not left without an answer.
        if "id" in told and method:
            self._answer(told, params)
        elif prompt is None or prompt.is_ended.is_set():
            self.late_events += method in SPOKEN
        elif isinstance(message, Unreadable) or not method:
            raw = message.raw if isinstance(message, Unreadable) else message
            await self._deliver((unknown("unreadable_frame", raw),), prompt.running)
        else:
            await self._take_news(prompt, method, params)

    async def _take_news(self, prompt: Prompt, method: str, params: AnyJson) -> None:
        turn = prompt.turn
        newcomers = turn.newcomers(method, params)
        # Before it is taken: a child is told as started, with its role, before anything it says.
        roles = {child: await self._role_of(child) for child in newcomers}
        await self._deliver(turn.take(method, params, roles=roles), prompt.running)
        limit = turn.retrying
        # Once for each: what comes meanwhile of other threads tells of the same one again.
        if limit and limit.outcome in RETRY_WAIT_MAX_S and limit is not self._waited_out:
            self._waited_out = limit
            self._begin(self._lose_patience, prompt, limit)
        prompt.end_if_over()

    async def _lose_patience(self, prompt: Prompt, limit: PromptResult) -> None:
        """End a turn in which Codex has waited for its provider in silence for too long."""
        has_ended = await prompt.ended_within(RETRY_WAIT_MAX_S[limit.outcome])
        # The very same one: each error that Codex tells of has a patience of its own.
        if prompt.turn.retrying is limit and not has_ended:
            prompt.turn.given_up = limit
            self._stop(prompt)

    def _answer(self, message: AnyJson, params: AnyJson) -> None:
        """Have a question answered in a task of its own: the others are not kept waiting."""
        prompt, call = self._prompt, None
        if prompt is not None:
            key = (text_at(params, "threadId"), text_at(params, "itemId"))
            call = prompt.turn.calls.get(key)
        running = prompt.running if prompt else None
        ask = self._request.answer_permission
        self._begin(answer_request, self._server, ask, message, running, call)

    # --- threads -------------------------------------------------------------------------------

    async def new_session(self) -> UpstreamSessionId:
        """Make a thread and have it written down, which takes a name."""
        # Without `cwd` it works where its server was started, which is here. With it, Codex writes
        # into the person's own settings that the directory is trusted (0.171.0), and then runs its
        # MCP servers, also without upthread.
        session = self._named("thread/start", await self._asked("thread/start", {}))
        await self._name(session, self._request.title or FIRST_NAME)
        return session

    async def resume_session(self, session: UpstreamSessionId) -> None:
        """Load exactly this thread, to work in our own directory (A4)."""
        await self._resumed(session)

    async def _resumed(self, session: UpstreamSessionId) -> AnyJson:
        if not is_uuid(session):
            raise UpstreamError(
                f"{self._server.agent} has no session {session}",
                outcome=Outcome.MISSING,
                hint="its sessions are named by UUIDs",
                upstream_session_id=session,
            )
        # Without `cwd` it would work where it was begun, and not here (0.169.0).
        asked = {**self._place, "threadId": session, "excludeTurns": True}
        answer = await self._asked("thread/resume", asked, session=session)
        returned = self._named("thread/resume", answer)
        if returned != session:
            raise self._server.opened_another(returned, session)
        return object_at(answer, "thread")

    async def load_session(self, session: UpstreamSessionId) -> Events:
        """Return a thread's history. A call that was cut off is not in it (0.169.0)."""
        thread = await self._resumed(session)
        # Each history has a quota of its own: what came before counts in neither (ADR 63).
        self._server.child.allowance.renew(HISTORY)
        asked = {"threadId": session, "sortDirection": "asc"}
        if thread.get("historyMode") == _LEGACY:
            asked["itemsView"] = "full"
            turns = await self._pages("thread/turns/list", asked, session=session)
            stored = [item for turn in turns for item in objects_at(turn, "items")]
        else:
            pages = await self._pages("thread/items/list", asked, session=session)
            stored = [object_at(each, "item") for each in pages]
        return of_session(session, (event for each in stored for event in history_of(each)))

    async def list_sessions(self) -> tuple[UpstreamSessionId, ...]:
        """Return the threads of this machine, newest first, those of sub-agents left out."""
        found = await self._pages("thread/list", {"sourceKinds": SOURCES, "modelProviders": []})
        return tuple(session_at(thread, "id") for thread in found)

    async def fork_session(self, session: UpstreamSessionId) -> UpstreamSessionId:
        """Return a new thread with the same history."""
        await self.resume_session(session)
        asked = {**self._place, "threadId": session, "excludeTurns": True}
        answer = await self._asked("thread/fork", asked, session=session)
        forked = self._server.fork_named(text_at(answer, "thread", "id"), session, "thread/fork")
        if self._request.title:
            await self._name(forked, self._request.title)
        return forked

    async def _asked(
        self, method: str, asked: AnyJson, *, session: UpstreamSessionId | None = None
    ) -> AnyJson:
        """Ask for a thread within the role's limits.

        Its sandbox is only ever made narrower: where the person's own is as narrow, or narrower, it
        is left as it is. Raises UpstreamError where the one asked for is not what is there.
        """
        model = self._request.limits.model_for(self._server.agent)
        asked = {**asked, **({"model": model} if model else {})}
        wanted = self._request.limits.sandbox
        if wanted == "read-only":
            asked = {**asked, "sandbox": wanted}
        answer = await self._server.ask(method, asked, session=session)
        if wanted == "workspace-write" and _sandbox_in(answer) == "dangerFullAccess":
            # Only an answer tells the person's own sandbox. What `thread/start` made for the first
            # one has no name yet, so that nothing of it is on disk (0.169.0).
            answer = await self._server.ask(method, {**asked, "sandbox": wanted}, session=session)
        if wanted and _sandbox_in(answer) not in _AS_NARROW[wanted]:
            raise UpstreamError(
                f"{self._server.agent} did not take the role's sandbox {wanted}",
                outcome=Outcome.UNKNOWN,
                hint="nothing was sent; look at sandbox_mode in the role's file",
            )
        return answer

    async def _name(self, session: UpstreamSessionId, name: str) -> None:
        asked = {"threadId": session, "name": name}
        await self._server.ask("thread/name/set", asked, session=session)

    async def _role_of(self, child: UpstreamSessionId) -> str:
        """Return what kind of sub-agent a thread is, "" for one without a kind or not known.

        Codex refuses while the file of a new thread is still empty (0.169.0), so it is asked again.
        """
        with anyio.move_on_after(ROLE_PATIENCE_S):
            while not self._server.has_ended.is_set():
                try:
                    answer = await self._server.ask("thread/read", {"threadId": child})
                except UpstreamError:
                    await anyio.sleep(ROLE_ASKED_AGAIN_S)
                else:
                    return text_at(answer, "thread", "agentRole")
        return ""  # a child without a role is a child all the same

    async def _pages(
        self, method: str, asked: AnyJson, *, session: UpstreamSessionId | None = None
    ) -> list[AnyJson]:
        found: list[AnyJson] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._server.ask(
                method, {**asked, "limit": PAGE_ENTRIES, "cursor": cursor}, session=session
            )
            found += objects_at(page, "data")
            before, cursor = cursor, text_at(page, "nextCursor") or None
            if cursor is None:
                return found
            if cursor == before:
                break
        # A history that is cut short would be taken for the whole of it.
        raise UpstreamError(
            f"{self._server.agent} answered {method} with pages that do not end",
            outcome=Outcome.UNKNOWN,
            hint="neither its sessions nor a history can be confirmed; please report this",
        )

    def _named(self, asked: str, answer: AnyJson) -> UpstreamSessionId:
        return self._server.session_named(text_at(answer, "thread", "id"), asked)


def _sandbox_in(answer: AnyJson) -> str:
    return text_at(answer, "sandbox", "type")


class CodexAdapter(Adapter):
    """Codex, natively."""

    row = AGENTS["codex"]

    async def hooks(self, request: OpenRequest) -> tuple[Hook, ...]:
        """Return the hooks that Codex knows of, and whether it runs them. Raises as `open` does."""
        async with self.open(request) as connection:
            return await connection.hooks()

    @asynccontextmanager
    async def open(self, request: OpenRequest) -> AsyncGenerator[CodexConnection]:
        async with listening() as calls:
            is_asking = request.hold_call is not None
            command = (*self.command, *(hook_words() if is_asking else ()))
            asking = calls.environment if is_asking else {}
            start = start_of(request, command, {**request.environment, **asking})
            async with started_child(start) as child:
                server = CodexServer(child, agent=self.agent, timeout_s=request.start_timeout_s)
                connection = CodexConnection(server, request, calls=calls)
                async with connection.serving():
                    yield connection


ADAPTER = CodexAdapter
"""By which the registry makes it."""
