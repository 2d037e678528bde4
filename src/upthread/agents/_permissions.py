"""What an agent asks before it acts, answered by the caller (A13, A14). Nothing is allowed here.

Every adapter's requests come through here, so that all of them are judged by what will happen: the
announced call and the request laid together (core/shell/expected_call.py).

An agent that runs its calls without asking us has a plug-in or a hook of ours inside, which asks on
loopback, behind a token made for this start: one line of JSON, answered by one. Who cannot ask does
not run the call. The token is all that the agent's own commands could learn, and with it they can
only ask.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import structs

from upthread.agents._json_lines import Unreadable, as_object, read_json, text_at
from upthread.agents._prompt import RunningPrompt
from upthread.agents.base import (
    AnswerPermission,
    CallAnswer,
    HoldCall,
    PermissionAnswer,
    PermissionRequest,
)
from upthread.core.events import PermissionAnswered
from upthread.core.quotas import OPTIONS
from upthread.errors import QuotaExceededError, UsageError
from upthread.tasks import task_group

HoldAsked: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[CallAnswer | None]]

VARIABLE: Final = "UPTHREAD_CALLS"
"""Where what asks finds us: host, port and token, with spaces between."""

QUESTION_BYTES_MAX: Final = 16 * 1024 * 1024
TOKEN_BYTES: Final = 24

ALLOW: Final = "allow"
REJECT: Final = "reject"
"""The answers of `ALLOW_OR_REJECT`."""

CANCELLED: Final = "cancelled"
"""The answer on record of a question that was withdrawn, and of a call that was held back."""

ALLOWED: Final = "allow_once"
REJECTED: Final = "reject_once"
"""The same of a call that the agent did not ask about."""

UNNAMED: Final = "unnamed"
"""The same where an agent offers a choice and does not say of what kind it is."""

_NO_ANSWER: Final = CallAnswer(answered_by="upthread: no answer", why="upthread has no answer")


def _as_foreseen(asked: PermissionRequest, running: RunningPrompt) -> PermissionRequest:
    """Return a request with all that was said of its call, whatever it says itself."""
    tellings = (*running.told_of(asked.call_id), asked.told)
    whole = structs.replace(asked, tellings=tellings).foreseen
    return structs.replace(
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
    kind = _kind_of(answer)
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


def _kind_of(answer: CallAnswer) -> str:
    if answer.runs:
        return ALLOWED
    return CANCELLED if answer.ends_turn else REJECTED


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
        self.hold: HoldAsked | None = None

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
        told = as_object(asked)
        # In constant time: whatever runs on this machine can come and try.
        if not hmac.compare_digest(_raw(text_at(told, "token")), _raw(self.token)):
            return None
        held = await self.hold(told) if self.hold is not None else None
        # Empty lets it run, no answer does not: a listener that died lets nothing through.
        return {"held": f"upthread: {held.why}" if held else ""}


def _raw(token: str) -> bytes:
    # JSON may hold half a surrogate pair, which is no UTF-8.
    return token.encode("utf-8", "surrogatepass")


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
