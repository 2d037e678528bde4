"""The other end of the wire: JSON-RPC 2.0 with one agent, its messages in the order it wrote them.

What we ask is answered under the number we gave it. What the agent tells is handed to
`on_notification` and awaited before the next line is read: a full pipe then stops an agent that is
faster than we are. What it asks is answered in a task of its own, for a person may think about it,
and the answer to our own prompt comes after. Lines that cannot be read are handed on raw.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from anyio.abc import TaskGroup

from upthread.agents._json import Unreadable, as_object, write_frame
from upthread.agents._process import ChildProcess
from upthread.agents._questions import Questions
from upthread.agents.acp.wire import Message, read_frame
from upthread.errors import QuotaExceededError

OnNotification: TypeAlias = Callable[[Message | Unreadable], Awaitable[None]]
OnRequest: TypeAlias = Callable[[str, Any], Awaitable[dict[str, Any]]]

UNREADABLE_SHOWN_CHARACTERS: Final = 200
CODE_INTERNAL_ERROR: Final = -32603
_HAS_ENDED: Final = "the agent's output has ended"


class RpcError(Exception):
    """An error object of JSON-RPC, as one end answers the other with."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Peer:
    """A running agent at the other end. `serve` reads it until its output ends."""

    def __init__(
        self, child: ChildProcess, *, on_notification: OnNotification, on_request: OnRequest
    ) -> None:
        self._child = child
        self._on_notification = on_notification
        self._on_request = on_request
        self._questions = Questions()
        self.first_unreadable = ""
        self.violation: QuotaExceededError | None = None

    async def serve(self, tasks: TaskGroup) -> None:
        """Read every message until there will be no more; requests are answered in `tasks`."""
        try:
            while (frame := await self._read()) is not None:
                await self._take(frame, tasks)
        finally:
            self._questions.end()

    async def ask(self, method: str, params: Mapping[str, Any]) -> object:
        """Return the result. Raises RpcError for a refusal, ConnectionError when none can come."""
        return _result_of(
            await self._questions.ask(
                lambda number: self._send({"id": number, "method": method, "params": params})
            )
        )

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell what has no answer. Raises ConnectionError when nobody is there."""
        if self._questions.has_ended.is_set():
            raise ConnectionError(_HAS_ENDED)
        await self._send({"method": method, "params": params})

    # --- what it says --------------------------------------------------------------------------

    async def _read(self) -> Message | Unreadable | None:
        """Return the next frame; None when there will be no more, or it went past a limit."""
        try:
            while (line := await self._child.read_line()) is not None:
                frame = read_frame(line)
                if isinstance(frame, Message) and frame.is_request:
                    self._child.allowance.take_request()
                if frame is not None:
                    return frame
        except QuotaExceededError as violation:
            self.violation = violation
        return None

    async def _take(self, frame: Message | Unreadable, tasks: TaskGroup) -> None:
        if isinstance(frame, Unreadable):
            self.first_unreadable = (
                self.first_unreadable or str(frame.raw)[:UNREADABLE_SHOWN_CHARACTERS]
            )
            await self._on_notification(frame)
        elif frame.is_request:
            tasks.start_soon(self._answer, frame)
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
        try:
            await self._send(said)
        except ConnectionError:
            return  # it is gone, which whoever waits for its answers learns by itself

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._child.write_line(write_frame({"jsonrpc": "2.0", **message}))


def _result_of(answer: dict[str, Any] | None) -> object:
    if answer is None:
        raise ConnectionError(_HAS_ENDED)
    if "error" in answer and "result" not in answer:
        error = as_object(answer["error"])
        code = error.get("code", CODE_INTERNAL_ERROR)
        raise RpcError(code, str(error.get("message", "")), error.get("data"))
    return answer.get("result")
