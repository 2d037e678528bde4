"""What hooks read is written for what has moved, a few files at a time, while it counts."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.world import World

import upthread
from upthread.core.types import ConversationKey
from upthread.runtime.hooked.publication import WORKSTREAMS_MAX, WRITTEN_AT_ONCE_MAX

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


def open_one(project: upthread.Project, workstream: str, role: str) -> None:
    key = ConversationKey(project_id=project.project_id, workstream=workstream, role=role)
    project._conversations.mint(key)


def bindings(project: upthread.Project) -> dict[tuple[str, str], Path]:
    home = Path(project.settings.home)
    found = sorted(home.glob("hooks/projects/*/bindings/*.json"))
    told = {path: json.loads(path.read_text()) for path in found}
    return {(each["workstream"], each["role"]): path for path, each in told.items()}


def listed(project: upthread.Project) -> list[str]:
    (place,) = Path(project.settings.home).glob("hooks/places/*.json")
    return [each["name"] for each in json.loads(place.read_text())["workstreams"]]


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


async def test_what_has_moved_is_listed_where_it_stood(world: World) -> None:
    async with published(world, 3) as project:
        open_one(project, "spec-1", "role-new")
        await project.hooks.publish({"spec-1"})
        assert ("spec-1", "role-new") in bindings(project)
        assert listed(project) == ["spec-0", "spec-1", "spec-2"]


async def test_what_another_process_opened_meanwhile_is_published_as_well(world: World) -> None:
    async with published(world, 2) as project:
        open_one(project, "spec-new", "role-0")
        await project.hooks.publish({"spec-1"})
        assert ("spec-new", "role-0") in bindings(project)
        assert listed(project) == ["spec-0", "spec-1", "spec-new"]


async def test_a_binding_that_counts_no_longer_is_gone_unless_a_call_works_with_it(
    world: World,
) -> None:
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
