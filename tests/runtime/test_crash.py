"""A turn ends rightly wherever its process was killed: at every commit, on both sides of it."""

import signal

import pytest
from tests.support.sets import EXTENDED, spread
from tests.support.upthread_process import AtCommit
from tests.support.world import (
    ALLOW,
    REPORT,
    SAY_REPORT,
    SMALL_PIPELINE,
    SMALL_SPECIFICATION,
    World,
)

import upthread
from upthread.errors import UsageError

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")

EFFECT = "[[rehearse: execute sh -c 'echo done >> effects']]"
PROMPT = f"{EFFECT}\n{SAY_REPORT}"


def effects(world: World) -> int:
    path = world.project / "effects"
    return len(path.read_text().splitlines()) if path.exists() else 0


def is_continuation(prompt: str) -> bool:
    return "Your last turn was interrupted" in prompt


SIDES = ("before", "after")
TURN_COMMITS = [(n, when, earlier) for n in range(1, 9) for when in SIDES for earlier in (0, 1)]
RUN_COMMITS = [(number, when) for number in range(1, 25) for when in SIDES]


@EXTENDED
@pytest.mark.parametrize(
    "case",
    spread(
        TURN_COMMITS,
        first=[(2, "after", 0), (3, "before", 1), (5, "before", 0), (6, "after", 1)],
        extended=[(n, SIDES[n % 2], n // 2 % 2) for n in range(1, 9)],
        name=lambda case: "-".join(map(str, case)),
    ),
)
async def test_a_turn_killed_at_any_commit_is_gone_on_with_and_ends_well(world, case):
    """A resumed session is attached and sent to in one commit, a new one in two.

    `case` is the commit's number, the side of it, and how many turns there were before.
    """
    number, when, earlier = case
    world.configure(ALLOW)
    if earlier:
        async with world.open() as project:
            await project.tell("spec-42/planner", "[[rehearse: say first]]", REHEARSAL)
    at = AtCommit(number=number, when=when)
    victim = world.start("tell", "spec-42/planner", PROMPT, at_commit=at)
    was_killed = victim.exit_code == -signal.SIGKILL
    prompted_by_victim = len(world.prompts()) - earlier
    async with world.open() as project:
        if was_killed and not await has_ended(project, turns=earlier + 1):
            try:
                result = await project.go_on("spec-42/planner", REHEARSAL)
            except UsageError:
                # Killed before the intent was kept: nothing was acknowledged, so ask again.
                assert prompted_by_victim == 0
                result = await project.tell("spec-42/planner", PROMPT, REHEARSAL)
            assert result.outcome == "ok"
            assert result.report is not None
        again = await project.tell("spec-42/planner", "[[rehearse: say and now]]", REHEARSAL)
        assert again.decision == "resume"
    check(world, was_finished=not was_killed, earlier=earlier)
    assert was_killed or number > 3


async def has_ended(project: upthread.Project, *, turns: int) -> bool:
    try:
        role = await project.role("spec-42/planner")
    except UsageError:
        return False
    return role.turns == turns and role.last_turn is not None and role.last_turn.ended is not None


def check(world: World, *, was_finished: bool, earlier: int) -> None:
    """What holds of `PROMPT`, told after so many earlier prompts and before one more."""
    prompts = world.prompts()[earlier:-1]
    originals = [prompt for prompt in prompts if not is_continuation(prompt)]
    assert len(prompts) <= 2
    assert len(originals) == 1
    assert effects(world) <= 1
    assert effects(world) == 1 or len(prompts) == 2
    assert len(world.session_files()) == 1 or not prompts[:-1]
    assert len({each["session_id"] for each in world.log("prompt")}) == 1
    told = [message.text for message in world.messages("spec-42/planner")]
    assert told.index(PROMPT) == 2 * earlier
    assert told.count(PROMPT) == 1
    world.check_histories()
    if was_finished:
        assert len(prompts) == 1


@EXTENDED
def test_a_turn_has_fewer_commits_than_the_crash_test_kills_at(world: World) -> None:
    world.configure(ALLOW)
    at = AtCommit(number=8, when="after")
    assert world.start("tell", "spec-42/planner", PROMPT, at_commit=at).exit_code == 0
    assert REPORT in world.messages("spec-42/planner")[-1].text


async def is_approved(project: upthread.Project) -> bool:
    try:
        return (await project.show("spec-42")).status == "approved"
    except UsageError:
        return False


@EXTENDED
@pytest.mark.parametrize(
    "case",
    spread(
        RUN_COMMITS,
        first=[(9, "before"), (16, "after")],
        extended=RUN_COMMITS[1::8],
        name=lambda case: "-".join(map(str, case)),
    ),
)
async def test_a_run_killed_at_any_commit_is_approved_by_running_again(world, case):
    number, when = case
    world.configure(SMALL_PIPELINE + ALLOW)
    at = AtCommit(number=number, when=when)
    victim = world.start("run", "spec-42", SMALL_SPECIFICATION, at_commit=at)
    was_killed = victim.exit_code == -signal.SIGKILL
    options = upthread.RunOptions(agent="rehearsal")
    async with world.open() as project:
        if was_killed and not await is_approved(project):
            view = await project.run("spec-42", SMALL_SPECIFICATION, options)
            assert view.status == "approved"
            assert view.iteration == 1
        assert (await project.show("spec-42")).status == "approved"
    assert len(world.log("write")) == 1
    by_session: dict[str, list[str]] = {}
    for each in world.log("prompt"):
        by_session.setdefault(each["session_id"], []).append(each["text"])
    assert len(by_session) == 3
    for prompts in by_session.values():
        assert len(prompts) <= 2
        assert len(prompts) == len(set(prompts))
    world.check_histories()
    assert was_killed or number > 18
