"""The Agent Framework's checkpoints, history and sessions: beside its own as oracles."""

import asyncio
from dataclasses import dataclass

import pytest
from agent_framework import (
    AgentSession,
    InMemoryCheckpointStorage,
    Message,
    SessionStore,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
)

from upthread.errors import UsageError
from upthread.integrations.agent_framework import (
    CHECKPOINTS,
    UpthreadCheckpointStorage,
    UpthreadHistoryProvider,
)
from upthread.integrations.agent_framework_sessions import UpthreadSessionStore

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["theirs", "ours"])
def storage(request, record):
    ours = UpthreadCheckpointStorage(record=record)
    return ours if request.param == "ours" else InMemoryCheckpointStorage()


def checkpoint(at, state=None, **more):
    return WorkflowCheckpoint(
        workflow_name="w",
        graph_signature_hash="h",
        checkpoint_id=str(at),
        timestamp=f"2026-01-01T00:00:{at:02}+00:00",
        state=state or {"at": at},
        **more,
    )


async def test_checkpoints_are_kept_as_copies_and_found_by_workflow(storage):
    first = checkpoint(1, {"list": [1]})
    assert await storage.save(first) == "1"
    first.state["list"].append(2)
    await storage.save(checkpoint(2, {"list": [1, 2]}, previous_checkpoint_id="1"))
    loaded = await storage.load("1")
    loaded.state["list"].append(3)
    assert (await storage.load("1")).state == {"list": [1]}
    assert (await storage.get_latest(workflow_name="w")).checkpoint_id == "2"
    assert await storage.list_checkpoint_ids(workflow_name="w") == ["1", "2"]
    assert await storage.list_checkpoints(workflow_name="other") == []
    assert await storage.get_latest(workflow_name="other") is None


async def test_a_deleted_checkpoint_is_gone_and_the_others_are_whole(storage):
    for at in range(5):
        await storage.save(checkpoint(at, {"said": [str(each) for each in range(at)]}))
    assert await storage.delete("2")
    assert not await storage.delete("2")
    with pytest.raises(WorkflowCheckpointException):
        await storage.load("2")
    found = [each.state["said"] for each in await storage.list_checkpoints(workflow_name="w")]
    assert found == [[], ["0"], ["0", "1", "2"], ["0", "1", "2", "3"]]


@dataclass
class Mine:
    value: int


def test_what_could_not_be_restored_is_refused_when_it_is_saved_and_heard(place):
    heard = []
    with place.open() as opened:
        storage = UpthreadCheckpointStorage(
            record=opened, on_failure=lambda each, _: heard.append(each.checkpoint_id)
        )
        with pytest.raises(WorkflowCheckpointException):
            asyncio.run(storage.save(checkpoint(1, {"mine": Mine(1)})))
        assert heard == ["1"]
        assert asyncio.run(storage.list_checkpoint_ids(workflow_name="w")) == []
        allowed = UpthreadCheckpointStorage(
            record=opened, allowed_checkpoint_types=[f"{__name__}:Mine"]
        )
        asyncio.run(allowed.save(checkpoint(1, {"mine": Mine(1)})))
        assert asyncio.run(allowed.load("1")).state["mine"] == Mine(1)


def test_a_save_that_fails_says_so_though_the_runner_only_logs_it(sqlite_place):
    opened = sqlite_place.open()
    storage = UpthreadCheckpointStorage(record=opened)
    opened.close()
    with pytest.warns(RuntimeWarning, match="was not saved"), pytest.raises(Exception):  # noqa: B017
        asyncio.run(storage.save(checkpoint(1)))


def test_bytes_grow_with_what_is_new_and_not_with_the_whole_state(sqlite_place):
    with sqlite_place.open() as opened:
        storage = UpthreadCheckpointStorage(record=opened)
        said = []
        for at in range(100):
            said.append(f"message {at} " + "x" * 200)
            asyncio.run(storage.save(checkpoint(at % 60, {"_executor_state": {"a": list(said)}})))
        sizes = [len(str(each.value)) for each in opened.log(CHECKPOINTS, "w").entries()]
    assert max(sizes[1:]) < 1_500


def test_history_is_of_one_session_and_read_by_another_process(place):
    said = [Message("user", ["hello"]), Message("assistant", ["yes"])]
    with place.open() as opened:
        asyncio.run(UpthreadHistoryProvider(record=opened).save_messages("s", said))
    with place.open() as opened:
        provider = UpthreadHistoryProvider(record=opened)
        found = asyncio.run(provider.get_messages("s"))
        assert [each.to_dict() for each in found] == [each.to_dict() for each in said]
        assert asyncio.run(provider.get_messages("other")) == []
        with pytest.raises(UsageError, match="without a session"):
            asyncio.run(provider.get_messages(None))


@pytest.mark.parametrize("is_ours", [False, True])
def test_sessions_are_kept_as_copies(place, is_ours):
    async def keep(store):
        session = AgentSession()
        session.state["a"] = {"list": [1]}
        await store.set("id", session)
        session.state["a"]["list"].append(2)
        first = (await store.get("id")).state["a"]
        await store.set("id", session)
        second = (await store.get("id")).state["a"]
        await store.delete("id")
        with pytest.raises(ValueError, match="non-empty"):
            await store.get("")
        return first, second, await store.get("id")

    with place.open() as opened:
        store = UpthreadSessionStore(record=opened) if is_ours else SessionStore()
        assert asyncio.run(keep(store)) == ({"list": [1]}, {"list": [1, 2]}, None)
