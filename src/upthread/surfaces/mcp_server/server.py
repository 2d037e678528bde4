"""The server: its six tools, served over standard input and output, or over HTTP on loopback.

Each tool says in a line what it is for: every session pays for it.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from io import BufferedReader, RawIOBase, TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeVar, cast

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from mcp_types import InputRequiredResult, jsonrpc_message_adapter
from pydantic import Field

from upthread import __version__
from upthread.client.project import Project
from upthread.core.agents import Actor
from upthread.core.codec import object_at
from upthread.core.text import visible_text
from upthread.errors import UpthreadError
from upthread.surfaces import loopback
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.failures import without_secrets
from upthread.surfaces.cli.terminal.output import plain
from upthread.surfaces.loopback import LOOPBACK, Guard, listening_socket
from upthread.surfaces.mcp_server.delegations import (
    CurrentProject,
    Delegated,
    Delegations,
    Opening,
    call_of,
    client_name,
    current_project,
    resumed,
    with_answers,
)
from upthread.tasks import task_group

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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
    server.middleware.append(delegations.heed_cancel)
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
            call, busy = call_of(context.request_context), when_busy
            stands = await delegations.begin(call, address, prompt, is_fresh=fresh, when_busy=busy)
        return await with_answers(context, delegations, stands)

    @server.tool(annotations=READING)
    @_told
    async def wait(  # pyright: ignore[reportUnusedFunction]
        handle: str, *, context: Context[Any, Any]
    ) -> Delegated | InputRequiredResult:
        """Wait for a delegation that is running."""
        stands = await resumed(context, delegations)
        stands = stands or await delegations.wait(handle, call_of(context.request_context))
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
        return _plain({"workstreams": await shapes.workstreams(project, views)})

    @server.tool(annotations=READING)
    @_told
    async def report(address: Address) -> Shape:  # pyright: ignore[reportUnusedFunction]
        """What a role handed back last."""
        project = await current.now()
        view = await project.role(address)
        ended = view.last_turn.ended if view.last_turn else None
        return _plain({"report": view.report or (ended.report if ended else None)})

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


def _plain(shape: Mapping[str, object]) -> Shape:
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


# --- transports ---------------------------------------------------------------------------------


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


_HALF_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")
_ID = re.compile(rb'"id"\s*:\s*([1-9]\d{0,17}|"[ !#-\[\]-~]{1,200}")')
UNREADABLE = "a request that cannot be read"
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
        written = _ID.search(line)
        found = {"id": json.loads(written[1])} if written else {}
    identity = object_at(found).get("id")
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        return line  # nobody can be answered
    return json.dumps({"jsonrpc": "2.0", "id": identity, "method": UNREADABLE}).encode() + b"\n"


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
            # The guard has checked Host and Origin already; the SDK's own check knows no port in
            # advance.
            off = TransportSecuritySettings(enable_dns_rebinding_protection=False)
            application: Any = server.streamable_http_app(transport_security=off)
            guard = Guard(application, token=token, port=bound)
            listening(f"http://{LOOPBACK}:{bound}/mcp")
            await loopback.serve(guard, listener, lifespan="on")
            tasks.cancel_scope.cancel()
