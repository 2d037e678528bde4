"""Being asked before each call of an agent that runs its calls without asking us (A14).

A plug-in or a hook of ours inside the agent asks on loopback, behind a token made for this start:
one line of JSON, answered by one. Who cannot ask does not run the call. The token is all that the
agent's own commands could learn, and with it they can only ask.
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

from upthread.agents._json import Unreadable, as_object, read_json, text_at
from upthread.agents.base import CallAnswer
from upthread.errors import QuotaExceededError
from upthread.tasks import task_group

HoldAsked: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[CallAnswer | None]]

VARIABLE: Final = "UPTHREAD_CALLS"
"""Where what asks finds us: host, port and token, with spaces between."""

QUESTION_BYTES_MAX: Final = 16 * 1024 * 1024
TOKEN_BYTES: Final = 24


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
