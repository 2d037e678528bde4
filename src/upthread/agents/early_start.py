"""An agent that starts while the caller still decides, and ends while the caller goes on.

`started_early` begins to open it at once. What it gives is an adapter in that one's place, whose
first `open` takes the agent that is being started. Leaving that `open` lets it end, and nobody
waits for it but the context of `started_early`: when that is left, nothing of it runs (A1). Nothing
is attached or sent before it is opened, so it may be started before anybody has decided anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from upthread.agents.base import AgentAdapter, AgentConnection, OpenRequest
from upthread.core.types import UpstreamSessionId
from upthread.errors import UpthreadError
from upthread.tasks import task_group


class EarlyStart:
    """An adapter whose agent is being started. Made by `started_early` only."""

    def __init__(self, adapter: AgentAdapter, request: OpenRequest) -> None:
        self._adapter = adapter
        self._request = request
        self._connection: AgentConnection | None = None
        self._error: UpthreadError | None = None
        self._is_ready = anyio.Event()
        self._is_released = anyio.Event()
        self._has_ended = anyio.Event()

    @property
    def agent(self) -> str:
        return self._adapter.agent

    def resume_command(self, upstream_session_id: UpstreamSessionId) -> tuple[str, ...] | None:
        return self._adapter.resume_command(upstream_session_id)

    def open(self, request: OpenRequest) -> AbstractAsyncContextManager[AgentConnection]:
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: OpenRequest) -> AsyncGenerator[AgentConnection]:
        # Taken once, and only by who wants it as it was started.
        if self._is_released.is_set() or request != self._request:
            self._is_released.set()
            # Two at once would be two writers of one session.
            await self._has_ended.wait()
            async with self._adapter.open(request) as connection:
                yield connection
            return
        try:
            await self._is_ready.wait()
            if self._connection is None:
                assert self._error is not None, "one of the two is there"
                raise self._error
            yield self._connection
        finally:
            self._is_released.set()

    def release(self) -> bool:
        """Let it end; False where it has not started yet."""
        self._is_released.set()
        return self._is_ready.is_set()

    async def run(self) -> None:
        """Start it, and end it once it is released."""
        try:
            async with self._adapter.open(self._request) as self._connection:
                self._is_ready.set()
                await self._is_released.wait()
        except UpthreadError as error:
            if self._is_ready.is_set():
                raise
            # Told where it is opened: one that nobody wants may fail as it likes.
            self._error = error
            self._is_ready.set()
        finally:
            self._has_ended.set()


@asynccontextmanager
async def started_early(adapter: AgentAdapter, request: OpenRequest) -> AsyncGenerator[EarlyStart]:
    """Begin to start an agent; leaving the context waits for its end, wanted or not."""
    async with task_group() as tasks:
        early = EarlyStart(adapter, request)
        tasks.start_soon(early.run)
        try:
            yield early
        finally:
            # In the middle of its start it is not waited for, but ended as it is.
            if not early.release():
                tasks.cancel_scope.cancel()
