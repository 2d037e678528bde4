"""What hooks read is written for what has moved, a few files at a time, while it counts."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from tests.support.sets import EXTENDED
from tests.support.world import World

import upthread
from upthread.core.lazy_dataclass import replace
from upthread.core.roles.role import Role
from upthread.core.types import ConversationKey
from upthread.runtime.bindings.files import BusyError
from upthread.runtime.hooked import publication
from upthread.runtime.hooked.publication import (
    WORKSTREAMS_MAX,
    publish,
)
from upthread.runtime.hooked.published_files import WRITTEN_AT_ONCE_MAX

pytestmark = pytest.mark.anyio

ROLES = 3
PUBLISHERS = 20
OPTIONS = upthread.TellOptions(agent="rehearsal")


@asynccontextmanager
async def published(world: World, workstreams: int) -> AsyncGenerator[upthread.Project]:
    async with world.open() as project:
        for number in range(workstreams):
            for role in range(ROLES):
                open_one(project, f"spec-{number}", f"role-{role}")
        await project.hooks.publish()
        yield project


def open_one(project: upthread.Project, workstream: str, role: str, *, generation: int = 1) -> None:
    key = ConversationKey(project_id=project.project_id, workstream=workstream, role=role)
    project._conversations.mint(key, generation=generation)


def bindings(project: upthread.Project) -> dict[tuple[str, str], Path]:
    home = Path(project.settings.home)
    found = sorted(home.glob("hooks/projects/*/bindings/*.json"))
    told = {path: json.loads(path.read_text()) for path in found}
    return {(each["workstream"], each["role"]): path for path, each in told.items()}


def listed(project: upthread.Project) -> list[str]:
    (place,) = Path(project.settings.home).glob("hooks/places/*.json")
    return [each["name"] for each in json.loads(place.read_text())["workstreams"]]


@EXTENDED
async def test_of_what_has_not_moved_nothing_is_read(world: World) -> None:
    async with published(world, 4) as project:
        connection: Any = project.store.behind.database.connection  # type: ignore[attr-defined]
        asked: list[int] = []
        for workstreams in ({"spec-1"}, None):
            told: list[str] = []
            connection.set_exec_trace(lambda _, sql, __, told=told: bool(told.append(sql) or True))
            await project.hooks.publish(workstreams)
            connection.set_exec_trace(None)
            asked.append(len(told))
    assert 0 < asked[0] * 3 <= asked[1]


@EXTENDED
async def test_what_has_moved_is_listed_where_it_stood(world: World) -> None:
    async with published(world, 3) as project:
        open_one(project, "spec-1", "role-new")
        await project.hooks.publish({"spec-1"})
        assert ("spec-1", "role-new") in bindings(project)
        assert listed(project) == ["spec-0", "spec-1", "spec-2"]


@EXTENDED
async def test_what_another_process_opened_meanwhile_is_published_as_well(world: World) -> None:
    async with published(world, 2) as project:
        open_one(project, "spec-new", "role-0")
        await project.hooks.publish({"spec-1"})
        assert ("spec-new", "role-0") in bindings(project)
        assert listed(project) == ["spec-0", "spec-1", "spec-new"]


@pytest.mark.soak
async def test_a_binding_that_counts_no_longer_is_gone_unless_a_call_works_with_it(world):
    async with published(world, WORKSTREAMS_MAX) as project:
        known = bindings(project)
        assert len(known) == WORKSTREAMS_MAX * ROLES > WRITTEN_AT_ONCE_MAX
        used = known["spec-0", "role-0"]
        held = {"agent": "opencode", "call_id": "c", "pid": 1, "ticks": 0}
        used.write_text(json.dumps({**json.loads(used.read_text()), "claim": held}))
        open_one(project, "spec-new", "role-0")
        await project.hooks.publish()
        left = bindings(project)
        assert ("spec-0", "role-0") in left
        assert not {("spec-0", "role-1"), ("spec-0", "role-2")} & set(left)
        assert len(left) == (WORKSTREAMS_MAX - 1) * ROLES + 2


async def test_what_was_read_earlier_is_not_written_over_what_was_read_later(world: World) -> None:
    """A drain that had read the record before a `reset` wrote after it: the old one went on."""
    async with published(world, 1) as project:
        for generation in (1, 2):
            await project.hooks.publish()
            open_one(project, "spec-0", "planner", generation=generation)
        moved = partial(open_one, project, "spec-0", "planner", generation=3)
        publish_while(project, lambda: (moved(), publish_now(project)))
        (*_, newest) = project.store.conversations(project.project_id, "spec-0")
        told = json.loads(bindings(project)["spec-0", "planner"].read_text())
        assert told["conversation_id"] == newest.conversation_id


@pytest.mark.parametrize("workstreams", [None, {"spec-0"}], ids=["all", "one"])
async def test_what_is_published_while_another_publishes_stays(world, workstreams):
    async with published(world, 1) as project:
        open_one(project, "spec-0", "planner")
        moved = partial(open_one, project, "spec-new", "role-0")
        publish_while(project, lambda: (moved(), publish_now(project)), workstreams)
        assert {("spec-new", "role-0"), ("spec-0", "planner")} <= set(bindings(project))
        assert listed(project) == ["spec-0", "spec-new"]


@EXTENDED
async def test_who_is_never_alone_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "AGAIN_WITHIN_S", 0.3)
    async with published(world, 1) as project:
        open_one(project, "spec-0", "planner")
        generations = count(2)

        def move() -> None:
            for is_published in (True, False):
                open_one(project, "spec-0", "planner", generation=next(generations))
                if is_published:
                    publish_now(project)

        with pytest.raises(BusyError, match="spec-0"):
            publish_while(project, move, times=10_000)


@pytest.mark.soak
async def test_many_that_publish_at_once_all_come_to_it(world: World) -> None:
    async with published(world, PUBLISHERS) as project:
        for number in range(PUBLISHERS):
            open_one(project, f"spec-{number}", "planner")
        at_once = Barrier(PUBLISHERS)
        async with AsyncExitStack() as opened:
            # Each with a connection of its own, as processes have.
            others = [await opened.enter_async_context(world.open()) for _ in range(PUBLISHERS)]

            def publish_one(number: int) -> None:
                publish_while(others[number], at_once.wait, {f"spec-{number}"})

            with ThreadPoolExecutor(PUBLISHERS) as threads:
                list(threads.map(publish_one, range(PUBLISHERS)))
        published_now = set(bindings(project))
        assert {(f"spec-{number}", "planner") for number in range(PUBLISHERS)} <= published_now


def publish_now(project: upthread.Project) -> None:
    publish_while(project, lambda: None)


def publish_while(
    project: upthread.Project,
    work: Callable[[], object],
    workstreams: Collection[str] | None = None,
    *,
    times: int = 1,
) -> None:
    """Publish; while the record is read for it, another process does some work."""
    settings, source = project.settings, project.hooks._source
    left = [work] * times

    def condition_of(workstream: str, role: Role) -> str:
        if left:
            left.pop()()
        return source.condition_of(workstream, role)

    publish(
        replace(source, condition_of=condition_of),
        home=Path(settings.home),
        root=Path(settings.working_directory),
        workstreams=workstreams,
    )
