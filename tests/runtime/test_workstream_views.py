"""How workstreams stand, all of them in one look."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.world import World

from upthread.core.types import ConversationKey
from upthread.runtime.hooked.under_way import CallUnderWay
from upthread.runtime.record.workstream_views import Overview

pytestmark = pytest.mark.anyio


async def test_calls_under_way_are_looked_for_once_for_all_workstreams(world: World) -> None:
    """They were for each of them: among a thousand `ls` took twice as long for it."""
    looks = 0

    def calls_now() -> Sequence[CallUnderWay]:
        nonlocal looks
        looks += 1
        return ()

    async with world.open() as project:
        for number in range(3):
            key = ConversationKey(
                project_id=project.project_id, workstream=f"spec-{number}", role="planner"
            )
            project._conversations.mint(key)
        overview = Overview(project.store, lambda _: False, calls_now=calls_now)
        views = overview.workstreams(project.project_id)
    assert [view.workstream.workstream for view in views] == ["spec-0", "spec-1", "spec-2"]
    assert looks == 1
