"""Who may ask over HTTP: this machine's own programs that know the token, and no web page.

A page in a browser can make it send requests to loopback, under the page's own name (DNS
rebinding); its Host or its Origin gives it away. Checked before the token, before any body is read.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

OWN_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """An ASGI application before another one. `port` is the one that is listened on."""

    def __init__(self, inner: ASGIApp, *, token: str, port: int) -> None:
        self._inner = inner
        self._expected = f"Bearer {token}".encode()
        self._hosts = {f"{name}:{port}".encode() for name in OWN_NAMES}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it: 403 for a foreign Host or Origin, 401 without token."""
        # The server's own, no request: without it the application would not start.
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        refused = self._refusal(list(scope.get("headers", [])))
        if refused:
            await _refuse(send, refused)
        else:
            await self._inner(scope, receive, send)

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> int:
        if len(_named(headers, b"host")) != 1 or not self._hosts.issuperset(
            _named(headers, b"host")
        ):
            return 403
        if not self._origins.issuperset(_named(headers, b"origin")):
            return 403
        tokens = list(_named(headers, b"authorization"))
        # In constant time: another process of this machine could else guess it byte by byte.
        is_known = len(tokens) == 1 and hmac.compare_digest(tokens[0], self._expected)
        return 0 if is_known else 401


def _named(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for each, value in headers if each.lower() == name]


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-length", b"0")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
