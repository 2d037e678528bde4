"""A working tree of its own: made once, found again, worked in, and never thrown away with work."""

import shutil
from pathlib import Path

import pytest
from tests.support.sets import EXTENDED, spread
from tests.support.world import SMALL_PIPELINE, SMALL_SPECIFICATION, World, eventually, git

import upthread
from upthread.core.names import directory_name
from upthread.errors import LeaseHeldError, NotFoundError, RefusedError, UsageError
from upthread.runtime.turns.delegation import Listener, Notice

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")
ALLOWING = SMALL_PIPELINE + '[permissions]\nedit = "allow"\nexecute = "allow"\n'


class Heard:
    """The notices of one call."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.listener = Listener(notice=self._hear)

    def _hear(self, notice: Notice) -> None:
        if notice.kind != "waiting_for_agent":
            self.notices.append(notice)

    def run(self, **more: bool) -> upthread.RunOptions:
        return upthread.RunOptions(agent="rehearsal", listener=self.listener, **more)

    @property
    def path(self) -> Path:
        return Path(self.notices[-1].about["path"])


async def begun(world: World, workstream: str = "spec-42", *, steps: int = 1) -> Path:
    """Run a few steps in a new working tree; returns where it is."""
    world.configure(ALLOWING)
    heard = Heard()
    options = upthread.RunOptions(
        agent="rehearsal", listener=heard.listener, is_worktree=True, steps_max=steps
    )
    async with world.open() as project:
        await project.run(workstream, SMALL_SPECIFICATION, options)
    return heard.path


@EXTENDED
async def test_a_run_works_in_a_tree_and_on_a_branch_of_its_own_and_says_where(world):
    world.configure(ALLOWING)
    heard = Heard()
    async with world.open() as project:
        view = await project.run("spec-42", SMALL_SPECIFICATION, heard.run(is_worktree=True))
        shown = await project.show("spec-42")
    assert view.status == "approved"
    (notice,) = heard.notices
    assert notice.about["branch"] == "upthread/spec-42"
    assert str(heard.path) in notice.text
    assert (heard.path / "hello.txt").read_text().strip() == "hello"
    assert not (world.project / "hello.txt").exists()
    assert git(heard.path, "branch", "--show-current") == "upthread/spec-42"
    assert git(world.project, "branch", "--show-current") == "main"
    verdicts = [role.verdict for role in shown.roles if role.verdict]
    assert [verdict.is_current for verdict in verdicts] == [True]


@EXTENDED
async def test_a_prompt_to_a_role_of_that_workstream_goes_there_too(world: World) -> None:
    path = await begun(world)
    heard = Heard()
    options = upthread.TellOptions(agent="rehearsal", listener=heard.listener)
    async with world.open() as project:
        text = "[[rehearse: write a.txt here]]"
        await project.tell("spec-42/constructor", text, options)
        await project.tell("other/constructor", text, REHEARSAL)
        links = {role: (await project.role(role)).link for role in ("spec-42/constructor",)}
    assert heard.path == path
    assert (path / "a.txt").exists()
    assert (world.project / "a.txt").exists()
    assert [link.working_directory for link in links.values() if link] == [str(path)]


@EXTENDED
async def test_what_is_not_committed_in_the_projects_tree_is_said_to_be_missing(world):
    world.configure(ALLOWING)
    (world.project / "README").write_text("not committed")
    heard = Heard()
    async with world.open() as project:
        await project.run("spec-42", SMALL_SPECIFICATION, heard.run(is_worktree=True))
    assert "2 uncommitted changes" in heard.notices[0].text  # README and upthread.toml
    assert (heard.path / "README").read_text() != "not committed"


async def test_a_tree_is_not_removed_with_uncommitted_work_and_its_branch_stays(world):
    path = await begun(world)
    (path / "new.txt").write_text("work")
    async with world.open() as project:
        with pytest.raises(RefusedError, match="1 uncommitted change "):
            await project.worktrees.remove("spec-42")
        assert (path / "new.txt").exists()
        git(path, "add", "-A")
        git(path, "commit", "-qm", "the work")
        await project.worktrees.remove("spec-42")
        assert not path.exists()
        assert git(world.project, "log", "--format=%s", "-1", "upthread/spec-42") == "the work"
        with pytest.raises(NotFoundError, match="no working tree of its own"):
            await project.worktrees.remove("spec-42")


@pytest.mark.soak
async def test_what_was_committed_on_its_branch_is_there_when_the_tree_is_made_again(world):
    path = await begun(world, steps=3)
    git(path, "add", "-A")
    git(path, "commit", "-qm", "the work")
    async with world.open() as project:
        await project.worktrees.remove("spec-42")
        await project.run("spec-42", "another one", Heard().run(is_worktree=True))
    assert (path / "hello.txt").exists()


@EXTENDED
async def test_a_tree_is_not_removed_under_a_turn(world: World) -> None:
    path = await begun(world)
    first = world.start("tell", "spec-42/planner", "[[rehearse: hang]]")
    eventually(lambda: "rehearse: hang" in str(world.prompts()))
    async with world.open() as project:
        with pytest.raises(LeaseHeldError, match=f"held by pid {first.pid} "):
            await project.worktrees.remove("spec-42")
    assert path.is_dir()


@EXTENDED
async def test_a_tree_whose_directory_is_gone_is_an_error_with_the_cure_and_can_be_made_again(
    world: World,
) -> None:
    path = await begun(world)
    shutil.rmtree(path)
    async with world.open() as project:
        with pytest.raises(UsageError, match="is gone") as caught:
            await project.tell("spec-42/planner", "hello", REHEARSAL)
        assert "upthread run spec-42 --worktree" in caught.value.hint
        assert (await project.why("spec-42/planner")).last is not None
        await project.run("spec-42", None, Heard().run(is_worktree=True))
    assert path.is_dir()


@EXTENDED
async def test_a_tree_that_git_was_killed_over_is_made_anew(world: World) -> None:
    path = await begun(world)
    (record,) = (world.project / ".git" / "worktrees").iterdir()
    (record / "locked").write_text("initializing")
    (path / "README").unlink()
    async with world.open() as project:
        await project.run("spec-42", None, Heard().run(is_worktree=True))
    assert (path / "README").exists()


@EXTENDED
async def test_a_run_that_has_begun_elsewhere_is_not_moved(world: World) -> None:
    world.configure(ALLOWING)
    async with world.open() as project:
        options = upthread.RunOptions(agent="rehearsal", steps_max=1)
        await project.run("spec-42", SMALL_SPECIFICATION, options)
        with pytest.raises(UsageError, match="has begun in"):
            await project.run("spec-42", None, Heard().run(is_worktree=True))
        assert await project.worktrees.all() == {}


@EXTENDED
async def test_a_directory_that_is_no_repository_cannot_give_a_tree(world: World) -> None:
    place = world.directory / "plain"
    place.mkdir()
    async with world.open(place) as project:
        with pytest.raises(UsageError, match=r"no commit in .* to branch off from"):
            await project.run("spec-42", SMALL_SPECIFICATION, Heard().run(is_worktree=True))
        assert await project.worktrees.all() == {}


@pytest.mark.soak
@pytest.mark.parametrize(
    "workstream",
    spread(["../../etc", "-rf", "feature/x", "a b", "Größe", "x.lock", "A", "spec..1", "$(id)"]),
)
async def test_any_name_gives_a_tree_within_the_folder_and_a_branch_git_takes(world, workstream):
    path = await begun(world, workstream, steps=1)
    async with world.open() as project:
        folder = world.home / "worktrees" / project.project_id
        (known,) = await project.worktrees.all()
    assert path.parent == folder
    assert known == workstream
    assert directory_name(workstream) == path.name != workstream
