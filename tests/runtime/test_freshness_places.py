"""What git, directories and time do to a session's freshness: each as a person would meet it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.sets import EXTENDED
from tests.support.world import World, git

import upthread
from upthread.errors import ConfigError

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")
SAY = "[[rehearse: say noted]]"


async def tell(
    world: World, text: str = SAY, *, where: Path | None = None, **more: Any
) -> upthread.TurnResult:
    async with world.open(where, **more) as project:
        return await project.tell("spec-42/planner", text, REHEARSAL)


async def read(world: World, *names: str, where: Path | None = None) -> upthread.TurnResult:
    directives = [f"[[rehearse: read {name}]]" for name in names]
    return await tell(world, " ".join([*directives, SAY]), where=where)


def commit(where: Path, **files: str) -> None:
    for name, content in files.items():
        (where / f"{name}.txt").write_text(content)
    git(where, "add", "-A")
    git(where, "commit", "-qm", f"{files}")


def why(done: upthread.TurnResult) -> tuple[str, str]:
    return done.decision, done.reasons[0]


@EXTENDED
async def test_a_head_that_is_on_no_branch_any_more_is_told(world: World) -> None:
    await tell(world)
    git(world.project, "checkout", "-q", "--detach")
    assert why(await tell(world)) == ("resume_with_update", "branch_changed")
    assert "it was `main`" in world.prompts()[-1]
    assert why(await tell(world)) == ("resume", "unchanged")


@EXTENDED
async def test_a_repository_that_git_cannot_read_does_not_keep_a_session_from_its_work(world):
    commit(world.project, mine="mine\n")
    first = await read(world, "mine.txt")
    (world.project / ".git" / "index").write_bytes(b"DIRC, and then noise")
    assert why(await tell(world)) == ("resume", "unchanged")
    main = world.project / ".git" / "refs" / "heads" / "main"
    before = main.read_bytes()
    async with world.open() as project:  # found while it could be read
        main.write_bytes(b"noise")
        second = await project.tell("spec-42/planner", SAY, REHEARSAL)
    assert why(second) == ("resume", "git_unknown")
    assert second.upstream_session_id == first.upstream_session_id
    with pytest.raises(ConfigError, match="names no commit"):
        await tell(world)
    main.write_bytes(before)
    async with world.open() as project:
        last = (await project.why("spec-42/planner")).last
    freshness: Any = last.inputs["freshness"]
    assert "git cannot read HEAD" in freshness["git_fault"]
    (world.project / "mine.txt").write_text("changed\n")
    assert why(await tell(world)) == ("resume_with_update", "files_changed")


@EXTENDED
async def test_a_project_that_was_moved_is_known_and_its_session_is_told_where_it_is(world):
    commit(world.project, mine="mine\n")
    first = await read(world, "mine.txt")
    moved = world.directory / "moved"
    world.project.rename(moved)
    async with world.open(moved) as project:
        foreseen = (await project.why("spec-42/planner")).now
    assert f"opened in {world.project}: if rehearsal does not find it from here" in foreseen.hint
    second = await tell(world, where=moved)
    assert why(second) == ("resume_with_update", "directory_changed")
    assert second.upstream_session_id == first.upstream_session_id
    assert str(moved) in world.prompts()[-1]
    assert "mine.txt" not in world.prompts()[-1]
    assert why(await tell(world, where=moved)) == ("resume", "unchanged")
