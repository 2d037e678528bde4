"""Starting an agent that speaks ACP. It holds no state: every `open` is a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path, PurePath

from upthread.agents._process import ChildStart, started_child
from upthread.agents.acp.calls import AgentWords
from upthread.agents.acp.connection import AcpConnection
from upthread.agents.acp.quirks import Quirk, quirk_for
from upthread.agents.base import AgentConnection, OpenRequest
from upthread.core.agents import AGENTS
from upthread.core.types import UpstreamSessionId


def _wall_clock_ms() -> int:
    """Only for turning an agent's `retry after` into a time: it is not recorded as one of ours."""
    return time.time_ns() // 1_000_000


class AcpAdapter:
    """One ACP agent. Without a `quirk` row it is found by the agent's name and its command."""

    def __init__(
        self,
        *,
        agent: str,
        command: Sequence[str],
        quirk: Quirk | None = None,
        environment: Mapping[str, str] | None = None,
        now_ms: Callable[[], int] = _wall_clock_ms,
    ) -> None:
        self._agent = agent
        self._command = tuple(command)
        self._quirk = quirk if quirk is not None else quirk_for(agent, *_base_names(command))
        self._environment = dict(environment or {})
        self._now_ms = now_ms

    @property
    def agent(self) -> str:
        return self._agent

    @property
    def command(self) -> tuple[str, ...]:
        """What is started."""
        return self._command

    @property
    def quirk(self) -> Quirk:
        """What is particular to it, NO_QUIRK for an agent nobody described."""
        return self._quirk

    def open(self, request: OpenRequest) -> AbstractAsyncContextManager[AgentConnection]:
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: OpenRequest) -> AsyncGenerator[AgentConnection]:
        # The row's last: this adapter relies on what it sets.
        environment = {**self._environment, **request.environment, **self._quirk.environment}
        start = ChildStart(
            command=self._command,
            working_directory=request.working_directory,
            stderr_path=request.stderr_path,
            redactor=request.redactor,
            environment=environment,
        )
        words = AgentWords(
            agent=self._agent,
            quirk=self._quirk,
            now_ms=self._now_ms,
            home=_home({**os.environ, **environment}, self._quirk),
        )
        async with started_child(start) as child:
            connection = AcpConnection(child, request, words)
            async with connection.serving():
                await connection.shake_hands()
                yield connection

    def resume_command(self, upstream_session_id: UpstreamSessionId) -> tuple[str, ...] | None:
        row = AGENTS.get(self._quirk.name)
        return row.resume_command(upstream_session_id) if row else None


def _home(environment: Mapping[str, str], quirk: Quirk) -> Path:
    named = (environment.get(name) for name in quirk.home_variables)
    return Path(next(filter(None, named), "~"))


def _base_names(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command without directories: a directory's name says nothing of it."""
    return tuple(PurePath(word).name for word in command)
