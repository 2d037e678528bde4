"""Where work runs: with its session while the host lives, else elsewhere, and it is said so."""

from typing import NamedTuple

import anyio
import pytest
from tests.support.laboratory.passage import WORKSTREAM
from tests.support.laboratory.sharing import Observer, Passage, Workers, until
from tests.support.sets import EXTENDED

import upthread
from upthread.runtime.record.turn_views import turn_view
from upthread.store.postgres import PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180), EXTENDED]


class Turn(NamedTuple):
    """A turn as it was decided, and the host it was carried out on."""

    role: str
    host: str
    decision: str
    reasons: tuple[str, ...]


async def turns_of(passage: Passage, address: str) -> list[Turn]:
    async with upthread.open_project(
        passage.world.project, environment=passage.world.environment
    ) as project:
        project_id = project.project_id
    store = PostgresStore(address)
    found = []
    for conversation in store.conversations(project_id, WORKSTREAM):
        for turn in store.turns(conversation.conversation_id):
            view = turn_view(store, turn.conversation_id, turn.turn_id)
            made = (view.attached.agent_host, view.intended.decision, view.intended.reasons)
            found.append(Turn(conversation.key.role, *made))
    store.close()
    return found


async def test_a_session_is_resumed_on_its_host_while_that_lives(
    passage: Passage, workers: Workers, observer: Observer, address: str
) -> None:
    for host in ("one", "two", "three"):
        workers.start(UPTHREAD_HOST=host)
    await passage.play()
    turns = await turns_of(passage, address)
    hosts = {role: {each.host for each in turns if each.role == role} for role, *_ in turns}
    assert all(len(each) == 1 for role, each in hosts.items() if role != "validator"), hosts
    assert not [each for each in turns if "other_host" in each.reasons]
    assert passage.judged()["faults"] == []


async def test_a_conversation_goes_on_elsewhere_with_a_replay_once_its_host_is_gone(
    passage: Passage, workers: Workers, observer: Observer, address: str
) -> None:
    gone = workers.start(UPTHREAD_HOST="one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(passage.play)
        await until(lambda: [e for e in gone.lines if e["type"] == "questions_asked"])
        await until(lambda: not observer.holders())
        workers.kill(gone)
        workers.start(UPTHREAD_HOST="two")
    turns = await turns_of(passage, address)
    first, second = (each for each in turns if each.role == "clarifier")
    assert first.host == "one"
    assert (second.host, second.decision) == ("two", "resume_with_replay")
    assert second.reasons[0] == "other_host"
    assert {each.host for each in turns if each.role != "clarifier"} == {"two"}
    workers.check_no_traceback()
    assert passage.judged(has_moved=True)["faults"] == []
