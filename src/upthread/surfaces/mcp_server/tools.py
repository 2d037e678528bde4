"""The tools, six and no more. Each says in a line what it is for: every session pays for it."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, cast

import msgspec
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from mcp_types import InputRequiredResult
from pydantic import Field

from upthread import __version__
from upthread.core.actors import Actor
from upthread.core.text import visible_text
from upthread.errors import UpthreadError
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.failures import without_secrets
from upthread.surfaces.cli.terminal.output import plain
from upthread.surfaces.mcp_server.delegations import (
    CurrentProject,
    Delegated,
    Delegations,
    client_name,
    resumed,
    with_answers,
)

INSTRUCTIONS = (
    "Delegate work to roles that remember. Show `line` to the person; never invent session ids."
)
READING = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
WORKING = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)
ANSWERING = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

Address = Annotated[str, Field(description="WORKSTREAM/ROLE, e.g. spec-42/planner")]
Shape = dict[str, Any]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def server_of(current: CurrentProject, delegations: Delegations) -> MCPServer[Any]:
    """Return the server with its tools, over a project."""
    server: MCPServer[Any] = MCPServer(
        "upthread", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    _add_delegating(server, delegations)
    _add_looking(server, current)
    return server


def _told(tool: Callable[Parameters, Awaitable[Result]]) -> Callable[Parameters, Awaitable[Result]]:
    """Let a model read what went wrong and what to do next; the SDK shows only its own errors."""

    @functools.wraps(tool)
    async def told(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return await tool(*args, **kwargs)
        except UpthreadError as error:
            # An error may quote what an agent said, and a model's transcript is kept by others.
            raise ToolError(visible_text(without_secrets(str(error)))) from error

    return told


def _add_delegating(server: MCPServer[Any], delegations: Delegations) -> None:
    @server.tool(annotations=WORKING)
    @_told
    async def delegate(  # pyright: ignore[reportUnusedFunction]  # the decorator has it
        address: Address,
        prompt: str,
        fresh: bool = False,  # noqa: FBT001, FBT002  # a tool's argument
        when_busy: Literal["refuse", "wait", "sibling"] = "refuse",
        *,
        context: Context[Any, Any],
    ) -> Delegated | InputRequiredResult:
        """Give a role a prompt; it goes on in its own earlier session. Long ones return running."""
        stands = await resumed(context, delegations)
        if stands is None:
            stands = await delegations.begin(address, prompt, is_fresh=fresh, when_busy=when_busy)
        return await with_answers(context, delegations, stands)

    @server.tool(annotations=READING)
    @_told
    async def wait(  # pyright: ignore[reportUnusedFunction]
        handle: str, *, context: Context[Any, Any]
    ) -> Delegated | InputRequiredResult:
        """Wait for a delegation that is running."""
        stands = await resumed(context, delegations) or await delegations.wait(handle)
        return await with_answers(context, delegations, stands)


def _add_looking(server: MCPServer[Any], current: CurrentProject) -> None:
    @server.tool(annotations=READING)
    @_told
    async def status(  # pyright: ignore[reportUnusedFunction]
        workstream: str | None = None,
    ) -> Shape:
        """How workstreams stand: roles, verdicts, open questions."""
        project = await current.now()
        views = (
            await project.workstreams() if workstream is None else [await project.show(workstream)]
        )
        commands = await project.resume_commands(shapes.roles_of(views))
        listed = [shapes.workstream(view, commands) for view in views]
        return _plain({"workstreams": listed})

    @server.tool(annotations=READING)
    @_told
    async def report(address: Address) -> Shape:  # pyright: ignore[reportUnusedFunction]
        """What a role handed back last."""
        project = await current.now()
        view = await project.role(address)
        ended = view.last_turn.ended if view.last_turn else None
        found = msgspec.to_builtins(view.report) if view.report else None
        told = found or (ended.report if ended else None)
        return _plain({"report": told})

    @server.tool(annotations=ANSWERING)
    @_told
    async def answer(  # pyright: ignore[reportUnusedFunction]
        workstream: str,
        text: str,
        question_id: str | None = None,
        *,
        context: Context[Any, Any],
    ) -> Shape:
        """Suggest an answer to a role's open question; it stays open until a person answers."""
        # A model whatever the client says: what comes through MCP has passed through one (ADR 65).
        by = Actor(kind="model", name=f"through MCP, {client_name(context)}")
        project = await current.now()
        view = await project.answer(workstream, text, question_id=question_id, by=by)
        return _plain(shapes.run_state(workstream, view, next_commands=()))

    @server.tool(annotations=READING)
    @_told
    async def why(address: Address) -> Shape:  # pyright: ignore[reportUnusedFunction]
        """Why a session was resumed or not, and what would be decided now."""
        project = await current.now()
        told = shapes.why(await project.why(address))
        return _plain(told)


def _plain(shape: shapes.Shape) -> Shape:
    """Return a shape as MCP can say it: halves of characters, which UTF-8 has not, as escapes."""
    return {name: _sayable(plain(value)) for name, value in shape.items()}


def _sayable(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_sayable(each) for each in cast("list[object]", value)]
        case dict():
            members = cast("dict[str, object]", value)
            return {str(_sayable(name)): _sayable(each) for name, each in members.items()}
        case _:
            return value
