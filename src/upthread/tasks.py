"""Task groups whose one error is raised as itself, so that callers catch what they know."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def task_group() -> AsyncGenerator[TaskGroup]:
    """Open a task group that lets a single error through as itself, not as a group of one."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        error = _sole_member(group)
        raise error from error.__cause__


def _sole_member(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first, *others = group.exceptions
    if others:
        return group
    if isinstance(first, BaseExceptionGroup):
        return _sole_member(first)  # pyright: ignore[reportUnknownArgumentType]  # narrowed too far
    return first
