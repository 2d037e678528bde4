"""Transports: over standard input and output, or over HTTP on loopback, behind a guard."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from io import BufferedReader, RawIOBase, TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import jsonrpc_message_adapter

from upthread.agents._json_lines import as_object
from upthread.client.project import Project
from upthread.surfaces.loopback import CLOSE_S_MAX, LOOPBACK, Guard, listening_socket
from upthread.surfaces.mcp_server.delegations import Delegations, Opening, current_project
from upthread.surfaces.mcp_server.tools import server_of
from upthread.tasks import task_group

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


async def serve_stdio(project: Project, opening: Opening) -> None:
    """Serve one client until it closes standard input. `opening` opens the project anew."""
    async with current_project(project, opening) as current, task_group() as tasks:
        usual, requests = sys.stdin, _Requests()
        sys.stdin = TextIOWrapper(BufferedReader(requests))
        try:
            await server_of(current, Delegations(current, tasks)).run_stdio_async()
        finally:
            sys.stdin = usual
            requests.give_back()
        tasks.cancel_scope.cancel()


class _Requests(RawIOBase):
    r"""Standard input, with each request as the SDK reads it.

    The SDK drops a line that is no message to it, and the client waits for its answer (mcp 2.3). A
    common one is a text cut inside a character, which `JSON.stringify` writes as `\\ud83d`.
    """

    def __init__(self) -> None:
        self._own = os.dup(0)
        self._lines = os.fdopen(self._own, "rb", closefd=False)
        # An agent that inherited standard input would take the client's requests.
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self._left = b""

    def give_back(self) -> None:
        """Put standard input back in its place."""
        # Not closed: a thread may still wait for a line of it.
        os.dup2(self._own, 0)

    def readable(self) -> bool:
        """Return that it is for reading."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer from the next line, nothing at the end. Blocking."""
        self._left = self._left or _as_message(self._lines.readline())
        room = memoryview(buffer).cast("B")
        part, self._left = self._left[: len(room)], self._left[len(room) :]
        room[: len(part)] = part
        return len(part)


_HALF_ESCAPED: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF: Final = re.compile("[\ud800-\udfff]")
UNREADABLE: Final = "a request that cannot be read"
"""The method that a request gets which is no JSON-RPC: the SDK answers that there is none."""


def _as_message(line: bytes) -> bytes:
    """Return a line with U+FFFD for each half of a character, or a request that is refused."""
    try:
        if _HALF_ESCAPED.search(line):
            text = json.dumps(json.loads(line), ensure_ascii=False)
            line = _HALF.sub("\N{REPLACEMENT CHARACTER}", text).encode() + b"\n"
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValueError, RecursionError):
        return _refused(line)
    return line


def _refused(line: bytes) -> bytes:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line  # nobody can be answered
    identity = as_object(found).get("id")
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        return line
    refused = {"jsonrpc": "2.0", "id": identity, "method": UNREADABLE}
    return json.dumps(refused).encode() + b"\n"


async def serve_http(
    project: Project,
    opening: Opening,
    *,
    port: int,
    token: str,
    listening: Callable[[str], None],
) -> None:
    """Serve any number of clients on loopback until interrupted; port 0 takes a free one.

    `listening` is told the address once it answers.
    """
    with listening_socket(port) as listener:
        bound = int(listener.getsockname()[1])
        async with current_project(project, opening) as current, task_group() as tasks:
            server = server_of(current, Delegations(current, tasks))
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
