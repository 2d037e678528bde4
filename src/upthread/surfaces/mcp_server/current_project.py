"""The project of a server that lives long: opened anew once a file of its settings is another one.

A server is started once a day, and a person who forbids something meanwhile, or agrees to it, means
the next delegation. What was begun before goes on under the settings it was begun with.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeAlias

import anyio

from upthread.boundary.files import changed_since
from upthread.client.project import Project

Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Project]]


class CurrentProject:
    """Made by `current_project`. `now` is asked at the beginning of each call, and kept for it."""

    def __init__(self, opened: Project, opening: Opening, stack: AsyncExitStack) -> None:
        self._opened = opened
        self._opening = opening
        self._stack = stack
        self._lock = anyio.Lock()

    async def now(self) -> Project:
        """Return the project with its settings as they are. Raises ConfigError, as opening does."""
        async with self._lock:
            stamps = self._opened.settings.stamps
            if await anyio.to_thread.run_sync(changed_since, stamps):
                # The one before stays open as well: a delegation may still be at work on it.
                self._opened = await self._stack.enter_async_context(self._opening())
            return self._opened


@asynccontextmanager
async def current_project(opened: Project, opening: Opening) -> AsyncGenerator[CurrentProject]:
    """Yield a project that was opened as one that follows its settings; closes what it opens."""
    async with AsyncExitStack() as stack:
        yield CurrentProject(opened, opening, stack)
