"""Task groups whose one error is raised as itself, so that callers catch what they know.

Only its group cancels a task. At Ctrl-C `asyncio.run` cancels every task that it can list, those
too that write to an agent and watch for its end, though their caller still needs them to end it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


@asynccontextmanager
async def task_group() -> AsyncGenerator[TaskGroup]:
    """Open a task group that lets a single error through as itself, not as a group of one."""
    import anyio  # noqa: PLC0415  # a hook has no event loop

    try:
        async with anyio.create_task_group() as tasks:
            group: Any = tasks  # its methods are declared final
            group.start_soon = partial(group.start_soon, _unlisted)
            group.start = partial(group.start, _unlisted)
            yield tasks
    except BaseExceptionGroup as group:
        error = _sole_member(group)
        raise error from error.__cause__


async def _unlisted(work: Callable[..., Awaitable[object]], *given: Any, **named: Any) -> None:
    """Take this task from asyncio's list, so that its group alone cancels it, and do its work.

    asyncio documents the call for libraries with tasks of their own.
    """
    import asyncio  # noqa: PLC0415  # who only looks a name up must not load an event loop

    with suppress(RuntimeError):  # on another event loop than asyncio's
        current = asyncio.current_task()
        assert current is not None
        asyncio._unregister_task(current)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    await work(*given, **named)


def _sole_member(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first, *others = group.exceptions
    if others:
        return group
    if isinstance(first, BaseExceptionGroup):
        return _sole_member(first)  # pyright: ignore[reportUnknownArgumentType]  # narrowed too far
    return first
