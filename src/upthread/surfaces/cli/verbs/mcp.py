"""`upthread mcp`: serves agents that take MCP servers."""

import os
import secrets
from functools import partial

from upthread.client.project import Project
from upthread.client.project_opener import open_project
from upthread.core.agents import Actor
from upthread.core.trust import ignored_notice
from upthread.errors import UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, extra

TOKEN_VARIABLE = "UPTHREAD_MCP_TOKEN"  # noqa: S105  # a variable's name
TOKEN_CHARACTERS_MIN = 16


@options.verb
@options.flag("--http", "is_http", "Over HTTP on loopback, not stdio.")
@options.port
def main(call: Call, *, is_http: bool, port: int) -> None:
    """Serve delegation as MCP tools, until the client or Ctrl-C ends it."""
    with extra("the MCP server", "mcp"):
        from upthread.surfaces.mcp_server import server
    # In the environment and not among the arguments, which every user of the machine can list.
    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(24)
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise UsageError(
            f"{TOKEN_VARIABLE} is too short", hint=f"at least {TOKEN_CHARACTERS_MIN} characters"
        )

    def listening(address: str) -> None:
        call.output.note(f"listening on {address}")
        # Only a generated token is printed: a given token must not be in a log.
        if TOKEN_VARIABLE not in os.environ:
            call.output.note(f"Authorization: Bearer {token}")

    actor = Actor(kind="model", name="through MCP")
    opening = partial(open_project, ".", database=call.database, actor=actor)

    async def serve(project: Project) -> None:
        if ignored := ignored_notice(project.settings.pending):
            call.output.note(ignored, "yellow")  # no question, because a model would answer
        if is_http:
            await server.serve_http(project, opening, port=port, token=token, listening=listening)
        else:
            await server.serve_stdio(project, opening)

    # The requests come from a model, even if a person started the server.
    call.with_project(serve, actor=actor)
