"""S5, S7, S10, S13, S14, S16-S18, S23, S34, S35: leases, and what holds between processes."""

import contextlib
import multiprocessing
import os
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier

from msgspec.structs import replace

from upthread.core.commands import OpenConversation, OpenLink
from upthread.core.types import ConversationId, Durability, Fence, LeaseClaim, TextPart, TurnId
from upthread.errors import ConflictError, FencedError, StoreError
from upthread.store.base import Store
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promise, refused
from upthread.testing.store_conformance.samples import (
    CALL_HOLDER,
    CONVERSATION,
    HOLDER,
    OTHER_HOLDER,
    PROJECT,
    home,
    said,
    taken,
)

LEASE = "spec-42"
UNKNOWN = Fence(name="never taken", token=1)


@promise("S13")
def a_held_lease_is_not_given_away(trial: Trial) -> None:
    mine = taken(trial.store, LEASE)
    assert (mine.name, mine.holder) == (LEASE, HOLDER)
    assert trial.store.acquire_lease(LEASE, OTHER_HOLDER) is None
    assert trial.store.acquire_lease(LEASE, HOLDER) is None
    assert trial.store.acquire_lease("spec-43", OTHER_HOLDER) is not None
    assert trial.store.lease(LEASE) == mine
    trial.reopen()
    assert trial.store.lease(LEASE) == mine


@promise("S13")
def a_released_lease_is_free_under_a_higher_token(trial: Trial) -> None:
    mine = taken(trial.store, LEASE)
    for _ in range(2):
        trial.store.release_lease(mine.fence)
        assert trial.store.lease(LEASE) == replace(mine, holder=None)
    with refused(FencedError):
        trial.store.heartbeat(mine.fence)
    theirs = taken(trial.store, LEASE, OTHER_HOLDER)
    assert theirs.token > mine.token
    assert theirs.holder == OTHER_HOLDER


@promise("S13")
def a_lease_is_taken_over_only_as_it_was_seen(trial: Trial) -> None:
    mine = taken(trial.store, LEASE)
    trial.store.heartbeat(mine.fence)
    assert trial.store.acquire_lease(LEASE, OTHER_HOLDER, seen=mine) is None
    moved = trial.store.lease(LEASE)
    assert moved is not None
    assert moved.heartbeat > mine.heartbeat
    theirs = trial.store.acquire_lease(LEASE, OTHER_HOLDER, seen=moved)
    assert theirs is not None
    assert theirs.token > mine.token
    assert trial.store.acquire_lease(LEASE, HOLDER, seen=moved) is None


@promise("S14")
def an_old_token_is_fenced(trial: Trial) -> None:
    mine = taken(trial.store, LEASE)
    theirs = trial.store.acquire_lease(LEASE, OTHER_HOLDER, seen=mine)
    for fence in (mine.fence, UNKNOWN):
        with refused(FencedError):
            trial.store.heartbeat(fence)
        with refused(FencedError):
            trial.store.release_lease(fence)
    assert trial.store.lease(LEASE) == theirs


CLAIM = LeaseClaim(name="conversation one a/b", holder=CALL_HOLDER)


@promise("S34")
def a_lease_is_taken_and_given_with_a_batch(trial: Trial) -> None:
    trial.store.commit((samples.workstream(),), take=(CLAIM,))
    mine = trial.store.lease(CLAIM.name)
    assert mine is not None
    assert mine.holder == CALL_HOLDER
    trial.store.commit((), fences=(mine.fence,), give=(mine.fence,))
    assert trial.store.lease(CLAIM.name) == replace(mine, holder=None)
    trial.store.commit((), take=(CLAIM,))
    again = trial.store.lease(CLAIM.name)
    assert again is not None
    assert again.token > mine.token


@promise("S34")
def a_batch_whose_lease_cannot_be_taken_or_given_leaves_nothing(trial: Trial) -> None:
    other = taken(trial.store, CLAIM.name, OTHER_HOLDER)
    with refused(ConflictError):
        another = replace(CLAIM, name="another")
        trial.store.commit((samples.workstream(),), take=(CLAIM, another))
    with refused(FencedError):
        trial.store.commit((samples.workstream(),), give=(UNKNOWN,))
    assert trial.store.lease(CLAIM.name) == other
    assert trial.store.lease("another") is None
    assert trial.store.workstreams(PROJECT) == ()
    trial.store.commit((samples.workstream(),), take=(replace(CLAIM, seen=other),))
    assert len(trial.store.workstreams(PROJECT)) == 1


@promise("S35")
def held_leases_are_those_of_the_project_that_somebody_holds(trial: Trial) -> None:
    named = [f"conversation {PROJECT} {name}" for name in ("b/b", "a/a", "c/c")]
    held = [taken(trial.store, name, CALL_HOLDER) for name in named]
    for other in (f"conversation {PROJECT}2 a/a", f"workstream {PROJECT} a"):
        taken(trial.store, other)
    trial.store.release_lease(held[2].fence)
    assert trial.store.held_leases(PROJECT) == (held[1], held[0])


# --- between processes, and across their death ----------------------------------------------------


PROCESSES = 4
ANSWER_TIMEOUT_S = 60.0

_SPAWN = multiprocessing.get_context("spawn")


def _in_processes(trial: Trial, work: Callable[[Store, int], object]) -> list[object]:
    """Open the place in several processes at once, let each do its work, return their answers.

    Each stops dead afterwards, without closing anything. AssertionError when one of them failed.
    """
    backend, place = trial.backend, trial.place
    started: list[tuple[Connection, BaseProcess]] = []
    ready = _SPAWN.Barrier(PROCESSES)
    for number in range(PROCESSES):
        ours, theirs = _SPAWN.Pipe(duplex=False)
        job = (partial(backend.make, place), work, number, theirs, ready)
        process = _SPAWN.Process(target=_child, args=job)
        process.start()
        theirs.close()
        started.append((ours, process))
    return [_answer_of(ours, process) for ours, process in started]


def _answer_of(ours: Connection, process: BaseProcess) -> object:
    assert ours.poll(ANSWER_TIMEOUT_S), "a process did not answer"
    is_done, answer = ours.recv()
    process.join(ANSWER_TIMEOUT_S)
    assert is_done, answer
    return answer


def _child(  # pragma: no cover  # runs in a process of its own
    opened: Callable[[], Store],
    work: Callable[[Store, int], object],
    number: int,
    answer: Connection,
    ready: Barrier,
) -> None:
    try:
        ready.wait()
        answer.send((True, work(opened(), number)))
    except BaseException:  # noqa: BLE001  # carried to the parent, which fails with it
        answer.send((False, traceback.format_exc()))
    # No clean-up of any kind: this is the death S5 speaks of.
    os._exit(0)


# Work is module-level, so that it can be sent to another process.


def _write_messages(store: Store, number: int) -> object:
    key = samples.sibling_key(number + 1)
    owner, turn_id = ConversationId(f"con_{number}"), TurnId(f"trn_{number}")
    store.commit(
        [
            OpenConversation(conversation=samples.conversation(owner, key=key)),
            samples.turn(turn_id, owner=owner),
        ]
    )
    for seq in range(1, 26):
        last = Durability.SYNCED if seq % 10 == 0 else Durability.PROCESS
        store.commit([said(seq, owner=owner, turn_id=turn_id, durability=last)])
    return owner


def _append_to_one(store: Store, number: int) -> object:
    """Append ten messages to the one conversation, reading again after each conflict."""
    done = 0
    while done < 10:
        seq = store.message_count(CONVERSATION) + 1
        try:
            store.commit([said(seq, TextPart(text=f"{number}/{done}"))])
        except ConflictError:
            continue
        done += 1
    return done


def _open_the_same(store: Store, number: int) -> object:
    own = samples.conversation(ConversationId(f"con_{number}"))
    with contextlib.suppress(ConflictError):
        store.commit([OpenConversation(conversation=own)])
    resolved = samples.resolved(store)
    return resolved.conversation.conversation_id


def _take_lease(store: Store, number: int) -> object:
    holder = replace(HOLDER, pid=number)
    return store.acquire_lease("spec-42", holder) is not None


def _begin_once(store: Store, number: int) -> object:
    intent = samples.step("intent", f"att_{number}")
    try:
        store.commit([intent])
    except ConflictError:
        return None
    return intent.attempt_id


def _first_opening(store: Store, number: int) -> object:
    store.commit([samples.workstream(f"ws-{number}", base_name=f"Name{number}")])
    return len(store.workstreams(PROJECT)) > 0


@promise("S5")
def what_was_committed_outlives_its_process(trial: Trial) -> None:
    trial.commit(samples.workstream())
    for owner in _in_processes(trial, _write_messages):
        identity = ConversationId(str(owner))
        assert trial.store.message_count(identity) == 25
        assert trial.store.verify(identity) is None
    trial.reopen()
    assert len(trial.store.conversations(PROJECT, samples.WORKSTREAM)) == PROCESSES


@promise("S7")
def a_commit_is_seen_by_every_open_store(trial: Trial) -> None:
    other = trial.backend.make(trial.place)
    try:
        trial.commit(*home())
        for seq in range(1, 6):
            writer, reader = (trial.store, other) if seq % 2 else (other, trial.store)
            writer.commit([said(seq)])
            assert reader.message_count(CONVERSATION) == seq
            assert reader.messages(CONVERSATION) == writer.messages(CONVERSATION)
        trial.commit(OpenLink(link=samples.link(2, "ses_b")))
        resolved = samples.resolved(other)
        assert resolved.link == samples.link(2, "ses_b")
    finally:
        other.close()


@promise("S6")
def writers_of_one_conversation_leave_no_gap(trial: Trial) -> None:
    trial.commit(*home())
    assert _in_processes(trial, _append_to_one) == [10] * PROCESSES
    found = trial.store.messages(CONVERSATION)
    assert [message.seq for message in found] == list(range(1, 10 * PROCESSES + 1))
    assert len({message.text for message in found}) == 10 * PROCESSES
    assert trial.store.verify(CONVERSATION) is None


@promise("S10")
def asked_at_the_same_moment_a_key_has_one_conversation(trial: Trial) -> None:
    trial.commit(samples.workstream())
    assert len(set(_in_processes(trial, _open_the_same))) == 1
    assert len(trial.store.conversations(PROJECT, samples.WORKSTREAM)) == 1


@promise("S13")
def asked_at_the_same_moment_a_lease_has_one_holder(trial: Trial) -> None:
    assert sorted(map(bool, _in_processes(trial, _take_lease))) == [False] * 3 + [True]


@promise("S23")
def asked_at_the_same_moment_an_action_is_begun_once(trial: Trial) -> None:
    begun = [name for name in _in_processes(trial, _begin_once) if name is not None]
    once = trial.store.once(PROJECT, "deploy")
    assert once is not None
    assert (begun, once.state) == ([once.attempt_id], "intent")


@promise("S16")
def a_new_store_opens_in_many_processes_at_once(trial: Trial) -> None:
    trial.store.close()
    fresh = trial.place.with_name(trial.place.name + "-fresh")
    trial.place = fresh
    assert _in_processes(trial, _first_opening) == [True] * PROCESSES
    trial.store = trial.backend.make(fresh)
    assert len(trial.store.workstreams(PROJECT)) == PROCESSES


@promise("S5")
def what_was_committed_is_there_after_closing(trial: Trial) -> None:
    trial.commit(*home(), said(1))
    before = trial.store.messages(CONVERSATION)
    trial.store.close()
    trial.store.close()
    with refused(StoreError):
        trial.commit(said(2))
    trial.store = trial.backend.make(trial.place)
    assert trial.store.messages(CONVERSATION) == before


@promise("S17")
def a_newer_store_is_refused_and_left_alone(trial: Trial) -> None:
    backend = trial.backend
    trial.commit(*home())
    trial.store.close()
    backend.mark_newer(trial.place)
    before = backend.contents(trial.place)
    with refused(StoreError):
        backend.make(trial.place)
    assert backend.contents(trial.place) == before


@promise("S18")
def a_failed_write_is_an_error_and_costs_nothing_else(trial: Trial) -> None:
    trial.commit(*home(), said(1))
    before = trial.store.messages(CONVERSATION)
    big = TextPart(text="x" * 100_000)
    with trial.backend.failing(trial.store):
        for durability in (Durability.PROCESS, Durability.SYNCED):
            with refused(StoreError):
                trial.commit(said(2, big, durability=durability))
            assert trial.store.messages(CONVERSATION) == before
    trial.commit(said(2, big))
    trial.reopen()
    assert trial.store.message_count(CONVERSATION) == 2
    assert trial.store.verify(CONVERSATION) is None
