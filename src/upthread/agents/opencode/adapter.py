"""Starting OpenCode's server. It holds no state: every `open` is a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio.to_thread
from msgspec import structs

from upthread.agents._call_listener import CallListener, listening
from upthread.agents._process import inherited_environment
from upthread.agents.base import AgentConnection, OpenRequest
from upthread.agents.opencode.connection import OpenCodeConnection
from upthread.agents.opencode.gate import with_gate
from upthread.agents.opencode.server import started_server
from upthread.core.agents import AGENTS
from upthread.core.types import UpstreamSessionId

ROW: Final = AGENTS["opencode"]


def _wall_clock_ms() -> int:
    """Only to compare with the times an agent gives: it is not recorded as one of ours."""
    return time.time_ns() // 1_000_000


class OpenCodeAdapter:
    """OpenCode, natively."""

    def __init__(
        self,
        *,
        agent: str = ROW.name,
        command: Sequence[str] = ROW.ways[0].command,
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
        async with listening() as calls:
            asking = self._gated(request, calls)
            async with started_server(
                self._agent, self._command, asking or request, self._environment
            ) as server:
                connection = OpenCodeConnection(
                    server, request, calls=calls if asking else None, now_ms=self._now_ms
                )
                async with connection.serving():
                    yield connection

    def _gated(self, request: OpenRequest, calls: CallListener) -> OpenRequest | None:
        """Return the request with a plug-in that asks us before each call, None without one."""
        if request.hold_call is None:
            return None
        # What it would inherit: a configuration of the person's own in that variable stays in it.
        given = {**inherited_environment(os.environ), **self._environment, **request.environment}
        gate = with_gate(given)
        # Sooner without it, which `can_hold` tells, than in the place of what cannot be read.
        if gate is None:
            return None
        return structs.replace(
            request, environment={**request.environment, **calls.environment, **gate}
        )

    def resume_command(self, upstream_session_id: UpstreamSessionId) -> tuple[str, ...] | None:
        return ROW.resume_command(upstream_session_id)


def _import_library() -> None:
    """Import httpx off the event loop's thread: it takes a good part of a second, once."""
    import httpx  # noqa: PLC0415, F401  # pyright: ignore[reportUnusedImport]  # for its effect


ADAPTER: Final = OpenCodeAdapter
"""By which the registry makes it."""
