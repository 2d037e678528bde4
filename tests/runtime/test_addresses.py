"""One address, one conversation, one upstream session, whoever asks at the same moment."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.races import RACERS, check_one_session_each, hold
from tests.support.sets import EXTENDED
from tests.support.upthread_process import race_for_addresses, race_for_names
from tests.support.world import World, git, make_repository

import upthread
from upthread.core.types import Speaker
from upthread.runtime.turns.delegation import TurnResult

pytestmark = pytest.mark.anyio
REHEARSAL = upthread.TellOptions(agent="rehearsal")


@pytest.mark.soak
async def test_sixteen_processes_at_one_address_make_one_session_in_each_round(world):
    came = hold(world, race_for_addresses, rounds=10)
    for number in range(10):
        answers = {each["rounds"][number] for each in came} - {"held"}
        assert len(answers) == 1, f"round {number}"
    check_one_session_each(world, conversations=10)


@pytest.mark.soak
async def test_sixteen_processes_that_wait_share_one_session_and_never_interleave(world):
    came = hold(world, race_for_addresses, rounds=2, when_busy="wait")
    for number in range(2):
        assert len({each["rounds"][number] for each in came}) == 1
    check_one_session_each(world, conversations=2)
    assert len(world.prompts()) == 2 * RACERS
    for number in range(2):
        messages = world.messages(f"race-{number}/planner")
        speakers = [message.speaker for message in messages]
        assert speakers == [Speaker.USER, Speaker.ASSISTANT] * RACERS
        turns = [message.turn_id for message in messages]
        assert turns[0::2] == turns[1::2]
        assert len(set(turns)) == RACERS
    world.check_histories()


@pytest.mark.soak
async def test_sixteen_processes_name_many_workstreams_at_once_without_a_collision(world):
    came = hold(world, race_for_names, rounds=20)
    assert all(each == came[0] for each in came)
    names = list(came[0]["names"].values())
    assert len(names) == 20
    assert Counter(names).most_common(1)[0][1] == 1


@EXTENDED
async def test_three_calls_at_once_with_siblings_are_three_conversations_and_sessions(world):
    options = upthread.TellOptions(agent="rehearsal", when_busy="sibling")
    world.configure("[roles.reviewer]\n")
    results: list[TurnResult] = []
    async with world.open() as project:

        async def ask() -> None:
            text = "[[rehearse: slow 4 100]]"
            results.append(await project.tell("spec-42/reviewer", text, options))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask)
        view = await project.show("spec-42")
    addresses = {result.conversation.key.address for result in results}
    assert addresses == {"spec-42/reviewer", "spec-42/reviewer~2", "spec-42/reviewer~3"}
    assert len({result.upstream_session_id for result in results}) == 3
    assert len({result.conversation.conversation_id for result in results}) == 3
    assert len(view.roles) == 3
    assert len(world.session_files()) == 3


# --- which project -------------------------------------------------------------------------------


async def tell(world: World, directory: Path, address: str = "spec-42/planner") -> Any:
    async with world.open(directory) as project:
        result = await project.tell(address, "[[rehearse: say here]]", REHEARSAL)
        assert result.outcome == "ok"
        return project.project_id, result


@EXTENDED
async def test_two_repositories_with_one_workstream_name_stay_apart(world: World) -> None:
    other = make_repository(world.directory / "other")
    first_id, first = await tell(world, world.project)
    second_id, second = await tell(world, other)
    assert first_id != second_id
    assert first.upstream_session_id != second.upstream_session_id
    assert second.decision == "first"
    async with world.open(other) as project:
        assert len((await project.show("spec-42")).roles) == 1


@EXTENDED
async def test_a_repository_that_gains_its_first_commit_stays_the_project_it_was(world):
    young = world.directory / "young"
    young.mkdir()
    git(young, "init", "-q")
    first_id, first = await tell(world, young)
    (young / "file").write_text("content")
    git(young, "add", "-A")
    git(young, "commit", "-qm", "the first")
    second_id, second = await tell(world, young)
    assert first_id == second_id
    assert second.upstream_session_id == first.upstream_session_id
    moved = world.directory / "grown"
    shutil.move(young, moved)
    third_id, _ = await tell(world, moved)
    assert third_id == first_id
