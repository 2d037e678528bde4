"""The server: its six tools, served over standard input and output, or over HTTP on loopback.

Each tool says in a line what it is for: every session pays for it.
"""

import functools
import json
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, BinaryIO, Literal, ParamSpec, TypeVar, cast

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    RequestBodyLimitMiddleware,
    TransportSecuritySettings,
)
from mcp.shared.message import SessionMessage
from mcp.types import ToolAnnotations
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import Field
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from upthread import __version__
from upthread.client.project import Project
from upthread.core.agents import Actor
from upthread.core.codec import object_at, text_at
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
            call, busy = call_of(context), when_busy
            stands = await delegations.begin(call, address, prompt, is_fresh=fresh, when_busy=busy)
        return await with_answers(context, delegations, stands)

    @server.tool(annotations=READING)
    @_told
    async def wait(  # pyright: ignore[reportUnusedFunction]
        handle: str, *, context: Context[Any, Any]
    ) -> Delegated | InputRequiredResult:
        """Wait for a delegation that is running."""
        stands = await resumed(context, delegations)
        stands = stands or await delegations.wait(handle, call_of(context))
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
    text = json.dumps(plain(shape), ensure_ascii=False)
    # Escaped as JSON escapes a backslash, so that the escape is what is read back.
    told: Shape = json.loads(_HALF.sub(lambda half: f"\\\\u{ord(half[0]):x}", text))
    return told


# --- transports ---------------------------------------------------------------------------------


async def serve_stdio(project: Project, opening: Opening) -> None:
    """Serve one client until it closes standard input. `opening` opens the project anew."""
    own = os.dup(0)
    # An agent that inherited standard input would take the client's requests.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    async def requests() -> AsyncGenerator[str]:
        """Yield each message; answer each line that is none, which the SDK drops (mcp 2.3)."""
        # Not closed: a thread may still wait for a line of it.
        lines, has_batches = os.fdopen(own, "rb", closefd=False), False
        while line := await anyio.to_thread.run_sync(_next_line, lines, abandon_on_cancel=True):
            for read in _messages(line, has_batches=has_batches) if line.strip() else ():
                if isinstance(read, JSONRPCError):
                    await answers.send(SessionMessage(read))
                    continue
                if read.get("method") == "initialize":
                    has_batches = text_at(read, "params", "protocolVersion") == WITH_BATCHES
                delegations.heed(None, read)
                yield json.dumps(read)

    try:
        async with current_project(project, opening) as current, task_group() as tasks:
            server = server_of(current, delegations := Delegations(current, tasks))
            lines = cast("anyio.AsyncFile[str]", requests())
            async with stdio_server(lines) as (messages, answers):
                served = server._lowlevel_server  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                await served.run(messages, answers, served.create_initialization_options())
            tasks.cancel_scope.cancel()
    finally:
        os.dup2(own, 0)


LINE_BYTES_MAX = DEFAULT_MAX_REQUEST_BODY_SIZE
"""As much as a request over HTTP may have."""

WITH_BATCHES = "2025-03-26"
"""The one revision of MCP that has batches. Their requests are answered one by one."""

_ENDS_BYTES = 500
_HALF = re.compile("[\ud800-\udfff]")
_ID = re.compile(
    rb'"jsonrpc"\s*:\s*"2\.0"\s*,\s*(?:"method"\s*:\s*"[^"\\]*"\s*,\s*)?'
    rb'"id"\s*:\s*(0|[1-9]\d{0,17}|"[ !#-\[\]-~]{1,200}")\s*(?:,\s*"method"|[,}])'
)
"""An id beside the version, as the SDKs write it: any other may be in the arguments."""


def _next_line(lines: BinaryIO) -> bytes:
    """Return the next line, empty at the end; of a longer one its ends, with a NUL between."""
    line = lines.readline(LINE_BYTES_MAX)
    if len(line) < LINE_BYTES_MAX:
        return line
    part, end = line, line[-_ENDS_BYTES:]
    while part and not part.endswith(b"\n"):
        part = lines.readline(LINE_BYTES_MAX)
        end = (end + part)[-_ENDS_BYTES:]
    return line[:_ENDS_BYTES] + b"\0" + end  # no JSON has a NUL


def _messages(line: bytes, *, has_batches: bool) -> Iterator[dict[str, Any] | JSONRPCError]:
    r"""Yield each message of a line, with U+FFFD for half a character, or the error for it.

    Half a character is from a text cut inside one, which `JSON.stringify` writes as `\ud83d`.
    An answer that cannot be read is an error to our question too, which would wait for ever.
    """
    try:
        found: Any = json.loads(line)
        is_batch = has_batches and isinstance(found, list) and found != []
        text = json.dumps(found if is_batch else [found], ensure_ascii=False)
        found, otherwise = json.loads(_HALF.sub("\N{REPLACEMENT CHARACTER}", text)), INVALID_REQUEST
    except (ValueError, RecursionError):
        end, otherwise = 0, PARSE_ERROR
        # Half a message may be before a whole one, and an answer has no method.
        found = [
            {
                "id": json.loads(each[1]),
                "method" * (b'"method"' in line[end : (end := each.end())]): 0,
            }
            for each in _ID.finditer(line)
        ] or [None]
    for each in found:
        told = object_at(each)
        with suppress(ValueError):
            message = jsonrpc_message_adapter.validate_json(json.dumps(each), by_name=False)
            # A request whose id is wrong passes as a notification, to which no answer is due.
            if "id" not in told or not isinstance(message, JSONRPCNotification):
                yield each
                continue
        identity = told.get("id")
        code = INVALID_PARAMS if isinstance(told.get("params"), list) else otherwise
        error = ErrorData(code=code, message=REFUSALS[code])
        identity = identity if type(identity) in {int, str} else None
        refused = JSONRPCError(jsonrpc="2.0", id=identity, error=error)
        if "method" not in told and identity is not None:
            yield refused.model_dump(exclude_unset=True)
            refused.id = None
        yield refused


REFUSALS = {
    PARSE_ERROR: f"Parse error: not one JSON text, or longer than {LINE_BYTES_MAX:,} bytes",
    INVALID_REQUEST: "Invalid Request: not JSON-RPC 2.0 with a string or integer id, or too deep",
    INVALID_PARAMS: "Invalid params: not an object",
}


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
            server = server_of(current, delegations := Delegations(current, tasks))
            # The guard has checked Host and Origin already; the SDK's own check knows no port in
            # advance.
            off = TransportSecuritySettings(enable_dns_rebinding_protection=False)
            application: Any = server.streamable_http_app(transport_security=off)
            guard = Guard(_answering(application, delegations), token=token, port=bound)
            listening(f"http://{LOOPBACK}:{bound}/mcp")
            await loopback.serve(guard, listener, lifespan="on")
            tasks.cancel_scope.cancel()


def _answering(inner: ASGIApp, delegations: Delegations) -> ASGIApp:
    """Answer each POST that is no request as over stdio; the SDK takes a wrong id for none."""

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            if (method := scope.get("method")) != "POST":
                if method == "DELETE":
                    delegations.end(Request(scope).headers.get("mcp-session-id", ""))
                await inner(scope, receive, send)
                return
            request = Request(scope, receive)
            read = next(_messages(await request.body(), has_batches=False))
            if isinstance(read, JSONRPCError):
                refused = JSONResponse(read.model_dump(exclude_unset=True), 400)
                await refused(scope, receive, send)
                return
            delegations.heed(request.headers.get("mcp-session-id", ""), read)
            parts = [json.dumps(read, ensure_ascii=False).encode()]

            async def again() -> Message:
                return {"type": "http.request", "body": parts.pop()} if parts else await receive()

            await inner(scope, again, send)

    return RequestBodyLimitMiddleware(answering, LINE_BYTES_MAX)
