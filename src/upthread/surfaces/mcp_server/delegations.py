"""Delegations under way: they go on while a client waits, and are asked for by a handle."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeAlias, cast

import anyio
from anyio.abc import TaskGroup
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)
from mcp_types.version import is_version_at_least
from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, ValidationError

from upthread.boundary.files import changed_since
from upthread.client.project import Project
from upthread.core.codec import object_at, text_at
from upthread.core.states import doubts_in_words, effects_command
from upthread.core.text import visible_line, visible_text, without_mentions
from upthread.errors import NotFoundError, UpthreadError, UsageError
from upthread.runtime.record.turn_views import RecordedEffect
from upthread.runtime.system import new_id
from upthread.runtime.turns.delegation import (
    Listener,
    TellOptions,
    TurnResult,
    TurnStarted,
    WhenBusy,
)
from upthread.surfaces.cli.shapes import told_status
from upthread.surfaces.cli.terminal.phrases import failure_in_words, going_on, parked_in_words

ANSWER_S_MAX = 25.0
"""How long a call is held open; clients give up on one after 30 s or a minute."""

UNDERWAY_MAX = 64
KEPT_MAX = 256
"""How many delegations are known by their handle, the newest."""

DOUBTS_TOLD_MAX = 10

REPLY_CHARACTERS_MAX = 100_000

ANSWERED = (
    "The program that you work for passes on these answers to your questions; whether a person "
    "gave them is not known:"
)
"""A client asks its user as it likes, and what comes back has passed through it."""

REFUSAL_CHARACTERS_MAX = 2_000

TIMED_OUT = re.compile(
    r"(?is)\A(?!.*(?:cancel|interrupt|stop|user|person|human|operator|press|ctrl|keyboard|\besc))"
    r".*(?:timed?[ -]?out|deadline exceeded|-32001)"
)
"""A client's reason for a cancel once its own patience is over, as the SDKs write it, such as
`Request timed out` (TypeScript), `request timeout` (Rust), `timed out after 5s` (Python). A reason
that names a person is that person's cancel, for example `stopped by the user (timeout 300s)`."""

WAITING = "waiting"
"""The status of a delegation whose role has asked a person something."""

NOT_ANSWERED = "its questions are not answered (ask the person, then `delegate` the answers to it)"


def _terse(schema: dict[str, Any]) -> None:
    """Leave names and types: every session pays for the rest, twice."""
    del schema["description"]
    for each in schema["properties"].values():
        del each["title"]


class Delegated(BaseModel):
    """How a delegation stands. `status` is running, done, waiting, parked, failed or refused.

    `line` says which decision was taken and why; show it to the person. `questions` are for a
    person, by their ids. `detail` also says what may have been done or not, and who settles it.
    """

    model_config = ConfigDict(frozen=True, json_schema_extra=_terse)

    handle: str
    status: str
    line: str
    reply: str = ""
    detail: str = ""
    upstream_session_id: str = ""
    questions: dict[str, str] = {}


_Call: TypeAlias = tuple[str | None, str]
"""A client's session, None over stdio and over HTTP since 2026-07-28; and its request's id."""


class _Delegation(Struct):
    address: str
    prompt: str
    is_fresh: bool
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    call: _Call = (None, "")
    is_unheard: bool = False
    started: TurnStarted | None = None
    result: TurnResult | None = None
    error: UpthreadError | None = None
    in_doubt: Sequence[RecordedEffect] = ()
    over: anyio.Event = field(default_factory=anyio.Event)


class Delegations(Struct):
    """Runs turns in a task group of the server's, so that none ends with the call that began it.

    A call that is cancelled stops its turn, unless the client's patience was over: the client's
    next call with the same prompt then gets the result.
    """

    current: CurrentProject
    tasks: TaskGroup
    answer_s_max: float = ANSWER_S_MAX
    known: dict[str, _Delegation] = {}

    async def begin(
        self, call: _Call, address: str, prompt: str, *, is_fresh: bool, when_busy: WhenBusy
    ) -> Delegated:
        """Delegate, and return how it stands when it is over or the time for an answer is."""
        for handle, each in self.known.items():
            asked = (each.address, each.prompt, each.is_fresh)
            if each.is_unheard and asked == (address, without_mentions(prompt), is_fresh):
                return await self.wait(handle, call)
        # Each is a process of its agent; a model that delegates in a loop must be told to stop.
        underway = sum(not each.over.is_set() for each in self.known.values())
        if underway >= UNDERWAY_MAX:
            raise UsageError(f"{underway} delegations are under way", hint="wait for one of them")
        handle = new_id("dlg")
        self._start(handle, address, prompt, is_fresh=is_fresh, when_busy=when_busy)
        over = [each for each, delegation in self.known.items() if delegation.over.is_set()]
        # Never one that is under way: its client would have nothing left to ask by.
        for oldest in over[: max(0, len(self.known) - KEPT_MAX)]:
            del self.known[oldest]
        return await self.wait(handle, call)

    async def answer(
        self, handle: str, call: _Call, answers: Mapping[str, str] | None
    ) -> Delegated:
        """Tell a role what the client has brought as answers, in the session it asked in.

        Raises NotFoundError. One that does not wait for answers, or got none, stands as it stands.
        """
        stands = await self.wait(handle, call)
        if answers is None or stands.status != WAITING:
            return stands
        told = [
            f"- {name}: {question}\n  {answers.get(name, 'no answer')}"
            for name, question in stands.questions.items()
        ]
        prompt = "\n".join((ANSWERED, "", *told))
        self._start(handle, self.address(handle), prompt, is_fresh=False, when_busy="wait")
        return await self.wait(handle, call)

    def address(self, handle: str) -> str:
        """Return the address a delegation works at: the one asked for, or its sibling's.

        KeyError for a handle that is not known.
        """
        delegation = self.known[handle]
        started = delegation.started
        return started.conversation.address if started else delegation.address

    def _start(
        self, handle: str, address: str, prompt: str, *, is_fresh: bool, when_busy: WhenBusy
    ) -> None:
        delegation = _Delegation(address, without_mentions(prompt), is_fresh)
        self.known[handle] = delegation
        self.tasks.start_soon(self._run, delegation, when_busy)

    async def wait(self, handle: str, call: _Call) -> Delegated:
        """Return how a delegation stands, after waiting for its end. Raises NotFoundError."""
        delegation = self.known.get(handle)
        if delegation is None:
            raise NotFoundError(
                f"there is no delegation {handle[:60]!r} in this server",
                hint="its conversation is kept all the same: see `status`",
            )
        delegation.call, delegation.is_unheard = call, False
        try:
            # Only the wait ends: the turn belongs to the server's task group, and goes on.
            with anyio.move_on_after(self.answer_s_max):
                await delegation.over.wait()
        except anyio.get_cancelled_exc_class():
            if not delegation.is_unheard:
                delegation.scope.cancel()
            raise
        return _stands(handle, delegation)

    def heed(self, session: str | None, message: Mapping[str, object]) -> None:
        """Note a cancel because a client's patience is over, before the SDK ends its call."""
        told = object_at(message.get("params"))
        for each in self.known.values():
            if each.call == (session, str(told.get("requestId"))):
                each.is_unheard = bool(TIMED_OUT.search(text_at(told, "reason")))

    def end(self, session: str) -> None:
        """Stop the turns of a session that its client has ended."""
        for each in self.known.values():
            if each.call[0] == session:
                each.scope.cancel()

    async def _run(self, delegation: _Delegation, when_busy: WhenBusy) -> None:
        results: list[TurnResult] = []
        note = partial(setattr, delegation, "started")
        listener = Listener(started=note, cancelled=results.append)
        options = TellOptions(is_fresh=delegation.is_fresh, when_busy=when_busy, listener=listener)
        try:
            project = await self.current.now()
            with delegation.scope:
                results.append(await project.tell(delegation.address, delegation.prompt, options))
            if not results:
                raise UsageError("it was cancelled before its turn began", hint="delegate it again")
            workstream = results[0].conversation.key.workstream
            # Before the result is set, so that nobody is told of a result without what is in doubt.
            delegation.in_doubt = await project.effects_in_doubt(workstream)
            delegation.result = results[0]
        except UpthreadError as error:
            delegation.error = error
        finally:
            delegation.over.set()


def _stands(handle: str, delegation: _Delegation) -> Delegated:
    started = delegation.started
    line = started.line if started else ""
    session = started.upstream_session_id if started else ""
    if delegation.error is not None:
        refused = visible_line(str(delegation.error), characters_max=REFUSAL_CHARACTERS_MAX)
        return Delegated(handle=handle, status="refused", line=line or refused, detail=refused)
    result = delegation.result
    if result is None:
        return Delegated(handle=handle, status="running", line=line, upstream_session_id=session)
    asked = result.report.questions if result.report else ()
    status = told_status(result)
    # A turn that failed with questions open is failed first: answers would not mend it.
    status = WAITING if asked and status == "done" else status
    return Delegated(
        handle=handle,
        status=status,
        line=line,
        # A client shows this to a person: what acts on a terminal must not come through.
        reply=visible_text(result.reply[:REPLY_CHARACTERS_MAX]),
        detail="; ".join(filter(None, (_trouble(result, status), _doubts(delegation)))),
        upstream_session_id=result.upstream_session_id or session,
        questions={visible_line(each.id): visible_text(each.text) for each in asked},
    )


def _doubts(delegation: _Delegation) -> str:
    """Return what may have been done or not; empty for nothing. A person says, no model."""
    found = delegation.in_doubt
    if not found:
        return ""
    actions = ", ".join(visible_line(each.effect.title) for each in found[:DOUBTS_TOLD_MAX])
    settle = effects_command(found[0].conversation.key.workstream)
    return f"{doubts_in_words(len(found))}: {actions} (a person settles it: {settle})"


def _trouble(result: TurnResult, status: str) -> str:
    """Return why a turn waits or has failed, and what to do; empty when all is well."""
    if result.parked is not None:
        said, hint = parked_in_words(result.parked)
        return f"{said} ({going_on(result.conversation.key, result.parked.reason)}; {hint})"
    if status != "failed":
        return NOT_ANSWERED if status == WAITING else result.detail
    said, hint = failure_in_words(result)
    return f"{said} ({hint})"


# --- elicitation --------------------------------------------------------------------------------
# Elicitation: a person is asked what a role wants to know, by the protocol's own request.
#
# Since 2026-07-28 a tool answers that input is required and is called again with it; before, the
# server asks while the call is open. A client that can ask nobody gets the questions, as `waiting`.

INPUT_REQUIRED_SINCE = "2026-07-28"
ROUNDS_MAX = 3
"""How often a role may ask again within one call; then its questions are handed back."""

KEY = "questions"

AnyContext: TypeAlias = Context[Any, Any]


async def with_answers(
    context: AnyContext, delegations: Delegations, stands: Delegated
) -> Delegated | InputRequiredResult:
    """Return how a delegation stands once a person has been asked, as far as one can be."""
    # Asked once and not answered: to ask again would be a question without end.
    is_declined = context.request_state is not None and _brought(context) is None
    if stands.status != WAITING or not _can_ask(context) or is_declined:
        return stands
    whose = delegations.address(stands.handle)
    version = context.protocol_version
    if version and is_version_at_least(version, INPUT_REQUIRED_SINCE):
        asked = ElicitRequest(params=_form(whose, stands))
        return InputRequiredResult(input_requests={KEY: asked}, request_state=stands.handle)
    for _ in range(ROUNDS_MAX):
        form = _form(whose, stands)
        question, answers = (form.message, form.requested_schema, context.request_id), None
        with suppress(MCPError, ValidationError):  # no answer that can be read
            answers = _answers(await context.session.elicit_form(*question))
        stands = await delegations.answer(stands.handle, call_of(context), answers)
        if answers is None or stands.status != WAITING:
            break
    return stands


async def resumed(context: AnyContext, delegations: Delegations) -> Delegated | None:
    """Return how a delegation stands whose answers a call has brought, None for a first call."""
    handle = context.request_state
    if handle is None:
        return None
    return await delegations.answer(handle, call_of(context), _brought(context))


def call_of(context: AnyContext) -> _Call:
    """Return what a call is known by to a later cancel, which names its id."""
    return (context.headers or {}).get("mcp-session-id"), context.request_id


def client_name(context: AnyContext) -> str:
    """Return what the client calls itself; nobody has checked it."""
    known = context.session.client_params
    return known.client_info.name if known else "a client without a name"


def _can_ask(context: AnyContext) -> bool:
    capabilities = context.client_capabilities
    asking = capabilities and capabilities.elicitation
    # `elicitation: {}`, as it was before there were two modes, is a form.
    return bool(asking and (asking.form or not asking.url))


def _brought(context: AnyContext) -> Mapping[str, str] | None:
    """Return the answers that a call has brought; None when a person gave none."""
    return _answers((context.input_responses or cast("InputResponses", {})).get(KEY))


def _form(whose: str, stands: Delegated) -> ElicitRequestFormParams:
    texts = {name: {"type": "string", "title": text} for name, text in stands.questions.items()}
    return ElicitRequestFormParams(
        message=f"{whose} asks:\n" + "\n".join(stands.questions.values()),
        requested_schema={"type": "object", "properties": texts, "required": list(texts)},
    )


def _answers(told: object) -> Mapping[str, str] | None:
    """Return what a person answered, by question; None when nobody did."""
    if not isinstance(told, ElicitResult) or told.action != "accept":
        return None
    return {name: str(value) for name, value in (told.content or {}).items()}


# --- current project ----------------------------------------------------------------------------
# The project of a server that lives long: opened anew once a file of its settings is another one.
#
# A server is started once a day, and a person who forbids something meanwhile, or agrees to it,
# means the next delegation. What was begun before goes on under the settings it was begun with.

Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Project]]


class CurrentProject(Struct):
    """Made by `current_project`. `now` is asked at the beginning of each call, and kept for it."""

    opened: Project
    opening: Opening
    stack: AsyncExitStack
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def now(self) -> Project:
        """Return the project with its settings as they are. Raises ConfigError, as opening does."""
        async with self.lock:
            stamps = self.opened.settings.stamps
            if await anyio.to_thread.run_sync(changed_since, stamps):
                # The one before stays open as well: a delegation may still be at work on it.
                self.opened = await self.stack.enter_async_context(self.opening())
            return self.opened


@asynccontextmanager
async def current_project(opened: Project, opening: Opening) -> AsyncGenerator[CurrentProject]:
    """Yield a project that was opened as one that follows its settings; closes what it opens."""
    async with AsyncExitStack() as stack:
        yield CurrentProject(opened, opening, stack)
