"""The wait for a limit to pass: the one way in which time alone mends what holds a turn up."""

from __future__ import annotations

import anyio

from upthread.runtime.system import System

LOOK_AT_CLOCK_EVERY_S = 5.0
"""A machine that sleeps, or a clock that is set, must not make anybody wait for ever."""

PAUSE_S_MIN = 1.0
"""An agent that says again and again that its limit has just passed is not asked without end."""


async def wait_until(at_ms: int, system: System) -> None:
    """Return once that moment is past, in epoch milliseconds; not at once where it is already."""
    await anyio.sleep(PAUSE_S_MIN)
    while (left_ms := at_ms - system.now_ms()) > 0:  # noqa: ASYNC110  # a clock has no event
        await anyio.sleep(min(left_ms / 1000, LOOK_AT_CLOCK_EVERY_S))
