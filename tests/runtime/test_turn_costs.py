"""What a turn costs in things that can be counted, and that it stays so as a conversation grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from tests.support.sets import EXTENDED
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
STATEMENTS_MAX = 80
SLOW = LeaseTimes(heartbeat_s=3_600)
"""A heartbeat is a hop of its own, every two seconds, however many turns there are."""

TURNS_READ_MAX = 12
"""How many times the events of a turn are read in one turn, however many there were before."""


class Counting(EventLoop):
    """An event loop whose hops into a thread are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.hops = 0

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        self.hops += 1
        return await super().in_thread(call)


@contextmanager
def statements(project: upthread.Project) -> Iterator[list[str]]:
    """Collect the statements that reach the database in a block."""
    connection: Any = project.store.behind.database.connection  # type: ignore[attr-defined]
    told: list[str] = []

    def note(_cursor: object, statement: str, _bindings: object) -> bool:
        told.append(statement)
        return True

    connection.set_exec_trace(note)
    try:
        yield told
    finally:
        connection.set_exec_trace(None)


@EXTENDED
async def test_a_resumed_turn_is_a_few_hops_and_statements(world: World) -> None:
    waits = Counting()
    async with world.open(system=System(waits=waits), lease_times=SLOW) as project:
        await project.tell(ADDRESS, "Begin.", OPTIONS)
        request = await project._request(ADDRESS, "Go on.", OPTIONS)
        waits.hops = 0
        with statements(project) as told:
            result = await project._turns.tell(request)
        hops = waits.hops
    assert result.outcome == "ok"
    assert hops <= HOPS_MAX
    assert len(told) <= STATEMENTS_MAX


@pytest.mark.soak
async def test_a_turn_reads_no_more_of_the_turns_before_it_the_more_there_are(world):
    async with world.open() as project:
        read: list[int] = []
        for number in range(14):
            with statements(project) as told:
                await project.tell(ADDRESS, f"Turn {number}.", OPTIONS)
            read.append(sum("whole_turn_event" in each for each in told))
    # But for the turns at which the price is counted anew, which have a limit of their own.
    assert max(read[3:8] + read[9:]) <= TURNS_READ_MAX
    assert read[13] <= read[4]
