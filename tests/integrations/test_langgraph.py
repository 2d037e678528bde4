"""LangGraph's checkpointer: its own suite, what that does not ask, and what it costs."""

import asyncio
import itertools
import operator
import random
import time
import uuid
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from tests.support.sqlite_faults import statements_of

from upthread.client.project_opener import open_project
from upthread.errors import ConflictError, StoreError, UsageError
from upthread.integrations.langgraph import UpthreadSaver
from upthread.runtime.record.entry_log import NewEntry
from upthread.runtime.record.erasure import Selection


def test_all_eight_capabilities_of_their_suite_are_kept(place):
    @checkpointer_test(name="upthread")
    async def saver():
        # Each of its tests begins with a saver that has nothing: threads here are named by chance.
        with place.open() as opened:
            yield UpthreadSaver(record=opened)

    report = asyncio.run(validate(saver))
    assert report.passed_all()
    assert all(each.tests_passed for each in report.results.values())
    assert len(report.results) == 8


class Talk(TypedDict):
    messages: Annotated[list[Any], add_messages]
    steps: Annotated[list[str], operator.add]


def in_turn(state, **nodes):
    graph = StateGraph(state)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for one, other in itertools.pairwise([START, *nodes, END]):
        graph.add_edge(one, other)
    return graph


def talking(saver: BaseCheckpointSaver, steps: int = 3):
    def named(name):
        return lambda _: {"messages": [AIMessage(name)], "steps": [name]}

    nodes = {f"step{at}": named(f"step{at}") for at in range(steps)}
    return in_turn(Talk, **nodes).compile(checkpointer=saver)


def config(thread: str = "thread"):
    return {"configurable": {"thread_id": thread}}


def without_ids(state):
    return [(type(each).__name__, each.content) for each in state["messages"]]


def test_a_graph_goes_on_in_another_process_as_with_their_own(place):
    theirs, seen = InMemorySaver(), []
    for said in ("one", "two"):
        expected = talking(theirs).invoke({"messages": [HumanMessage(said)]}, config())
        with place.open() as opened:
            seen = talking(UpthreadSaver(record=opened)).invoke(
                {"messages": [HumanMessage(said)]}, config()
            )
        assert without_ids(seen) == without_ids(expected)
        assert seen["steps"] == expected["steps"]
    with place.open() as opened:
        history = list(talking(UpthreadSaver(record=opened)).get_state_history(config()))
    expected = talking(theirs).get_state_history(config())
    assert [each.metadata["step"] for each in history] == [e.metadata["step"] for e in expected]


def checkpoint(name, values, version="1"):
    return {
        "v": 1,
        "id": name,
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, version),
        "versions_seen": {},
    }


def keep_lists(saver, lists):
    """Save a checkpoint for each list, as the next value of one channel."""
    parent, version = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, None
    for step, value in enumerate(lists):
        version = saver.get_next_version(version, None)
        saved = checkpoint(f"{step:04}", {"c": value}, version)
        parent = saver.put(parent, saved, {"step": step}, {"c": version})


def test_bytes_grow_with_what_is_said_and_not_with_its_square(sqlite_place):
    taken = []
    for most in (50, 100, 200):
        with sqlite_place.open() as opened:
            saver = UpthreadSaver(record=opened)
            saver.delete_thread("t")
            said = [f"message {at} " + "x" * 200 for at in range(most)]
            keep_lists(saver, (said[: at + 1] for at in range(most)))
            log = opened.log("langgraph", "t")
            taken.append(sum(len(str(each.value)) for each in log.entries()))
    assert taken[1] < taken[0] * 2.2
    assert taken[2] < taken[1] * 2.2


def test_a_run_reads_its_thread_once_and_another_processes_deletion_is_seen(sqlite_place):
    said = {"messages": [HumanMessage("go")], "steps": []}
    with sqlite_place.open() as record, sqlite_place.open() as other:
        graph, another = talking(UpthreadSaver(record=record)), UpthreadSaver(record=other)
        graph.invoke(said, config())
        with statements_of(record._parts.store.behind) as told:
            graph.invoke(said, config())
        assert sum(each.startswith("SELECT") for each in told) == 1
        state = graph.get_state(config())
        another.delete_thread("thread")
        graph.update_state(state.config, {"steps": ["late"]})
        assert another.get_tuple(config()).checkpoint["channel_values"]["steps"][-1] == "late"


def test_a_list_that_shrinks_or_changes_comes_back_as_it_was(record):
    saver = UpthreadSaver(record=record)
    chance = random.Random(7)
    lists = [
        [chance.choice("abc") * chance.randrange(3) for _ in range(chance.randrange(6))]
        for _ in range(60)
    ]
    keep_lists(saver, lists)
    found = {
        each.checkpoint["id"]: each.checkpoint["channel_values"]["c"]
        for each in saver.list(config("t"))
    }
    assert found == {f"{step:04}": value for step, value in enumerate(lists)}


def joined(before, writes):
    return [*(before or []), *(each for write in writes for each in write)]


class Counted(TypedDict):
    items: Annotated[list[str], DeltaChannel(joined, list, snapshot_frequency=100)]


def test_pruning_keeps_what_a_delta_channel_is_rebuilt_from(record):
    """Their eight tests of pruning pass where this is not kept, and the channel reads as empty."""
    saver = UpthreadSaver(record=record)
    graph = in_turn(Counted, add=lambda state: {"items": [str(len(state["items"]))]})
    compiled = graph.compile(checkpointer=saver)
    for _ in range(5):
        before = compiled.invoke({"items": ["said"]}, config())
    saver.prune(["thread"])
    assert compiled.get_state(config()).values == before
    items = compiled.invoke({"items": ["more"]}, config())["items"]
    assert items[: len(before["items"])] == before["items"]


@pytest.mark.parametrize(
    "value", ["\ud800", "\0", "x" * 10_000_000, float("inf"), {"a": [1, None, {"b": b"\xff"}]}]
)
def test_any_value_comes_back_as_it_was(record, value):
    saver = UpthreadSaver(record=record)
    key = {"configurable": {"thread_id": "any", "checkpoint_ns": ""}}
    theirs = InMemorySaver()
    for each in (saver, theirs):
        each.put(key, checkpoint("1", {"c": value, "l": [value]}), {}, {"c": "1", "l": "1"})
    # Of a lone surrogate LangGraph's own serializer makes a question mark, whatever the store.
    expected = theirs.get_tuple(key).checkpoint["channel_values"]
    assert expected == {"c": value, "l": [value]} or value == "\ud800"
    assert saver.get_tuple(key).checkpoint["channel_values"] == expected


def test_what_cannot_be_encoded_is_refused_and_nothing_of_it_is_written(record):
    saver = UpthreadSaver(record=record)
    key = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}}
    with pytest.raises(UsageError, match="serde="):
        saver.put_writes(key, [("fine", 1), ("not", lambda: None)], "task")
    assert list(record.log("langgraph", "t").entries()) == []


def test_an_entry_that_no_version_of_this_wrote_is_refused(record):
    record.log("langgraph", "t").append([NewEntry(value={"future": 1})])
    with pytest.raises(StoreError, match="no known kind"):
        UpthreadSaver(record=record).get_tuple(config("t"))


def test_what_a_deleted_thread_held_is_nowhere_in_the_record(sqlite_place):
    with sqlite_place.open() as opened:
        saver = UpthreadSaver(record=opened)
        talking(saver).invoke({"messages": [HumanMessage("a-thing-to-forget")]}, config())
        saver.delete_thread("thread")
        assert saver.get_tuple(config()) is None
        assert list(saver.list(None)) == []
        opened.scrub()
    files = [each for each in sqlite_place.directory.glob("record.db*") if each.is_file()]
    assert files
    assert not any(b"a-thing-to-forget" in each.read_bytes() for each in files)


@pytest.fixture
def host(monkeypatch):
    """Become a host whose clock is so many hours ahead: checkpoint ids are made of it."""
    real_ns = time.time_ns

    def become(hours_ahead):
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + hours_ahead * 3_600 * 10**9)

    return become


def test_two_hosts_with_clocks_an_hour_apart_take_turns_and_lose_none(place, host):
    said = ["one", "two", "three", "four"]
    for hours_ahead, text in zip((0, 1, 0, 0), said, strict=True):
        host(hours_ahead)
        with place.open() as opened:
            talking(UpthreadSaver(record=opened), 1).invoke({"steps": [text]}, config())
    expected = [each for text in said for each in (text, "step0")]
    with place.open() as opened:
        saver = UpthreadSaver(record=opened)
        assert talking(saver, 1).get_state(config()).values["steps"] == expected
        history = list(talking(saver, 1).get_state_history(config()))
        steps = [each.metadata["step"] for each in history]
        assert steps == sorted(steps, reverse=True)
        before = talking(saver, 1).get_state_history(config(), before=history[2].config)
        assert [each.config for each in before] == [each.config for each in history[3:]]
        saver.copy_thread("thread", "copy")
        saver.prune(["thread"])
        for thread in ("thread", "copy"):
            assert talking(saver, 1).get_state(config(thread)).values["steps"] == expected


def test_an_interrupt_that_a_host_with_an_earlier_clock_approved_runs_once(place, host):
    deployed = []
    for hours_ahead in (1, 0, 1):
        host(hours_ahead)
        with place.open() as opened:
            graph = in_turn(
                Talk,
                approve=lambda _: {"steps": ["approved"]},
                deploy=lambda _: deployed.append(1) or {"steps": ["deployed"]},
            )
            saver = UpthreadSaver(record=opened)
            compiled = graph.compile(checkpointer=saver, interrupt_before=["approve"])
            is_begun = saver.get_tuple(config()) is not None
            compiled.invoke(None if is_begun else {"steps": ["go"]}, config())
    assert deployed == [1]


def test_a_subgraph_is_replayed_from_before_its_parents_checkpoint(record, host):
    saver, ran = UpthreadSaver(record=record), []
    inner = in_turn(
        Talk, count=lambda state: ran.append(len(state["steps"])) or {"steps": ["x"]}
    ).compile(checkpointer=True)
    graph = in_turn(Talk, inner=inner).compile(checkpointer=saver)
    for hours_ahead in (0, 1, 0):
        host(hours_ahead)
        graph.invoke({"messages": [HumanMessage("go")]}, config())
    second = [each for each in graph.get_state_history(config()) if each.next == ("inner",)][1]
    first_time = list(ran)
    graph.invoke(None, second.config)
    assert ran == [*first_time, first_time[1]]


class Whole(TypedDict):
    steps: Annotated[list[str], operator.add]
    kept: str


def erasing(erase, saver):
    graph = in_turn(
        Whole,
        erase=lambda state: erase() or {"steps": [f"after {len(state['steps'])}"]},
        last=lambda _: {"steps": ["last"]},
    )
    return graph.compile(checkpointer=saver)


def states(graph):
    return [each.values for each in graph.get_state_history(config())]


async def forget(place):
    variables = {"database": place.database, "environment": place.environment}
    async with open_project(place.repository, **variables) as up:
        await up.forget(Selection(workstream="thread"))


@pytest.mark.parametrize("erased_by", ["delete_thread", "prune", "delete_for_runs", "forget"])
def test_what_is_written_beside_a_deletion_is_whole_or_nothing(place, erased_by):
    def erase():
        if erased_by == "forget":
            return asyncio.run(forget(place))
        runs = [each.metadata.get("run_id") for each in another.list(config())]
        given = {"delete_thread": "thread", "prune": ["thread"], "delete_for_runs": runs}
        return getattr(another, erased_by)(given[erased_by])

    said = {"steps": ["said"], "kept": "a"}
    undisturbed = erasing(lambda: None, InMemorySaver())
    undisturbed.invoke(said, config())
    with place.open() as record, place.open() as other_record:
        another = UpthreadSaver(record=other_record)
        run = {**config(), "metadata": {"run_id": "r"}}
        ended = erasing(erase, UpthreadSaver(record=record)).invoke(said, run)
        assert states(erasing(erase, another))[0] == ended
    with place.open() as record:
        saver = UpthreadSaver(record=record)
        found = states(erasing(erase, saver))
        assert found[0] == ended
        assert all(each in states(undisturbed) for each in found)
        saver.prune(["thread"])
        saver.delete_thread("thread")
        assert list(saver.list(None)) == []


def test_a_delta_channel_whose_base_was_deleted_is_refused_and_not_read_as_empty(record):
    saver = UpthreadSaver(record=record)
    graph = in_turn(Counted, add=lambda _: saver.delete_thread("thread") or {"items": ["late"]})
    with pytest.raises(ConflictError, match="deleted or pruned while this run wrote"):
        graph.compile(checkpointer=saver).invoke({"items": ["said"]}, config())
    assert saver.get_tuple(config()) is None


@pytest.mark.parametrize("thread", [7, uuid.UUID(int=9), "7"])
def test_a_thread_id_that_is_no_text_is_taken_by_every_method(record, thread):
    saver = UpthreadSaver(record=record)
    graph = talking(saver, 1)
    said = graph.invoke({"steps": ["a"]}, {**config(thread), "metadata": {"run_id": str(thread)}})
    saver.copy_thread(thread, uuid.UUID(int=1))
    assert graph.get_state(config(uuid.UUID(int=1))).values == said
    saver.prune([thread])
    assert [each.config for each in saver.list(config(thread))] == [
        saver.get_tuple(config(thread)).config
    ]
    saver.delete_for_runs([thread])
    assert graph.get_state(config(uuid.UUID(int=1))).values == {}
    graph.invoke({"steps": ["a"]}, config(thread))
    saver.delete_thread(thread)
    assert graph.get_state(config(thread)).values == {}


def test_a_damaged_thread_hides_no_other_and_can_be_deleted(record):
    """An earlier version left such an entry behind where a thread was deleted beside a run."""
    values = {"list": [], "after": ["1", 3]}
    late = {
        "put": "",
        "thread": "damaged",
        "id": "2",
        "parent": "1",
        "values": [["c", "2", values]],
    }
    late |= {"checkpoint": ["null", ""], "metadata": ["null", ""], "versions": {"c": "2"}}
    saver = UpthreadSaver(record=record)
    record.log("langgraph", "damaged").append([NewEntry(value=late)])
    with pytest.raises(StoreError, match=r"'damaged' cannot be read.*delete_thread"):
        saver.get_tuple(config("damaged"))
    for name in ("before", "sound"):
        place = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        saver.put(place, checkpoint("1", {}), {"run_id": name}, {})
    with pytest.warns(RuntimeWarning, match="'damaged' cannot be read"):
        assert [each.metadata["run_id"] for each in saver.list(None)] == ["before", "sound"]
    with pytest.warns(RuntimeWarning, match="'damaged' cannot be read"):
        saver.delete_for_runs(["before"])
    saver.prune(["damaged"], strategy="delete")
    assert [each.metadata["run_id"] for each in saver.list(None)] == ["sound"]
