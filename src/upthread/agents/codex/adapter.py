"""Starting Codex's server. It holds no state: every `open` is a process of its own."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from upthread.agents._call_listener import listening
from upthread.agents._process import ChildStart, started_child
from upthread.agents.base import AgentConnection, OpenRequest
from upthread.agents.codex import gate_hook
from upthread.agents.codex.connection import CodexConnection
from upthread.agents.codex.hooks import Hook
from upthread.agents.codex.server import CodexServer
from upthread.core.agents import AGENTS
from upthread.core.types import UpstreamSessionId

ROW: Final = AGENTS["codex"]
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class CodexAdapter:
    """Codex, natively."""

    def __init__(
        self,
        *,
        agent: str = ROW.name,
        command: Sequence[str] = ROW.ways[0].command,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._agent = agent
        self._command = tuple(command)
        self._environment = dict(environment or {})

    @property
    def agent(self) -> str:
        return self._agent

    @property
    def command(self) -> tuple[str, ...]:
        """What is started."""
        return self._command

    def open(self, request: OpenRequest) -> AbstractAsyncContextManager[AgentConnection]:
        return self._open(request)

    async def hooks(self, request: OpenRequest) -> tuple[Hook, ...]:
        """Return the hooks that Codex knows of, and whether it runs them. Raises as `open` does."""
        async with self._open(request) as connection:
            return await connection.hooks()

    @asynccontextmanager
    async def _open(self, request: OpenRequest) -> AsyncGenerator[CodexConnection]:
        async with listening() as calls:
            is_asking = request.hold_call is not None
            asking = calls.environment if is_asking else {}
            start = ChildStart(
                command=(*self._command, *(gate_hook.words() if is_asking else ())),
                working_directory=request.working_directory,
                stderr_path=request.stderr_path,
                redactor=request.redactor,
                environment={**self._environment, **request.environment, **asking},
            )
            async with started_child(start) as child:
                server = CodexServer(child, agent=self._agent, timeout_s=request.start_timeout_s)
                connection = CodexConnection(server, request, calls=calls)
                async with connection.serving():
                    yield connection

    def resume_command(self, upstream_session_id: UpstreamSessionId) -> tuple[str, ...] | None:
        # Any other word would be taken for a thread's name, or for an option.
        if not _ID.fullmatch(upstream_session_id):
            return None
        return ROW.resume_command(upstream_session_id)


ADAPTER: Final = CodexAdapter
"""By which the registry makes it."""
