"""S13, S14, S34 and S35: who holds a lease."""

from __future__ import annotations

from msgspec import structs

from upthread.core.types import Fence, LeaseClaim
from upthread.errors import ConflictError, FencedError
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promise, refused
from upthread.testing.store_conformance.samples import CALL_HOLDER, HOLDER, OTHER_HOLDER, taken

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
    trial.store.release_lease(samples.fence(mine))
    assert trial.store.lease(LEASE) == structs.replace(mine, holder=None)
    theirs = taken(trial.store, LEASE, OTHER_HOLDER)
    assert theirs.token > mine.token
    assert theirs.holder == OTHER_HOLDER


@promise("S13")
def a_lease_is_taken_over_only_as_it_was_seen(trial: Trial) -> None:
    mine = taken(trial.store, LEASE)
    trial.store.heartbeat(samples.fence(mine))
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
    for fence in (samples.fence(mine), UNKNOWN):
        with refused(FencedError):
            trial.store.heartbeat(fence)
        with refused(FencedError):
            trial.store.release_lease(fence)
    assert trial.store.lease(LEASE) == theirs


@promise("S14")
def a_released_lease_has_no_heartbeat(trial: Trial) -> None:
    mine = samples.fence(taken(trial.store, LEASE))
    trial.store.release_lease(mine)
    released = trial.store.lease(LEASE)
    trial.store.release_lease(mine)
    with refused(FencedError):
        trial.store.heartbeat(mine)
    assert trial.store.lease(LEASE) == released


CLAIM = LeaseClaim(name="conversation one a/b", holder=CALL_HOLDER)


@promise("S34")
def a_lease_is_taken_and_given_with_a_batch(trial: Trial) -> None:
    trial.store.commit((samples.workstream(),), take=(CLAIM,))
    mine = trial.store.lease(CLAIM.name)
    assert mine is not None
    assert mine.holder == CALL_HOLDER
    trial.store.commit((), fences=(samples.fence(mine),), give=(samples.fence(mine),))
    assert trial.store.lease(CLAIM.name) == structs.replace(mine, holder=None)
    trial.store.commit((), take=(CLAIM,))
    again = trial.store.lease(CLAIM.name)
    assert again is not None
    assert again.token > mine.token


@promise("S34")
def a_batch_whose_lease_cannot_be_taken_or_given_leaves_nothing(trial: Trial) -> None:
    other = taken(trial.store, CLAIM.name, OTHER_HOLDER)
    with refused(ConflictError):
        another = structs.replace(CLAIM, name="another")
        trial.store.commit((samples.workstream(),), take=(CLAIM, another))
    with refused(FencedError):
        trial.store.commit((samples.workstream(),), give=(UNKNOWN,))
    assert trial.store.lease(CLAIM.name) == other
    assert trial.store.lease("another") is None
    assert trial.store.workstreams(samples.PROJECT) == ()
    trial.store.commit((samples.workstream(),), take=(structs.replace(CLAIM, seen=other),))
    assert len(trial.store.workstreams(samples.PROJECT)) == 1


@promise("S35")
def held_leases_are_those_of_the_project_that_somebody_holds(trial: Trial) -> None:
    named = [f"conversation {samples.PROJECT} {name}" for name in ("b/b", "a/a", "c/c")]
    held = [taken(trial.store, name, CALL_HOLDER) for name in named]
    for other in (f"conversation {samples.PROJECT}2 a/a", f"workstream {samples.PROJECT} a"):
        taken(trial.store, other)
    trial.store.release_lease(samples.fence(held[2]))
    assert trial.store.held_leases(samples.PROJECT) == (held[1], held[0])
