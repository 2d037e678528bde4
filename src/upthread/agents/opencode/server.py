"""One `opencode serve` as a child process, and asking it something in full words.

It listens on loopback, on a port of its own choice, behind a password made for this start. Every
way a request can fail becomes an UpstreamError that names the agent, what was asked, the session,
and ends with what the server last wrote to stderr.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio

from upthread.agents._process import ChildProcess, ChildStart, started_child
from upthread.agents._process_end import died, exit_code_of, how_it_ended, is_signal, last_words
from upthread.agents.base import OpenRequest
from upthread.agents.opencode.client import USER_NAME, ApiError, OpenCodeClient, ServerGoneError
from upthread.agents.opencode.outcomes import failure_of_request
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import QuotaExceededError, UpstreamError

# Port 0 is 4096 where that is free, else any other (1.18.33): it prints which.
ARGUMENTS: Final = ("--hostname", "127.0.0.1", "--port", "0")
PASSWORD_BYTES: Final = 32
CLOSED: Final = "connections"
FIRST_LINES_KEPT_MAX: Final = 3

# Loopback alone: the password would go to whatever address is found here.
_LISTENING: Final = re.compile(rb"listening on (http://127\.0\.0\.1:\d{1,5})\b")


class RefusedByServerError(UpstreamError):
    """The server answered with an error. `status` is HTTP's."""

    status: int = 0


class OpenCodeServer:
    """A running server. Made by `started_server` only."""

    def __init__(
        self, child: ChildProcess, client: OpenCodeClient, *, agent: str, timeout_s: float
    ) -> None:
        self.child = child
        self.client = client
        self.agent = agent
        self._timeout_s = timeout_s
        self.violation: QuotaExceededError | None = None

    async def get(
        self,
        path: str,
        *,
        session: UpstreamSessionId | None = None,
        query: Mapping[str, str] | None = None,
    ) -> object:
        """Ask, within the start-up deadline. Raises UpstreamError for every way it can fail."""
        return await self._asked("GET", path, session=session, query=query)

    async def post(
        self, path: str, body: object = None, *, session: UpstreamSessionId | None = None
    ) -> object:
        """As `get`, with a body."""
        return await self._asked("POST", path, session=session, body=body)

    async def _asked(
        self,
        method: str,
        path: str,
        *,
        session: UpstreamSessionId | None,
        body: object = None,
        query: Mapping[str, str] | None = None,
    ) -> object:
        try:
            if method == "GET":
                return await self.client.get(path, query)
            return await self.client.post(path, body)
        except ApiError as error:
            raise self._refused(f"{method} {path}", session, error) from error
        except ServerGoneError as error:
            raise await self.died(f"{method} {path}") from error
        except TimeoutError as error:
            raise self._timed_out(f"{method} {path}") from error

    async def died(self, during: str) -> UpstreamError:
        """End what is left of a server that answers no more, and say how it went."""
        return await died(
            self.child,
            agent=self.agent,
            during=during,
            hint=self.last_words(),
            violation=self.violation,
            closed=CLOSED,
        )

    def last_words(self) -> str:
        """Return what it last wrote to stderr, in words for a person."""
        return last_words(self.child)

    def _refused(
        self, asked: str, session: UpstreamSessionId | None, error: ApiError
    ) -> RefusedByServerError:
        failure = failure_of_request(error)
        about = f" for session {session}" if session else ""
        refused = RefusedByServerError(
            f"{self.agent} refused {asked}{about}: {failure.detail}",
            outcome=failure.outcome,
            hint=self.last_words(),
        )
        refused.status = error.status
        if session:
            refused.ids["upstream_session_id"] = session
        return refused

    def _timed_out(self, asked: str) -> UpstreamError:
        return UpstreamError(
            f"{self.agent} did not answer {asked} within {self._timeout_s:g} s",
            outcome=Outcome.TIMED_OUT,
            hint=self.last_words(),
        )


@asynccontextmanager
async def started_server(
    agent: str, command: tuple[str, ...], request: OpenRequest, environment: Mapping[str, str]
) -> AsyncGenerator[OpenCodeServer]:
    """Start a server and wait until it listens; leaving the context ends it.

    Raises UpstreamError when it does not listen on loopback within `start_timeout_s` (A2).
    """
    # Of this start alone: commands that OpenCode runs inherit it (1.18.33).
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    start = ChildStart(
        command=(*command, *ARGUMENTS),
        working_directory=request.working_directory,
        stderr_path=request.stderr_path,
        redactor=request.redactor,
        environment={
            **environment,
            **request.environment,
            # After the others: a password of the person's own is one that our client does not send.
            "OPENCODE_SERVER_USERNAME": USER_NAME,
            "OPENCODE_SERVER_PASSWORD": password,
        },
        # It goes on when its stdin has been closed (1.18.33).
        ends_at_eof=False,
    )
    async with started_child(start) as child:
        url = await _listening(child, agent, request.start_timeout_s)
        async with OpenCodeClient(url, password, timeout_s=request.start_timeout_s) as client:
            yield OpenCodeServer(child, client, agent=agent, timeout_s=request.start_timeout_s)


async def _listening(child: ChildProcess, agent: str, timeout_s: float) -> str:
    """Return the address the server says it listens on."""
    said: list[bytes] = []
    outcome, how = Outcome.TIMED_OUT, f"did not say where it listens within {timeout_s:g} s"
    was_killed = False
    with anyio.move_on_after(timeout_s):
        while (line := await child.read_line()) is not None:
            found = _LISTENING.search(line)
            if found is not None:
                return found[1].decode("ascii")
            said = [*said, line][:FIRST_LINES_KEPT_MAX]
        exit_code = await exit_code_of(child)
        ended, was_killed = how_it_ended(exit_code, closed=CLOSED), is_signal(exit_code)
        outcome, how = Outcome.PROCESS_DIED, f"{ended} before it listened"
    error = UpstreamError(f"{agent} {how}", outcome=outcome, hint=_said(child, said))
    error.was_killed = was_killed
    raise error


def _said(child: ChildProcess, lines: list[bytes]) -> str:
    out = b" / ".join(lines).decode("utf-8", "replace")
    return last_words(child) + (f"; its stdout began with: {out}" if out else "")
