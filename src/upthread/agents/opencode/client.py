"""The HTTP API of one `opencode serve`: requests, and its stream of events.

It knows no sessions and no turns. The server listens on loopback, so no proxy of the environment
is ever asked, and every request carries the password the server was started with. httpx is imported
late: whoever only looks at what is stored must not pay for it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from upthread.agents._json import Unreadable, read_json, text_at
from upthread.core.quotas import ANSWER, FRAME, Allowance

if TYPE_CHECKING:
    import httpx

USER_NAME: Final = "opencode"
EVENTS_PATH: Final = "/global/event"
"""Of all directories: a session works in its own, whichever one the server was started in."""
SILENCE_S: Final = 60.0
"""How long the stream of events may be silent; the server sends a heartbeat every 10 s."""
MESSAGE_CHARACTERS_MAX: Final = 2000
_DATA: Final = b"data:"


class ApiError(Exception):
    """The server refused. `name` is its own word for the error, empty where it gave none."""

    def __init__(self, status: int, name: str, message: str) -> None:
        super().__init__(f"{message or 'no reason given'} ({name or 'HTTP'} {status})")
        self.status = status
        self.name = name


class ServerGoneError(Exception):
    """The connection failed: the server has ended, or answers no more."""


class OpenCodeClient:
    """One server's API. Use it as a context: leaving it closes its connections."""

    def __init__(self, url: str, password: str, *, timeout_s: float) -> None:
        import httpx  # noqa: PLC0415  # see the module docstring

        self._http: httpx.AsyncClient = httpx.AsyncClient(
            base_url=url,
            auth=(USER_NAME, password),
            # Each exchange has one deadline, in `_send`; httpx would count every read for itself.
            timeout=httpx.Timeout(None),
            trust_env=False,
        )
        self._timeout_s = timeout_s
        self.allowance = Allowance()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._http.aclose()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> object:
        """Return what the server answers."""
        return await self._send("GET", path, query=query)

    async def post(
        self, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> object:
        """Send a body and return the answer, None for an empty one."""
        return await self._send("POST", path, body=body, query=query)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
    ) -> object:
        """Raises ApiError, ServerGoneError, and TimeoutError after `timeout_s`.

        QuotaExceededError for an answer that is too long.
        """
        import httpx  # noqa: PLC0415  # see the module docstring

        # In ASCII: lone surrogates and NUL go as escapes.
        content = json.dumps({} if body is None else body).encode("ascii")
        request = self._http.build_request(
            method,
            path,
            params=query,
            content=content if method == "POST" else None,
            headers={"content-type": "application/json"},
        )
        try:
            with anyio.fail_after(self._timeout_s):
                response = await self._http.send(request, stream=True)
                content = await _content_of(response)
        except httpx.TransportError as error:
            raise ServerGoneError(f"{method} {path}: {error}") from error
        answer = read_json(content) if content else None
        if response.is_error:
            raise _refused(response.status_code, answer)
        return answer

    async def events(self) -> AsyncGenerator[Any | Unreadable]:
        """Yield the server's events as they come, each decoded; ends when the server closes.

        Raises QuotaExceededError and ServerGoneError.
        """
        import httpx  # noqa: PLC0415  # see the module docstring

        timeout = httpx.Timeout(self._timeout_s, read=SILENCE_S)
        try:
            async with self._http.stream("GET", EVENTS_PATH, timeout=timeout) as response:
                if response.is_error:
                    refused = read_json(await _content_of(response))
                    raise _refused(response.status_code, refused)
                async for line in lines_of(response.aiter_bytes()):
                    self.allowance.take(len(line))
                    if line.startswith(_DATA):
                        yield read_json(line.removeprefix(_DATA))
        except httpx.TransportError as error:
            raise ServerGoneError(f"GET {EVENTS_PATH}: {error}") from error


async def _content_of(response: httpx.Response) -> bytes:
    """Return a whole answer, as long as one may be."""
    content = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            content += chunk
            ANSWER.require(len(content))
    finally:
        await response.aclose()
    return bytes(content)


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    r"""Yield the lines of a stream without their ends, `\n` or `\r\n`.

    The server writes each event as one line of data. Raises QuotaExceededError for one that is too
    long.
    """
    buffer = bytearray()
    async for chunk in chunks:
        # What was searched is not searched again: a long event comes in many pieces.
        scanned = len(buffer)
        buffer += chunk
        while (end := buffer.find(b"\n", scanned)) >= 0:
            yield bytes(buffer[:end]).rstrip(b"\r")
            del buffer[: end + 1]
            scanned = 0
        FRAME.require(len(buffer))


def _refused(status: int, answer: object) -> ApiError:
    message = text_at(answer, "data", "message") or text_at(answer, "message")
    return ApiError(status, text_at(answer, "name"), message[:MESSAGE_CHARACTERS_MAX])
