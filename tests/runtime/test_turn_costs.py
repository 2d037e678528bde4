"""What a turn costs in things that can be counted, and that it stays so as a conversation grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from tests.support.sets import EXTENDED
from tests.support.sqlite_faults import statements_of
from tests.support.world import World

import upthread
from upthread.runtime.event_loop import EventLoop
from upthread.runtime.lease import LeaseTimes
from upthread.runtime.system import System

pytestmark = pytest.mark.anyio

ADDRESS = "spec-42/planner"
OPTIONS = upthread.TellOptions(agent="rehearsal")
Result = TypeVar("Result")

HOPS_MAX = 6
STATEMENTS_MAX = 120
SLOW = LeaseTimes(heartbeat_s=3_600)
"""A heartbeat is a hop of its own, every two seconds, however many turns there are."""


class Counting(EventLoop):
    """An event loop whose hops into a thread are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.hops = 0

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        self.hops += 1
        return await super().in_thread(call)


@EXTENDED
async def test_a_resumed_turn_is_a_few_hops_and_statements(world: World) -> None:
    waits = Counting()
    async with world.open(system=System(waits=waits), lease_times=SLOW) as project:
        await project.tell(ADDRESS, "Begin.", OPTIONS)
        request = await project._request(ADDRESS, "Go on.", OPTIONS)
        waits.hops = 0
        with statements_of(project.store.behind) as told:
            result = await project._turns.tell(request)
        hops = waits.hops
    assert result.outcome == "ok"
    assert hops <= HOPS_MAX
    assert len(told) <= STATEMENTS_MAX
