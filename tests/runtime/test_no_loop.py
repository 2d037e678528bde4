"""Without an event loop: what only looks is run where it stands, what has to wait says so."""

from __future__ import annotations

import asyncio

import pytest

from upthread.runtime.no_loop import LoopNeededError, NoLoop, run_here
from upthread.runtime.system import System


def system() -> System:
    return System(waits=NoLoop())


def test_a_look_is_run_to_its_end_and_its_error_is_raised_as_it_is():
    async def look() -> int:
        with system().shield():
            return await system().in_thread(lambda: 7)

    async def fails() -> None:
        await system().in_thread(lambda: {}["nothing"])

    assert run_here(look()) == 7
    with pytest.raises(KeyError, match="nothing"):
        run_here(fails())


def test_whoever_would_have_to_wait_says_so_and_has_left_its_blocks():
    left: list[str] = []

    async def waits() -> None:
        try:
            await system().sleep(0.1)
        finally:
            left.append("slept")

    async def holds_a_lease() -> None:
        system().require_loop()

    async def awaits_what_only_a_loop_brings() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            left.append("awaited")

    for call in (waits, holds_a_lease, awaits_what_only_a_loop_brings):
        with pytest.raises(LoopNeededError):
            run_here(call())
    assert left == ["slept", "awaited"]
