"""A write whose outcome is known: a task that is cancelled ends when its write has.

A thread cannot be stopped. Were it left behind, its write would be committed after its caller was
told that it was cancelled, and whoever tries again would have it twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Value = TypeVar("Value")


async def settled(
    write: Callable[Given, Value], *given: Given.args, **named: Given.kwargs
) -> Value:
    """Carry a write out in a thread and return what it returns.

    Cancelled, it waits for the end of the write, then raises CancelledError, with the error of a
    write that failed as its cause.
    """
    call = partial(copy_context().run, write, *given, **named)
    work = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError as cancelled:
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                continue  # once more, and the write goes on all the same
        raise cancelled from work.exception()
