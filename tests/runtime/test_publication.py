"""What hooks read is written for what has moved, a few files at a time, while it counts."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.support.world import World

import upthread
from upthread.core.lazy_dataclass import replace
from upthread.core.roles.role import Role
from upthread.core.types import ConversationKey
from upthread.runtime.hooked.publication import (
    publish,
)

pytestmark = pytest.mark.anyio

ROLES = 3
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
