"""An action of a person's own is done once, whoever crashes: real processes, one of which dies."""

import contextlib
import json
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.sets import EXTENDED, spread
from tests.support.upthread_process import AtCommit
from tests.support.world import World, eventually, git, make_repository

import upthread
from upthread.client.database_files import back_up, restore
from upthread.core.commands import RecordOnce
from upthread.errors import FencedError, LeaseHeldError, NotFoundError, UsageError

pytestmark = pytest.mark.anyio


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """The world outside: one line for each time the action was done."""
    path = tmp_path / "lines"
    path.touch()
    return path


def done(lines: Path) -> int:
    return len(lines.read_text().splitlines())


def pid_in(lines: Path) -> int:
    return int(lines.read_text())


class Action:
    """An action in this process that counts, and returns or raises what it is given."""

    def __init__(self, returns: Any = None) -> None:
        self.returns = returns
        self.calls = 0

    async def __call__(self) -> Any:
        self.calls += 1
        if isinstance(self.returns, Exception):
            raise self.returns
        return self.returns


async def test_after_a_restore_a_key_without_a_receipt_is_refused_until_it_is_settled(world):
    async with world.open() as project:
        await project.once("done", Action(1))
        with pytest.raises(ZeroDivisionError):
            await project.once("failed", Action(ZeroDivisionError()))
        failed = project.store.once(project.project_id, "failed")
        project.store.behind.mark_restored(failed.recorded_at_ms + 1)
    async with world.open() as project:
        assert await project.once("done", Action(2)) == 1
        for key in ("failed", "new"):
            with pytest.raises(UsageError, match="restored from a backup"):
                await project.once(key, Action())
        await project.once.confirm("failed", 3)
        await project.once.forget("new")
        assert [await project.once(key, Action(4)) for key in ("failed", "new")] == [3, 4]


async def test_a_person_settles_once_what_a_restore_left_in_doubt(world: World) -> None:
    async with world.open() as project:
        with pytest.raises(NotFoundError, match="no restore left a gap"):
            await project.once.settle_restore()
        await project.once("done", Action(1))
        with pytest.raises(ZeroDivisionError):
            await project.once("failed", Action(ZeroDivisionError()))
        made = back_up(project.settings, None)
        database = anyio.Path(project.settings.database)
    await database.write_bytes(b"nobody can read this")
    assert restore(project.settings, made.backup).unread
    # Another restore, of a database that can be read, takes no gap away.
    assert not restore(project.settings, back_up(project.settings, world.home / "2").backup).unread
    async with world.open() as project:
        with pytest.raises(UsageError, match="upthread restore --settle"):
            await project.once("new", Action())
        await project.once.settle_restore()
        assert [await project.once(key, Action(2)) for key in ("new", "done")] == [2, 1]
        with pytest.raises(UsageError, match=r"up\.once\.confirm"):
            await project.once("failed", Action())
        with pytest.raises(UsageError, match="nothing to settle"):
            await project.once.settle_restore()


async def test_a_restore_keeps_the_receipts_of_a_database_that_can_be_read(world):
    async with world.open() as project:
        for key in ("before", "failed"):
            with pytest.raises(ZeroDivisionError):
                await project.once(key, Action(ZeroDivisionError()))
        made = back_up(project.settings, None)
        assert await project.once("before", Action(1)) == 1
        assert await project.once("after", Action(2)) == 2
        with anyio.move_on_after(0.1):
            await project.once("cut off", anyio.sleep_forever)
    assert restore(project.settings, made.backup).unread == ""
    async with world.open() as project:
        found = [await project.once(key, Action(3)) for key in ("before", "after", "failed", "new")]
        assert found == [1, 2, 3, 3]
        with pytest.raises(UsageError, match="unknown"):
            await project.once("cut off", Action(4))


async def test_an_attempt_that_was_taken_over_is_given_the_receipt_on_record(world):
    async with world.open() as project:

        async def action() -> int:
            """It is suspended meanwhile, and another process settles it."""
            stands = project.store.once(project.project_id, "key")
            assert stands is not None
            settled = RecordOnce(
                project_id=project.project_id,
                key="key",
                attempt_id=stands.attempt_id,
                state="done",
                receipt=2,
                recorded_at_ms=stands.recorded_at_ms,
            )
            project.store.commit((settled,))
            return 1

        assert [await project.once("key", action) for _ in range(2)] == [2, 2]


@pytest.mark.parametrize(
    ("settling", "state", "expected", "times"),
    [("confirm", "done", {"seen": True}, 1), ("forget", "failed", None, 2)],
)
async def test_where_a_process_died_in_the_action_a_person_says_what_became_of_it(
    world, lines, settling, state, expected, times
):
    """The outcome is said to be unknown, with the two ways to settle it."""
    assert world.start("do_once", "release", str(lines), then="die").exit_code == -signal.SIGKILL
    unknown = world.start("do_once", "release", str(lines)).result
    assert unknown["error"] == "UsageError"
    for word in ("release", "unknown", "up.once.confirm", "up.once.forget"):
        assert word in unknown["message"]
    assert done(lines) == 1
    async with world.open() as project:
        given = {"confirm": ({"seen": True},), "forget": ()}
        await getattr(project.once, settling)("release", *given[settling])
        (other,) = given.keys() - {settling}
        with pytest.raises(UsageError, match=f"is known: {state}"):
            await getattr(project.once, other)("release", *given[other])
    receipt = world.start("do_once", "release", str(lines)).result["receipt"]
    assert receipt == (expected or {"pid": int(lines.read_text().splitlines()[-1])})
    assert done(lines) == times


@pytest.mark.soak
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", spread([2, 1, 3]))
async def test_killed_at_either_commit_it_is_done_at_most_once_and_never_guessed(
    world: World, lines: Path, number: int, when: str
) -> None:
    """Opening commits the project, then come the intent and the receipt."""
    at = AtCommit(number=number, when=when)
    victim = world.start("do_once", "release", str(lines), at_commit=at)
    assert victim.exit_code == -signal.SIGKILL
    was_done = done(lines)
    second = world.start("do_once", "release", str(lines)).result
    came = "error" if "error" in second else "receipt"
    assert done(lines) == max(was_done, came == "receipt")
    expected = {(2, "after"): "error", (3, "before"): "error"}.get((number, when), "receipt")
    assert came == expected, second


@EXTENDED
async def test_of_many_processes_at_once_one_does_it(world: World, lines: Path) -> None:
    processes = [world.start("do_once", "release", str(lines)) for _ in range(4)]
    results = [process.result for process in processes]
    assert done(lines) == 1
    receipts = [each["receipt"] for each in results if "receipt" in each]
    assert receipts
    assert {json.dumps(each) for each in receipts} == {json.dumps({"pid": pid_in(lines)})}
    assert {each["error"] for each in results if "error" in each} <= {"LeaseHeldError"}


@EXTENDED
async def test_while_somebody_living_is_at_it_others_are_told_who(world, lines):
    busy = world.start("do_once", "release", str(lines), then="stay")
    eventually(lambda: done(lines))
    async with world.open() as project:
        for call in (
            lambda: project.once("release", Action()),
            lambda: project.once.confirm("release", None),
            lambda: project.once.forget("release"),
        ):
            with pytest.raises(LeaseHeldError, match=f"pid {busy.pid} "):
                await call()
        busy.kill()
        with pytest.raises(UsageError, match="unknown"):
            await project.once("release", Action())


async def test_who_died_with_its_container_is_taken_over_once_it_shows_no_sign_of_life(
    world: World, lines: Path
) -> None:
    """Nobody on another host sees its process. Its heartbeat tells, without waiting for it."""
    there = {"UPTHREAD_HOST": "container-1"}
    busy = world.start("do_once", "release", str(lines), then="stay", environment=there)
    eventually(lambda: done(lines))
    async with world.open() as project:
        with pytest.raises(LeaseHeldError, match="on container-1 "):
            await project.once("release", Action())
        busy.kill()
        with pytest.raises(UsageError, match="unknown"):
            await project.once("release", Action())
        await project.once.confirm("release", "seen")
        assert await project.once("release", Action()) == "seen"


async def test_an_action_that_raises_has_failed_and_may_be_tried_again(world: World) -> None:
    async with world.open() as project:
        failing = Action(returns=ValueError("no such server"))
        for _ in range(2):
            with pytest.raises(ValueError, match="no such server"):
                await project.once("release", failing)
        assert failing.calls == 2
        assert await project.once("release", Action(returns="ok")) == "ok"


async def test_a_cancelled_action_and_one_that_was_taken_over_have_an_unknown_outcome(world):
    """Whoever can find out what became of it settles it."""
    async with world.open() as project:
        with anyio.CancelScope() as scope:

            async def cancelled() -> None:
                scope.cancel()
                await anyio.sleep_forever()

            await project.once("release", cancelled)
        with pytest.raises(FencedError):
            await project.once("deploy", Action(returns=FencedError("taken over")))
        for key in ("release", "deploy"):
            with pytest.raises(UsageError, match="unknown"):
                await project.once(key, Action())
            assert await project.once(key, Action(), recover=Action(returns="seen")) == "seen"
            assert await project.once(key, Action()) == "seen"
        with pytest.raises(ValueError, match="no server"):
            await project.once("failed", Action(returns=ValueError("no server")))
        assert await project.once("failed", Action(), recover=Action(returns="again")) == "again"


async def test_an_action_that_returns_while_its_caller_is_cancelled_keeps_its_receipt(world):
    async with world.open() as project:
        with anyio.CancelScope() as scope:

            async def action() -> str:
                scope.cancel()
                return "released"

            await project.once("release", action)
        assert await project.once("release", Action()) == "released"


async def test_a_receipt_comes_back_as_json_the_first_time_too(world: World) -> None:
    async with world.open() as project:
        action = Action(returns={"ids": (1, 2), "at": float("inf"), "text": "\ud800"})
        first = await project.once("release", action)
        assert first == {"ids": [1, 2], "at": float("inf"), "text": "\ud800"}
        assert await project.once("release", action) == first
        assert action.calls == 1


async def test_a_receipt_that_is_no_json_is_refused_and_the_action_still_counts_as_done(world):
    async with world.open() as project:
        action = Action(returns=object())
        with pytest.raises(UsageError, match="no JSON"):
            await project.once("release", action)
        assert await project.once("release", action) is None
        assert action.calls == 1


async def test_a_key_is_a_name_and_must_have_been_begun_to_be_settled(world: World) -> None:
    async with world.open() as project:
        for key in ("", "  ", "x" * 1_001):
            with pytest.raises(UsageError, match="no key"):
                await project.once(key, Action())
        with pytest.raises(NotFoundError, match="never begun"):
            await project.once.forget("release")


@pytest.fixture
async def releases(world, tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    async with world.open(tmp_path / "old") as old, world.open(tmp_path / "new") as new:
        yield old, new


async def test_a_key_of_another_release_is_refused_whatever_became_of_it(releases):
    old, new = releases
    await old.once("done", Action(1))
    await attempt(old, "failed", Action(UsageError("no")))
    with anyio.move_on_after(0.5):
        await old.once("unknown", anyio.sleep_forever)
    for key in ("done", "failed", "unknown"):
        with pytest.raises(UsageError, match=f"nothing is done .*PROJECT={old.project_id},"):
            await new.once(key, Action(2), recover=Action(2))


async def attempt(project, key, action):
    with contextlib.suppress(UsageError):
        await project.once(key, action)


async def test_of_two_releases_at_once_one_does_it(releases):
    action = Action()
    async with anyio.create_task_group() as tasks:
        for each in releases:
            tasks.start_soon(attempt, each, "key", action)
    assert action.calls == 1


@pytest.mark.parametrize("is_release", [False, True])
async def test_only_unrelated_whole_clones_may_have_equal_keys(world, tmp_path, is_release):
    begun, action = make_repository(tmp_path / "other"), Action()
    for directory in (world.project, begun):
        git(directory, "commit", "-qm", "more", "--allow-empty")
        git(directory, "remote", "add", "origin", f"https://host/{directory.name}")
    if is_release:
        begun = tmp_path / "release"
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{world.project}", str(begun))
    async with world.open(begun) as one, world.open() as other:
        for project, key in ((one, "a"), (other, "a"), (other, "b"), (one, "b")):
            await attempt(project, key, action)
    assert action.calls == (2 if is_release else 4)


def test_code_that_is_not_async_does_it_once_too(world, monkeypatch):
    monkeypatch.setenv("UPTHREAD_HOME", str(world.home))
    action = Action(returns=[1])
    for _ in range(2):
        with upthread.open_blocking(world.project) as (project, wait):
            assert wait(project.once, "release", action) == [1]
    assert action.calls == 1


def test_what_a_signals_handler_interrupts_lets_go_of_its_key(world, monkeypatch):
    """As a soft time limit of Celery does; its process lives on."""
    monkeypatch.setenv("UPTHREAD_HOME", str(world.home))

    def interrupt(*_: object) -> None:
        raise TimeoutError("the soft limit")

    async def slow() -> str:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        await anyio.sleep(30)
        return "done"

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with upthread.open_blocking(world.project) as (project, wait):
            with pytest.raises(TimeoutError, match="the soft limit"):
                wait(project.once, "release", slow)
            with pytest.raises(UsageError, match="is unknown") as unknown:
                wait(project.once, "release", slow)
            assert "forget" in str(unknown.value)
            wait(project.once.forget, "release")
            assert wait(project.once, "release", Action(returns=[1])) == [1]
    finally:
        signal.signal(signal.SIGALRM, before)
