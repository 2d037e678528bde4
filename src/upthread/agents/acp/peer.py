"""The other end of the wire: JSON-RPC 2.0 with one agent, its messages in the order it wrote them.

What we ask is answered under the number we gave it. What the agent tells is handed to
`on_notification` and awaited before the next line is read. What it asks is answered in a task of
its own, for a person may think about it, and the answer to our own prompt comes after. Lines that
cannot be read are handed on raw. Every way a request outside a prompt can fail becomes an
UpstreamError in full words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from anyio.abc import TaskGroup
from msgspec import Struct

from upthread.agents._json_lines import Unreadable, as_object, text_at
from upthread.agents._process import ChildProcess
from upthread.agents._process_end import JsonLines, RefusedByAgentError
from upthread.agents.acp.outcomes import Refusal, refusal_in
from upthread.agents.acp.quirks import Quirk
from upthread.agents.acp.wire import Message, message_in
from upthread.core.quotas import HISTORY, TURN, milliseconds_of
from upthread.core.types import Outcome, UpstreamSessionId

OnNotification: TypeAlias = Callable[[Message | Unreadable], Awaitable[None]]
OnRequest: TypeAlias = Callable[[str, Any], Awaitable[dict[str, Any]]]

_HAS_ENDED: Final = "the agent's output has ended"


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
        on_notification: OnNotification,
        on_request: OnRequest,
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

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask, within the start-up deadline. Raises UpstreamError for every way it can fail."""
        # The answer to a load comes after the whole history, which has a quota of its own.
        self.child.allowance.renew(HISTORY)
        answer = await self._answer_to(
            method,
            lambda number: self._send({"id": number, "method": method, "params": params}),
            session=text_at(params, "sessionId"),
        )
        try:
            return as_object(_result_of(answer))
        except RpcError as error:
            raise self._refusal(method, text_at(params, "sessionId"), error) from error

    async def ask(self, method: str, params: Mapping[str, Any]) -> object:
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
        with suppress(ConnectionError):
            await self.tell("session/cancel", {"sessionId": session})

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell what has no answer. Raises ConnectionError when nobody is there."""
        if self.has_ended.is_set():
            raise ConnectionError(_HAS_ENDED)
        await self._send({"method": method, "params": params})

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

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self.send({"jsonrpc": "2.0", **message})


def _result_of(answer: dict[str, Any] | None) -> object:
    if answer is None:
        raise ConnectionError(_HAS_ENDED)
    if "error" in answer and "result" not in answer:
        error = as_object(answer["error"])
        raise RpcError(error["code"], str(error.get("message", "")), error.get("data"))
    return answer.get("result")
