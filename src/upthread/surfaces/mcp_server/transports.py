"""Transports: over standard input and output, or over HTTP on loopback, behind a guard.

Over HTTP this machine's own programs that know the token may ask, and no web page. A page in a
browser can make it send requests to loopback, under the page's own name (DNS rebinding); its Host
or its Origin gives it away. Checked before the token, before any body is read.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable, Iterable
from typing import Any, Final

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from upthread.client import Project
from upthread.surfaces.mcp_server.delegations import Delegations
from upthread.surfaces.mcp_server.tools import server_of
from upthread.tasks import task_group

LOOPBACK: Final = "127.0.0.1"
CLOSE_S_MAX: Final = 5
WAITING_MAX: Final = 128


async def serve_stdio(project: Project) -> None:
    """Serve one client until it closes standard input."""
    async with task_group() as tasks:
        await server_of(project, Delegations(project, tasks)).run_stdio_async()
        tasks.cancel_scope.cancel()


async def serve_http(
    project: Project, *, port: int, token: str, listening: Callable[[str], None]
) -> None:
    """Serve any number of clients on loopback until interrupted; port 0 takes a free one.

    `listening` is told the address once it answers.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(WAITING_MAX)  # at once: who reads the address below connects at once
        bound = int(listener.getsockname()[1])
        async with task_group() as tasks:
            server = server_of(project, Delegations(project, tasks))
            guard = Guard(_application(server), token=token, port=bound)
            listening(f"http://{LOOPBACK}:{bound}/mcp")
            config = uvicorn.Config(
                guard, log_level="error", timeout_graceful_shutdown=CLOSE_S_MAX, lifespan="on"
            )
            await uvicorn.Server(config).serve(sockets=[listener])
            tasks.cancel_scope.cancel()


def _application(server: MCPServer[Any]) -> Any:
    # The guard has checked Host and Origin already; the SDK's own check knows no port in advance.
    off = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return server.streamable_http_app(transport_security=off)


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
