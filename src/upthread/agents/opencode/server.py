"""One `opencode serve` as a child process, and the HTTP API of it: requests, a stream of events.

It listens on loopback, on a port of its own choice, behind a password made for this start. No proxy
of the environment is asked, no address but that one is spoken to, and each request is a connection
of its own: h11 reads what comes, and costs a tenth of what a whole HTTP client takes to load. Every
way a request can fail becomes an UpstreamError in full words.
"""

import base64
import json
import math
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import anyio
import h11
from anyio.abc import SocketStream

from upthread.agents._connection import RunningAgent, start_of
from upthread.agents._json_lines import Unreadable, read_json, unknown
from upthread.agents._outcomes import DETAIL_CHARACTERS_MAX
from upthread.agents._process import started_child
from upthread.agents._prompt import REJECT, RunningPrompt, permission
from upthread.agents.base import AnswerPermission, OpenRequest, PermissionRequest
from upthread.agents.opencode.turn import tool_kind
from upthread.core.codec import AnyJson, object_at, session_at, text_at, texts_at
from upthread.core.quotas import ANSWER, FRAME, Allowance
from upthread.core.types import QUESTION_DISMISSED, Environment, Outcome, UpstreamSessionId
from upthread.errors import UpstreamError

# Port 0 is 4096 where that is free, else any other (1.18.33): it prints which.
ARGUMENTS = ("--hostname", "127.0.0.1", "--port", "0")
HOST = "127.0.0.1"
USER_NAME = "opencode"
PASSWORD_BYTES = 32
READ_BYTES = 2**16
FIRST_LINES_KEPT_MAX = 3
EVENTS_PATH = "/global/event"
"""Of all directories: a session works in its own, whichever one the server was started in."""
SILENCE_S = 60.0
"""How long the stream of events may be silent; the server sends a heartbeat every 10 s."""
NOT_FOUND = 404
FIRST_ERROR = 400
"""What is no error is below it: nothing is redirected on loopback."""
_DATA = b"data:"

# Loopback alone: the password would go to whatever address is found here.
_LISTENING = re.compile(rb"listening on http://127\.0\.0\.1:(\d{1,5})\b")


class ApiError(Exception):
    """The server refused. `name` is its own word for the error, empty where it gave none."""

    def __init__(self, status: int, name: str, message: str) -> None:
        super().__init__(f"{message or 'no reason given'} ({name or 'HTTP'} {status})")
        self.status = status
        self.name = name

    @property
    def outcome(self) -> Outcome:
        """What it means that a request was refused."""
        return Outcome.MISSING if self.status == NOT_FOUND else Outcome.UNKNOWN


class ServerGoneError(Exception):
    """The connection failed: the server has ended, or answers no more."""


# --- HTTP ----------------------------------------------------------------------------------------


class _Exchange:
    """One request that was sent, and its answer as it comes."""

    def __init__(self, stream: SocketStream, connection: h11.Connection, silence_s: float) -> None:
        self._stream = stream
        self._connection = connection
        self._silence_s = silence_s

    async def status(self) -> int:
        """Return the answer's status; what comes before it says nothing."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event.status_code
            if not isinstance(event, h11.InformationalResponse):
                raise ServerGoneError("it closed the connection without an answer")

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the answer's content as it comes, until its end."""
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)

    async def _next(self) -> h11.Event:
        while True:
            event = self._connection.next_event()
            if isinstance(event, h11.Event):
                return event
            with anyio.fail_after(self._silence_s):
                self._connection.receive_data(await self._read())

    async def _read(self) -> bytes:
        try:
            return await self._stream.receive(READ_BYTES)
        except anyio.EndOfStream:
            return b""


class OpenCodeClient:
    """One server's API. It knows no sessions and no turns."""

    def __init__(self, port: int, password: str, *, directory: str, timeout_s: float) -> None:
        self._port = port
        self._directory = directory
        known = base64.b64encode(f"{USER_NAME}:{password}".encode())
        self._headers = [
            ("host", f"{HOST}:{port}"),
            ("authorization", f"Basic {known.decode()}"),
            ("content-type", "application/json"),
            ("connection", "close"),
        ]
        self._timeout_s = timeout_s
        self.allowance = Allowance()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> object:
        """Return what the server answers."""
        return await self._send("GET", path, query=query)

    async def post(
        self, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> object:
        """Send a body and return the answer, None for an empty one."""
        # In ASCII: lone surrogates and NUL go as escapes.
        content = json.dumps({} if body is None else body).encode("ascii")
        return await self._send("POST", path, content=content, query=query)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        content: bytes = b"",
        query: Mapping[str, str] | None = None,
    ) -> object:
        """Raises ApiError, ServerGoneError, and TimeoutError after `timeout_s`.

        QuotaExceededError for an answer that is too long.
        """
        target = f"{path}?{urlencode({'directory': self._directory, **(query or {})})}"
        # One deadline for the whole exchange, however many pieces it comes in.
        with anyio.fail_after(self._timeout_s):
            async with self._exchange(method, target, content) as exchange:
                status = await exchange.status()
                answer = await content_of(exchange.pieces())
        said = read_json(answer) if answer else None
        if status >= FIRST_ERROR:
            raise _refused(status, said)
        return said

    async def events(self) -> AsyncGenerator[Any | Unreadable]:
        """Yield the server's events as they come, each decoded; ends when the server closes.

        Raises QuotaExceededError and ServerGoneError.
        """
        async with self._exchange("GET", EVENTS_PATH, silence_s=SILENCE_S) as exchange:
            status = await exchange.status()
            if status >= FIRST_ERROR:
                raise _refused(status, read_json(await content_of(exchange.pieces())))
            async for line in lines_of(exchange.pieces()):
                self.allowance.take(len(line))
                if line.startswith(_DATA):
                    yield read_json(line.removeprefix(_DATA))

    @asynccontextmanager
    async def _exchange(
        self, method: str, target: str, content: bytes = b"", *, silence_s: float = math.inf
    ) -> AsyncGenerator[_Exchange]:
        connection = h11.Connection(h11.CLIENT)
        length = ("content-length", str(len(content)))
        request = h11.Request(method=method, target=target, headers=[*self._headers, length])
        frames = (request, *([h11.Data(data=content)] if content else ()), h11.EndOfMessage())
        try:
            async with await anyio.connect_tcp(HOST, self._port) as stream:
                await stream.send(b"".join(connection.send(each) or b"" for each in frames))
                yield _Exchange(stream, connection, silence_s)
        # TimeoutError is an OSError: what is silent for too long is gone as well.
        except (OSError, anyio.BrokenResourceError, h11.RemoteProtocolError) as error:
            raise ServerGoneError(f"{method} {target}: {error}") from error


async def content_of(pieces: AsyncIterator[bytes]) -> bytes:
    """Return a whole answer, as long as one may be."""
    content = bytearray()
    async for piece in pieces:
        content += piece
        ANSWER.require(len(content))
    return bytes(content)


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    r"""Yield the lines of a stream without their ends, `\n` or `\r\n`.

    The server writes each event as one line of data. Raises QuotaExceededError for one that is too
    long.
    """
    buffer = bytearray()
    async for chunk in chunks:
        # What was searched is not searched again: a long event comes in many pieces.
        scanned = len(buffer)
        buffer += chunk
        while (end := buffer.find(b"\n", scanned)) >= 0:
            yield bytes(buffer[:end]).rstrip(b"\r")
            del buffer[: end + 1]
            scanned = 0
        FRAME.require(len(buffer))


def _refused(status: int, answer: object) -> ApiError:
    message = text_at(answer, "data", "message") or text_at(answer, "message")
    return ApiError(status, text_at(answer, "name"), message[:DETAIL_CHARACTERS_MAX])


# --- the server ----------------------------------------------------------------------------------


class OpenCodeServer(RunningAgent):
    """A running server. Made by `started_server` only."""

    closes: ClassVar = "connections"
    client: OpenCodeClient

    async def get(
        self,
        path: str,
        *,
        session: UpstreamSessionId | None = None,
        query: Mapping[str, str] | None = None,
    ) -> object:
        """Ask, within the start-up deadline. Raises UpstreamError for every way it can fail."""
        return await self._answered(f"GET {path}", self.client.get(path, query), session)

    async def post(
        self, path: str, body: object = None, *, session: UpstreamSessionId | None = None
    ) -> object:
        """As `get`, with a body."""
        return await self._answered(f"POST {path}", self.client.post(path, body), session)

    async def _answered(
        self, asked: str, answer: Awaitable[object], session: UpstreamSessionId | None
    ) -> object:
        try:
            self.child.require_own()
            return await answer
        except ApiError as error:
            raise self.refused(
                asked, str(error), outcome=error.outcome, session=session or ""
            ) from error
        except ServerGoneError as error:
            raise await self.died(asked) from error
        except TimeoutError as error:
            raise self.timed_out(asked) from error


@asynccontextmanager
async def started_server(
    agent: str, command: tuple[str, ...], request: OpenRequest, environment: Environment
) -> AsyncGenerator[OpenCodeServer]:
    """Start a server and wait until it listens; leaving the context ends it.

    Raises UpstreamError when it does not listen on loopback within `start_timeout_s` (A2).
    """
    # Of this start alone: commands that OpenCode runs inherit it (1.18.33).
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    access = {
        # After the others: a password of the person's own is one that our client does not send.
        "OPENCODE_SERVER_USERNAME": USER_NAME,
        "OPENCODE_SERVER_PASSWORD": password,
    }
    # It goes on when its stdin has been closed (1.18.33).
    start = start_of(
        request,
        (*command, *ARGUMENTS),
        {**environment, **access},
        ends_at_eof=False,
        is_opencode=True,
    )
    timeout_s = request.start_timeout_s
    async with started_child(start) as child:
        server = OpenCodeServer(child, agent=agent, timeout_s=timeout_s)
        port = await _listening(server)
        server.client = OpenCodeClient(
            port, password, directory=request.working_directory, timeout_s=timeout_s
        )
        yield server


async def _listening(server: OpenCodeServer) -> int:
    """Return the port the server says it listens on."""
    said: list[bytes] = []
    error: UpstreamError | None = None
    with anyio.move_on_after(server.timeout_s):
        while (line := await server.child.read_line()) is not None:
            found = _LISTENING.search(line)
            if found is not None:
                return int(found[1])
            said = [*said, line][:FIRST_LINES_KEPT_MAX]
        error = await server.died("it listened", when="before")
    error = error or server.timed_out("where it listens")
    out = b" / ".join(said).decode("utf-8", "replace")
    error.hint += f"; its stdout began with: {out}" if out else ""
    raise error


# --- what OpenCode asks while a prompt runs (A13) -------------------------------------------------

# A permission goes to the caller, and its answer is an event before it leaves. A question of the
# agent's own (`question`) has no answer here: questions to a person travel in reports, so it is
# dismissed, and the event says so. Without an answer a permission is rejected, which ends the turn.


OPTIONS = (("once", "allow_once"), ("always", "allow_always"), (REJECT, "reject_once"))
"""What can be answered, as (OpenCode's word, ACP's kind)."""


async def answer_asked(
    client: OpenCodeClient,
    answer_permission: AnswerPermission,
    asked: AnyJson,
    running: RunningPrompt,
    directory: str,
) -> None:
    """Answer one `permission.asked`. `directory` is the one its session works in."""
    reply = await permission(request_of(asked), running, answer_permission)
    await _post(client, "/permission/{}/reply", asked, directory, {"reply": reply or REJECT})


async def dismiss_question(
    client: OpenCodeClient, asked: AnyJson, running: RunningPrompt, directory: str
) -> None:
    """Dismiss one `question.asked`."""
    session = session_at(asked, "sessionID")
    await running.deliver(unknown(QUESTION_DISMISSED, dict(asked), session))
    await _post(client, "/question/{}/reject", asked, directory, None)


async def _post(
    client: OpenCodeClient, path: str, asked: AnyJson, directory: str, body: object
) -> None:
    # Refused is what the turn has withdrawn meanwhile, and a server that answers no more is the
    # prompt's own end to tell: by its stream of events or by the deadline.
    with suppress(ApiError, ServerGoneError, TimeoutError):
        # It is known only in the directory that its session works in (1.18.33).
        place = {"directory": directory} if directory else None
        await client.post(path.format(quote(text_at(asked, "id"), safe="")), body, place)


def call_request(told: AnyJson) -> PermissionRequest:
    """Return a call that is about to run, as our plug-in tells it."""
    tool, arguments = text_at(told, "tool"), told.get("arguments")
    return PermissionRequest(
        upstream_session_id=session_at(told, "session"),
        call_id=text_at(told, "call") or None,
        title=text_at(arguments, "command") or tool,
        tool_kind=tool_kind(tool),
        arguments=arguments,
        locations=(),
        options=(),
        tool=tool,
    )


def request_of(asked: AnyJson) -> PermissionRequest:
    """Return a `permission.asked` as the port has it."""
    permission = text_at(asked, "permission")
    details = object_at(asked, "metadata")
    named = ", ".join(texts_at(asked, "patterns"))
    path = text_at(details, "filepath")
    return PermissionRequest(
        upstream_session_id=session_at(asked, "sessionID"),
        call_id=text_at(asked, "tool", "callID") or None,
        title=f"{permission}: {named}" if named else permission,
        tool_kind=tool_kind(permission),
        arguments={"permission": permission, "patterns": named, **details},
        locations=(path,) if path else (),
        options=OPTIONS,
        tool=permission,
    )
