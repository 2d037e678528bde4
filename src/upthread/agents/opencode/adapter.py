"""Starting OpenCode's server. It holds no state: every `open` is a process of its own."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio.to_thread

from upthread.agents.base import AgentConnection, OpenRequest
from upthread.agents.opencode.connection import OpenCodeConnection
from upthread.agents.opencode.server import started_server
from upthread.core.types import UpstreamSessionId

COMMAND: Final = ("opencode", "serve")
VERSION_SEEN: Final = "1.18.33"


def _wall_clock_ms() -> int:
    """Only to compare with the times an agent gives: it is not recorded as one of ours."""
    return time.time_ns() // 1_000_000


class OpenCodeAdapter:
    """OpenCode, natively."""

    def __init__(
        self,
        *,
        agent: str = "opencode",
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str] | None = None,
        now_ms: Callable[[], int] = _wall_clock_ms,
    ) -> None:
        self._agent = agent
        self._command = tuple(command)
        self._environment = dict(environment or {})
        self._now_ms = now_ms

    @property
    def agent(self) -> str:
        return self._agent

    @property
    def command(self) -> tuple[str, ...]:
        """What is started, without the arguments that say where it listens."""
        return self._command

    def open(self, request: OpenRequest) -> AbstractAsyncContextManager[AgentConnection]:
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: OpenRequest) -> AsyncGenerator[AgentConnection]:
        await anyio.to_thread.run_sync(_import_library)
        async with started_server(self._agent, self._command, request, self._environment) as server:
            connection = OpenCodeConnection(server, request, now_ms=self._now_ms)
            async with connection.serving():
                yield connection

    def resume_command(self, upstream_session_id: UpstreamSessionId) -> tuple[str, ...] | None:
        # An id that begins with a dash would be taken for an option.
        if upstream_session_id.startswith("-"):
            return None
        return ("opencode", "--session", upstream_session_id)


def _import_library() -> None:
    """Import httpx off the event loop's thread: it takes a good part of a second, once."""
    import httpx  # noqa: PLC0415, F401  # pyright: ignore[reportUnusedImport]  # for its effect
