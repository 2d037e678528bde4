"""Transports: over standard input and output, or over HTTP on loopback, behind a guard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from upthread.client.project import Project
from upthread.surfaces.loopback import CLOSE_S_MAX, LOOPBACK, Guard, listening_socket
from upthread.surfaces.mcp_server.current_project import Opening, current_project
from upthread.surfaces.mcp_server.delegations import Delegations
from upthread.surfaces.mcp_server.tools import server_of
from upthread.tasks import task_group


async def serve_stdio(project: Project, opening: Opening) -> None:
    """Serve one client until it closes standard input. `opening` opens the project anew."""
    async with current_project(project, opening) as current, task_group() as tasks:
        await server_of(current, Delegations(current, tasks)).run_stdio_async()
        tasks.cancel_scope.cancel()


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
