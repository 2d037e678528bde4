"""`mcp`, for agents that take MCP servers, and `web`, for a person's browser."""

from __future__ import annotations

import os
import secrets
import webbrowser
from functools import partial
from typing import Final

from upthread.client.project import Project
from upthread.client.project_opener import open_project
from upthread.core.actors import Actor
from upthread.core.trust import ignored_notice
from upthread.errors import UsageError
from upthread.surfaces.cli.call import Call

TOKEN_VARIABLE: Final = "UPTHREAD_MCP_TOKEN"  # noqa: S105  # a variable's name
TOKEN_CHARACTERS_MIN: Final = 16


def mcp(call: Call, *, is_http: bool, port: int) -> int:
    """Serve until the client, or a person, ends it."""
    try:
        from upthread.surfaces.mcp_server import transports
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the MCP server needs {error.name}", hint="pip install 'upthread[mcp]'"
        ) from error
    # In the environment and not among the arguments, which every user of the machine can list.
    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(24)
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise UsageError(
            f"{TOKEN_VARIABLE} is too short", hint=f"at least {TOKEN_CHARACTERS_MIN} characters"
        )

    def listening(address: str) -> None:
        call.output.note(f"listening on {address}")
        # Said only where nobody could know it: one that was given is not for the log.
        if TOKEN_VARIABLE not in os.environ:
            call.output.note(f"Authorization: Bearer {token}")

    actor = Actor(kind="model", name="through MCP")
    opening = partial(open_project, ".", database=call.database, actor=actor)

    async def serve(project: Project) -> None:
        if ignored := ignored_notice(project.settings.pending):
            call.output.note(ignored, "yellow")  # nobody is asked: a model would be who answers
        if is_http:
            await transports.serve_http(
                project, opening, port=port, token=token, listening=listening
            )
        else:
            await transports.serve_stdio(project, opening)

    # Whoever started the server: what it is asked for comes from a model.
    call.with_project(serve, actor=actor)
    return 0


def web(call: Call, *, port: int, opens_browser: bool) -> int:
    """Serve until a person ends it. The address has a token: only who started it knows it."""
    try:
        from upthread.surfaces.web import server
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the web pages need {error.name}", hint="pip install 'upthread[web]'"
        ) from error

    def listening(address: str) -> None:
        call.output.note(f"listening on {address}")
        call.output.note("Ctrl-C ends it", "dim")
        if opens_browser and call.output.is_terminal:
            webbrowser.open(address)

    async def serve(project: Project) -> None:
        token = secrets.token_urlsafe(24)
        try:
            await server.serve(project, port=port, token=token, listening=listening)
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be listened on: {error.strerror}", hint="leave --port out"
            ) from error

    call.with_project(serve)
    return 0
