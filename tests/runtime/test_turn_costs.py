"""What a turn costs in things that can be counted, and that it stays so as a conversation grows."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
from tests.support.sets import EXTENDED
from tests.support.sqlite_faults import statements_of
from tests.support.world import World

import upthread
from upthread.core.types import TurnId
from upthread.runtime.lease import LeaseTimes
from upthread.runtime.record.project_store import ProjectStore
from upthread.runtime.system import EventLoop, System
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples

pytestmark = pytest.mark.anyio

ADDRESS = "spec-42/planner"
OPTIONS = upthread.TellOptions(agent="rehearsal")
Result = TypeVar("Result")

HOPS_MAX = 6
STATEMENTS_MAX = 68
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


def test_a_moment_reads_once_and_ends_with_a_commit(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        project = ProjectStore(store, samples.PROJECT, by_user="ada", now_ms=lambda: 1)
        project.commit(samples.home())
        with project.moment(), statements_of(store) as told:
            first = project.turns(samples.CONVERSATION)
            assert project.turns(samples.CONVERSATION) == first
            assert len(told) == 2
            store.commit([samples.turn(TurnId("trn_two"))])  # as another process would
            assert project.turns(samples.CONVERSATION) == first
            project.commit([samples.turn(TurnId("trn_three"))])
            assert len(project.turns(samples.CONVERSATION)) == 3
        store.commit([samples.turn(TurnId("trn_four"))])
        assert len(project.turns(samples.CONVERSATION)) == 4
