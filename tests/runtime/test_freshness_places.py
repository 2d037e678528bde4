"""What git, directories and time do to a session's freshness: each as a person would meet it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.test_clock import Clock, keep_time_by
from tests.support.sets import EXTENDED
from tests.support.world import World, git, make_repository

import upthread
from upthread.errors import ConfigError

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")
SAY = "[[rehearse: say noted]]"
DAY_MS = 24 * 3_600_000
FILE_PROTOCOL = ("-c", "protocol.file.allow=always")


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
async def test_a_rebase_that_leaves_what_was_read_as_it_was_is_no_news(world: World) -> None:
    commit(world.project, mine="mine\n")
    await read(world, "mine.txt")
    git(world.project, "switch", "-qc", "theirs", "HEAD~1")
    commit(world.project, other="other\n")
    git(world.project, "switch", "-q", "main")
    git(world.project, "rebase", "-q", "theirs")
    assert why(await tell(world)) == ("resume", "commit_changed")
    assert world.prompts()[-1] == SAY


@EXTENDED
async def test_a_rebase_that_changes_what_was_read_is_told(world: World) -> None:
    commit(world.project, shared="one\ntwo\nthree\nfour\nfive\n")
    git(world.project, "switch", "-qc", "theirs")
    commit(world.project, shared="ONE\ntwo\nthree\nfour\nfive\n")
    git(world.project, "switch", "-q", "main")
    commit(world.project, shared="one\ntwo\nthree\nfour\nFIVE\n")
    await read(world, "shared.txt")
    git(world.project, "rebase", "-q", "theirs")
    assert why(await tell(world)) == ("resume_with_update", "files_changed")
    assert "`shared.txt`: changed" in world.prompts()[-1]


@EXTENDED
async def test_a_submodule_that_was_moved_on_has_changed_the_files_in_it(world: World) -> None:
    inner = make_repository(world.directory / "inner")
    commit(inner, x="x\n")
    git(world.project, *FILE_PROTOCOL, "submodule", "add", "-q", str(inner), "sub")
    git(world.project, "commit", "-qm", "with a submodule")
    await read(world, "sub/x.txt", "sub/README")
    commit(inner, x="y\n")
    git(world.project, *FILE_PROTOCOL, "submodule", "update", "-q", "--remote")
    assert why(await tell(world)) == ("resume_with_update", "files_changed")
    assert "`sub/x.txt`: changed" in world.prompts()[-1]
    assert "sub/README" not in world.prompts()[-1]


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
async def test_without_git_the_files_that_were_read_are_compared_too(world: World) -> None:
    plain = world.directory / "plain"
    plain.mkdir()
    names = ["f1.txt", "f2.txt"]
    for name in names:
        (plain / name).write_text(name)
    await read(world, *names, where=plain)
    (plain / names[0]).write_text("changed")
    assert why(await tell(world, where=plain)) == ("resume_with_update", "files_changed")


@EXTENDED
async def test_a_project_that_was_moved_is_known_and_its_session_is_told_where_it_is(world):
    commit(world.project, mine="mine\n")
    first = await read(world, "mine.txt")
    moved = world.directory / "moved"
    world.project.rename(moved)
    second = await tell(world, where=moved)
    assert why(second) == ("resume_with_update", "directory_changed")
    assert second.upstream_session_id == first.upstream_session_id
    assert str(moved) in world.prompts()[-1]
    assert "mine.txt" not in world.prompts()[-1]
    assert why(await tell(world, where=moved)) == ("resume", "unchanged")


@EXTENDED
async def test_a_cold_session_much_dearer_than_a_briefing_is_briefed_and_a_warm_one_is_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    keep_time_by(monkeypatch, clock)
    world.configure("[freshness]\nbrief_if_times_cheaper = 5\n")
    await tell(world, f"[[rehearse: usage 1000 1000000]] {SAY}")  # what a new session reads
    assert why(await tell(world)) == ("resume", "unchanged")
    await tell(world, f"[[rehearse: usage 100000 1000000]] {SAY}")
    clock.ahead_ms = DAY_MS + 1_000
    assert why(await tell(world)) == ("start_fresh_with_briefing", "briefing_cheaper")
