"""Serving on loopback, behind a guard: for this machine's own programs that know a token.

A page in a browser can make it send requests to loopback, under the page's own name (DNS
rebinding); its Host or its Origin gives it away. Checked before the token, before any body is read.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK: Final = "127.0.0.1"
OWN_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
CLOSE_S_MAX: Final = 5
WAITING_MAX: Final = 128

Headers = list[tuple[bytes, bytes]]


def listening_socket(port: int) -> socket.socket:
    """Return a socket that listens on loopback; port 0 takes a free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(WAITING_MAX)  # at once: who is told the address connects at once
    except OSError:
        listener.close()
        raise
    return listener


class Guard:
    """An ASGI application before another one. `port` is the one that is listened on."""

    def __init__(self, inner: ASGIApp, *, token: str, port: int) -> None:
        self._inner = inner
        self._token = token.encode()
        self._hosts = {f"{name}:{port}".encode() for name in OWN_NAMES}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it: 403 for a foreign Host or Origin, 401 without token."""
        # The server's own, no request: without it the application would not start.
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        headers = list(scope.get("headers", []))
        if not self._is_from_here(headers):
            await respond(send, 403)
        elif self._is_known(headers):
            await self._inner(scope, receive, send)
        else:
            await self._unknown(scope, send)

    def _is_from_here(self, headers: Headers) -> bool:
        hosts = named(headers, b"host")
        is_ours = len(hosts) == 1 and self._hosts.issuperset(hosts)
        return is_ours and self._origins.issuperset(named(headers, b"origin"))

    def _is_known(self, headers: Headers) -> bool:
        tokens = named(headers, b"authorization")
        return len(tokens) == 1 and self._is_token(tokens[0], before=b"Bearer ")

    def _is_token(self, given: bytes, *, before: bytes = b"") -> bool:
        # In constant time: another process of this machine could else guess it byte by byte.
        return hmac.compare_digest(given, before + self._token)

    async def _unknown(self, scope: Scope, send: Send) -> None:
        del scope
        await respond(send, 401, [(b"www-authenticate", b"Bearer")])


class BrowserGuard(Guard):
    """For a person's browser: opened once with the token in the address, then known by a cookie.

    The address with the token answers with the cookie and leads to the same place without it, so
    that the token stays neither in the address bar nor in what a page is told of where it was.
    """

    def __init__(self, inner: ASGIApp, *, token: str, port: int) -> None:
        super().__init__(inner, token=token, port=port)
        # Cookies know no ports: two of these on one machine would take each other's.
        self._cookie = f"upthread-{port}"

    def _is_known(self, headers: Headers) -> bool:
        given: SimpleCookie = SimpleCookie()
        try:
            for header in named(headers, b"cookie"):
                given.load(header.decode("latin-1"))
        except CookieError:
            return False
        found = given.get(self._cookie)
        return found is not None and self._is_token(found.value.encode())

    async def _unknown(self, scope: Scope, send: Send) -> None:
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in asked if name == "token"]
        if len(tokens) != 1 or not self._is_token(tokens[0].encode()):
            await respond(send, 401, body=b"Open the address that upthread web printed.\n")
            return
        cookie = f"{self._cookie}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
        query = urlencode([(name, value) for name, value in asked if name != "token"])
        # Two slashes would begin the name of another machine.
        place = "/" + quote(scope["path"].lstrip("/")) + (f"?{query}" if query else "")
        await respond(send, 303, [(b"location", place.encode()), (b"set-cookie", cookie.encode())])


def named(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return the values of a header."""
    return [value for each, value in headers if each.lower() == name]


async def respond(
    send: Send, status: int, headers: Headers | None = None, body: bytes = b""
) -> None:
    """Answer without the application."""
    told = [
        (b"content-length", str(len(body)).encode()),
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"cache-control", b"no-store"),
        *(headers or []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})
