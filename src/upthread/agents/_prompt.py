"""One running prompt: its events in order, its deadline, its end, and what the agent asks in it.

Theory of operation. The reader of the agent's messages calls `deliver` and is held there until the
caller's `on_event` has returned: order and back-pressure (A6). `on_event` runs in the task that
called `prompt`, so its errors and cancellation are that caller's. The prompt ends when its answer
is read, which is after everything the agent wrote before it, or when the agent is gone. A deadline
and a cancel both ask the agent first, and end it when it does not answer in time. A prompt that was
left without an answer ends the agent too: nothing could tell its late words from the next reply's.

What was said of each call is kept as long as the turn goes on, within bounds: one that has ended
can be asked for again by its id. Of a call that may have been forgotten it is not known what it is:
of no settled kind.
"""

import hmac
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct, field
from msgspec.structs import replace

from upthread.agents._json_lines import Unreadable, read_json
from upthread.agents.base import (
    AnswerPermission,
    CallAnswer,
    HoldCall,
    OnEvent,
    OpenRequest,
    PermissionAnswer,
    PermissionRequest,
    told_by,
)
from upthread.core.codec import AnyJson, encode_text, object_at, text_at
from upthread.core.events import (
    AgentEvent,
    PermissionAnswered,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UsageReported,
)
from upthread.core.quotas import OPTIONS, weight
from upthread.core.runs.stops import NO_ANSWER_WITHIN
from upthread.core.shell.expected_call import Told
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import QuotaExceededError, UsageError
from upthread.tasks import task_group

CALLS_TOLD_MAX = 10_000
TOLD_BYTES_MAX = 16 * 2**20
"""How many calls, and how much of what was said of them, one turn keeps: the newest."""

TELLINGS_OF_CALL_MAX = 32
"""A call that is told in more ways is of no settled kind: only the newest is still noted."""
UNSETTLED = "unsettled"
_FORGOTTEN = Told(tool_kind=UNSETTLED)


LAST_TEXT_CHARACTERS_MAX = 2000

Action: TypeAlias = Callable[[], Awaitable[None]]


class _Failed(Struct, frozen=True):
    """An error of a callback, to be raised where the prompt was called."""

    error: Exception


class _Delivery(Struct):
    item: AgentEvent | _Failed
    is_done: anyio.Event = field(default_factory=anyio.Event)


class TurnSeen(Struct, kw_only=True):
    """What the updates of a turn said about its end, beside the answer itself.

    `has_system_error` is whether one said that the turn failed.
    """

    tokens_used: int | None = None
    tokens_window: int | None = None
    has_system_error: bool = False
    last_text: str = ""


class RunningPrompt:
    """Made for one prompt of an agent's and used once. The request has its deadlines."""

    def __init__(self, session: UpstreamSessionId, request: OpenRequest) -> None:
        self.session = session
        self.seen = TurnSeen()
        self.is_timed_out = False
        self.is_cancelled = False
        self.is_forced = False
        self.answer: object = None
        self.error: Exception | None = None
        self.message_ids: set[str] = set()
        # Without a buffer: one that holds events would let the agent run ahead of what is recorded.
        self._sender, self._deliveries = anyio.create_memory_object_stream[_Delivery]()
        self._cancel_requested = anyio.Event()
        self._asking: set[anyio.CancelScope] = set()
        self._told = ToldOfCalls()
        self._request = request

    async def run(
        self, *, ask: Action, send_cancel: Action, end_agent: Action, on_event: OnEvent
    ) -> None:
        """Ask, deliver until the answer is there, and keep the limits."""
        async with task_group() as tasks:
            tasks.start_soon(self._ask, ask)
            tasks.start_soon(self._keep_limits, send_cancel, end_agent)
            with self._deliveries:
                await self._deliver_all(on_event)
            tasks.cancel_scope.cancel()

    async def _ask(self, ask: Action) -> None:
        # Closing it ends the delivery, and with it the prompt, also where asking raised.
        with self._sender:
            await ask()

    async def _deliver_all(self, on_event: OnEvent) -> None:
        async for delivery in self._deliveries:
            try:
                if isinstance(delivery.item, _Failed):
                    raise delivery.item.error
                await on_event(delivery.item)
            finally:
                # In any case: the reader of all the agent's messages waits for it.
                delivery.is_done.set()

    async def _keep_limits(self, send_cancel: Action, end_agent: Action) -> None:
        with anyio.move_on_after(self._request.prompt_timeout_s):
            await self._cancel_requested.wait()
        self.is_cancelled = self._cancel_requested.is_set()
        self.is_timed_out = not self.is_cancelled
        # Before the cancel is sent: an agent that waits for an answer may not come to reading it.
        for scope in self._asking:
            scope.cancel()
        await send_cancel()
        await anyio.sleep(self._request.cancel_timeout_s)
        # Before it is ended: the prompt ends by that, and says at once how.
        self.is_forced = True
        await end_agent()

    def request_cancel(self) -> None:
        """Ask for the end. Once is enough."""
        self._cancel_requested.set()

    # --- what arrives --------------------------------------------------------------------------

    async def deliver(self, event: AgentEvent) -> bool:
        """Hand an event over and wait until it was taken in; False when it came too late."""
        self._note(event)
        return await self._hand_over(_Delivery(event))

    async def fail(self, error: Exception) -> None:
        """Raise an error of one of the caller's own callbacks where the prompt was called."""
        await self._hand_over(_Delivery(_Failed(error)))

    async def _hand_over(self, delivery: _Delivery) -> bool:
        try:
            await self._sender.send(delivery)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return False
        await delivery.is_done.wait()
        return True

    def asking(self) -> anyio.CancelScope:
        """Return a scope for a question to a person; a cancel of the turn cancels it."""
        scope = anyio.CancelScope()
        self._asking.add(scope)
        # The questions have been withdrawn already; one that comes after that would wait for ever.
        if self.is_cancelled or self.is_timed_out:
            scope.cancel()
        return scope

    def aborted(self, *, has_died: bool, asked_to: str = "cancel") -> tuple[Outcome, str]:
        """Return how a prompt ended that was cancelled or timed out (A10, A11).

        `has_died`: the agent ended before it had answered; `asked_to` is its word for a cancel.
        """
        waited_s = self._request.cancel_timeout_s
        forced = f"it did not answer the {asked_to} within {waited_s:g} s and was ended"
        if self.is_timed_out:
            detail = f"{NO_ANSWER_WITHIN} {self._request.prompt_timeout_s:g} s"
            return Outcome.TIMED_OUT, f"{detail}; {forced}" if self.is_forced else detail
        if self.is_forced:
            return Outcome.PROCESS_DIED, forced
        if has_died:
            return Outcome.PROCESS_DIED, f"the agent ended when it was asked to {asked_to}"
        # Some answer a cancelled turn with an error, or end_turn (opencode 1.18.33, retrying).
        return Outcome.CANCELLED, str(self.error or "")

    # --- what was seen -------------------------------------------------------------------------

    def told_of(self, call_id: str | None) -> tuple[Told, ...]:
        """Return what was said of a call so far, under any session; none for one never told of."""
        return self._told.of(call_id)

    def _note(self, event: AgentEvent) -> None:
        if isinstance(event, ToolCallAnnounced | ToolCallUpdated):
            self._told.note(event.call_id, told_by(event))
        # How a turn ended is told by its own session, not by a sub-agent's tokens and words.
        if event.upstream_session_id not in {self.session, None}:
            return
        if isinstance(event, UsageReported):
            self.seen.tokens_used = event.tokens_used
            self.seen.tokens_window = event.tokens_window
        elif isinstance(event, TextReceived):
            if event.message_id is not None:
                # Of a prompt that was left these may go on in the next, and are not its reply.
                self.message_ids.add(event.message_id)
            said = self.seen.last_text + event.text
            self.seen.last_text = said[-LAST_TEXT_CHARACTERS_MAX:]
        # What stands before a call or a thought is not what a turn ended with.
        elif isinstance(event, ReasoningReceived | ToolCallAnnounced):
            self.seen.last_text = ""


class ToldOfCalls:
    """Made for one turn."""

    def __init__(self) -> None:
        self._told: dict[str, list[Told]] = {}
        self._bytes = 0
        self._has_forgotten = False

    def note(self, call_id: str, told: Told) -> None:
        """Keep one thing that was said, unless it was said before."""
        # Taken out and put in again: the dict's order is by the last word on each call.
        said = self._told.pop(call_id, None)
        if said is None:
            # It may be one that was forgotten, and was called a command then.
            said = [_FORGOTTEN] if self._has_forgotten else []
        else:
            self._bytes -= sum(map(_bytes_of, said))
        if told not in said and told != Told():
            if len(said) >= TELLINGS_OF_CALL_MAX:
                said.pop()
                told = replace(told, tool_kind=UNSETTLED)
            said.append(told)
        self._told[call_id] = said  # the newest last
        self._bytes += sum(map(_bytes_of, said))
        self._forget()

    def of(self, call_id: str | None) -> tuple[Told, ...]:
        """Return what was said of a call, under any session; none for one never told of."""
        said = self._told.get(call_id or "")
        if said is not None:
            return tuple(said)
        return (_FORGOTTEN,) if self._has_forgotten else ()

    def _forget(self) -> None:
        while len(self._told) > CALLS_TOLD_MAX or self._bytes > TOLD_BYTES_MAX:
            oldest = next(iter(self._told))
            self._bytes -= sum(map(_bytes_of, self._told.pop(oldest)))
            self._has_forgotten = True


def _bytes_of(told: Told) -> int:
    return weight([told.title, told.arguments, told.locations])


# --- what an agent asks before it acts (A13, A14) -------------------------------------------------

# Every adapter's requests come through here, so that all of them are judged by what will happen:
# the announced call and the request laid together (core/shell/expected_call.py). Nothing is allowed
# here.
#
# An agent that runs its calls without asking us has a plug-in or a hook of ours inside, which asks
# on loopback, behind a token made for this start: one line of JSON, answered by one. Who cannot ask
# does not run the call. The token is all that the agent's own commands could learn, and with it
# they can only ask.


VARIABLE = "UPTHREAD_CALLS"
"""Where what asks finds us: host, port and token, with spaces between."""

QUESTION_BYTES_MAX = 16 * 1024 * 1024
TOKEN_BYTES = 24

ALLOW = "allow"
REJECT = "reject"
"""The answers of `ALLOW_OR_REJECT`."""

CANCELLED = "cancelled"
"""The answer on record of a question that was withdrawn, and of a call that was held back."""

ALLOWED = "allow_once"
REJECTED = "reject_once"
"""The same of a call that the agent did not ask about."""

UNNAMED = "unnamed"
"""The same where an agent offers a choice and does not say of what kind it is."""

_NO_ANSWER = CallAnswer(answered_by="upthread: no answer", why="upthread has no answer")


def _as_foreseen(asked: PermissionRequest, running: RunningPrompt) -> PermissionRequest:
    """Return a request with all that was said of its call, whatever it says itself."""
    tellings = (*running.told_of(asked.call_id), asked.told)
    whole = replace(asked, tellings=tellings).foreseen
    return replace(
        asked,
        title=whole.title,
        tool_kind=whole.tool_kind,
        arguments=whole.arguments,
        locations=whole.locations,
        tellings=tellings,
    )


async def permission(
    asked: PermissionRequest, running: RunningPrompt, answer_permission: AnswerPermission
) -> str | None:
    """Return the option that the caller chose, None where nothing is granted.

    What was answered is an event before that: what could not be put on record is not granted. An
    error of the caller's ends the prompt; a cancelled turn withdraws the question.
    """
    whole = _as_foreseen(asked, running)
    answer = await _caller_asked(whole, running, answer_permission)
    kind = CANCELLED
    if answer.option_id is not None:
        kind = dict(asked.options)[answer.option_id] or UNNAMED
    was_recorded = await _recorded(whole, running, kind, answered_by=answer.answered_by)
    return answer.option_id if was_recorded else None


async def _caller_asked(
    asked: PermissionRequest, running: RunningPrompt, answer_permission: AnswerPermission
) -> PermissionAnswer:
    # What counts where the scope is cancelled while the caller is asked.
    answer = PermissionAnswer(option_id=None, answered_by="upthread: the turn was ended")
    with running.asking():
        try:
            # Within, so that too many end the turn by the same way as an error of the caller's.
            OPTIONS.require(len(asked.options))
            answer = await answer_permission(asked)
            _require_offered(answer, asked)
        except Exception as error:  # noqa: BLE001  # raised again where the prompt was called
            await running.fail(error)
            return PermissionAnswer(option_id=None, answered_by="upthread: no answer")
    return answer


async def ask_to_hold(
    asked: PermissionRequest, running: RunningPrompt, hold_call: HoldCall
) -> CallAnswer | None:
    """Return what holds back a call, None to let it run (A14).

    What was answered is an event before that. A call that cannot be recorded is held.
    """
    whole = _as_foreseen(asked, running)
    # Stands where the question is withdrawn or fails: what nobody judged does not run.
    answer: CallAnswer | None = _NO_ANSWER
    with running.asking():
        try:
            answer = await hold_call(whole)
        except Exception as error:  # noqa: BLE001  # raised again where the prompt was called
            await running.fail(error)
    if answer is None:
        return None
    held = CANCELLED if answer.ends_turn else REJECTED
    kind = ALLOWED if answer.runs else held
    was_recorded = await _recorded(whole, running, kind, answered_by=answer.answered_by)
    if answer.runs:
        # Too late to be recorded: the prompt is over, and the call would run outside of any turn.
        return None if was_recorded else _NO_ANSWER
    return answer


async def _recorded(
    asked: PermissionRequest, running: RunningPrompt, answer: str, *, answered_by: str
) -> bool:
    """Tell what was answered as an event; False where the prompt is over."""
    return await running.deliver(
        PermissionAnswered(
            upstream_session_id=asked.upstream_session_id,
            call_id=asked.call_id,
            title=asked.title,
            answer=answer,
            answered_by=answered_by,
        )
    )


def _require_offered(answer: PermissionAnswer, asked: PermissionRequest) -> None:
    offered = [option_id for option_id, _ in asked.options]
    if answer.option_id is not None and answer.option_id not in offered:
        raise UsageError(
            f"the permission for {asked.title!r} was answered with {answer.option_id!r}, "
            f"which {asked.upstream_session_id} did not offer",
            hint=f"answer with one of: {', '.join(offered) or 'nothing but None'}",
        )


# --- what runs inside an agent and asks ----------------------------------------------------------


class CallListener:
    """Where an agent's calls are asked about. `hold` is set once there is a prompt to judge by."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self.environment = {VARIABLE: f"127.0.0.1 {port} {self.token}"}
        self.hold: Callable[[AnyJson], Awaitable[CallAnswer | None]] | None = None

    async def serve(self, stream: SocketStream) -> None:
        """Answer one question; whoever does not know the token gets no answer."""
        async with stream:
            # Whoever hangs up, or sends no line, must not end the listener that all calls wait for.
            with suppress(anyio.IncompleteRead, anyio.BrokenResourceError, anyio.DelimiterNotFound):
                received = BufferedByteReceiveStream(stream)
                line = await received.receive_until(b"\n", QUESTION_BYTES_MAX)
                answer = await self._answered(line)
                if answer is not None:
                    await stream.send(json.dumps(answer).encode() + b"\n")

    async def _answered(self, line: bytes) -> Mapping[str, str] | None:
        # Any program of this machine may come: what is past a quota is no question either.
        try:
            asked = read_json(line)
        except QuotaExceededError:
            return None
        if isinstance(asked, Unreadable):
            return None
        told = object_at(asked)
        # In constant time: whatever runs on this machine can come and try.
        if not hmac.compare_digest(encode_text(text_at(told, "token")), self.token.encode()):
            return None
        held = await self.hold(told) if self.hold is not None else None
        # Empty lets it run, no answer does not: a listener that died lets nothing through.
        return {"held": f"upthread: {held.why}" if held else ""}


@asynccontextmanager
async def listening() -> AsyncGenerator[CallListener]:
    """Listen on loopback until the context is left."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as sockets:
        port = sockets.extra(SocketAttribute.local_port)  # noqa: S610  # anyio's, no query's
        listener = CallListener(port)
        async with task_group() as tasks:
            tasks.start_soon(sockets.serve, listener.serve)
            try:
                yield listener
            finally:
                tasks.cancel_scope.cancel()
