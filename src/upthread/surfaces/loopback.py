"""Serving on loopback, behind a guard: for this machine's own programs that know a token.

A page in a browser can make it send requests to loopback, under the page's own name (DNS
rebinding); its Host or its Origin gives it away. Checked before the token, before any body is read.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Mapping
from typing import Literal
from urllib.parse import quote, urlencode

import uvicorn
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = "127.0.0.1"
OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
CLOSE_S_MAX = 5
WAITING_MAX = 128


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


async def serve(guard: Guard, listener: socket.socket, *, lifespan: Literal["on", "off"]) -> None:
    """Serve what is behind a guard until interrupted."""
    config = uvicorn.Config(
        guard, log_level="error", timeout_graceful_shutdown=CLOSE_S_MAX, lifespan=lifespan
    )
    await uvicorn.Server(config).serve(sockets=[listener])


class Guard:
    """An ASGI application before another one. `port` is the one that is listened on."""

    def __init__(self, inner: ASGIApp, *, token: str, port: int) -> None:
        self._inner = inner
        self._token = token
        self._hosts = {f"{name}:{port}" for name in OWN_NAMES}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it: 403 for a foreign Host or Origin, 401 without token."""
        answer = self._inner
        # "lifespan" is the server's own, no request: without it the application would not start.
        if scope["type"] != "lifespan":
            asked = HTTPConnection(scope)
            hosts = asked.headers.getlist("host")
            is_ours = len(hosts) == 1 and self._hosts.issuperset(hosts)
            if not is_ours or not self._origins.issuperset(asked.headers.getlist("origin")):
                answer = _answer(403)
            elif not self._is_known(asked):
                answer = self._unknown(asked)
        await answer(scope, receive, send)

    def _is_known(self, asked: HTTPConnection) -> bool:
        tokens = asked.headers.getlist("authorization")
        return len(tokens) == 1 and self._is_token(tokens[0], before="Bearer ")

    def _is_token(self, given: str, *, before: str = "") -> bool:
        # In constant time: another process of this machine could else guess it byte by byte.
        return hmac.compare_digest(given.encode(), f"{before}{self._token}".encode())

    def _unknown(self, asked: HTTPConnection) -> Response:
        del asked
        return _answer(401, {"www-authenticate": "Bearer"})


class BrowserGuard(Guard):
    """For a person's browser: opened once with the token in the address, then known by a cookie.

    The address with the token answers with the cookie and leads to the same place without it, so
    that the token stays neither in the address bar nor in what a page is told of where it was.
    """

    def __init__(self, inner: ASGIApp, *, token: str, port: int) -> None:
        super().__init__(inner, token=token, port=port)
        # Cookies know no ports: two of these on one machine would take each other's.
        self._cookie = f"upthread-{port}"

    def _is_known(self, asked: HTTPConnection) -> bool:
        return self._is_token(asked.cookies.get(self._cookie, ""))

    def _unknown(self, asked: HTTPConnection) -> Response:
        tokens = asked.query_params.getlist("token")
        if len(tokens) != 1 or not self._is_token(tokens[0]):
            return _answer(401, body="Open the address that upthread web printed.\n")
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        others = [each for each in asked.query_params.multi_items() if each[0] != "token"]
        query = f"?{urlencode(others)}" if others else ""
        # Two slashes would begin the name of another machine.
        place = "/" + quote(asked.scope["path"].lstrip("/")) + query
        return _answer(303, {"location": place, "set-cookie": cookie})


def _answer(status: int, headers: Mapping[str, str] | None = None, body: str = "") -> Response:
    """Return an answer of the guard's own, which no browser keeps."""
    told = {"cache-control": "no-store", **(headers or {})}
    return Response(body, status_code=status, headers=told, media_type="text/plain")
