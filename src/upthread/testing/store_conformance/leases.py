"""S13, S14, S34 and S35: who holds a lease."""

from __future__ import annotations

from upthread.core.types import Fence, Lease, LeaseClaim
from upthread.errors import ConflictError, FencedError
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promises, refused
from upthread.testing.store_conformance.samples import CALL_HOLDER, HOLDER, OTHER_HOLDER


def _taken(trial: Trial, *, seen: Lease | None = None) -> Lease:
    lease = trial.store.acquire_lease("spec-42", HOLDER, seen=seen)
    assert lease is not None
    return lease


def a_held_lease_is_not_given_away(trial: Trial) -> None:
    mine = _taken(trial)
    assert (mine.name, mine.holder) == ("spec-42", HOLDER)
    assert trial.store.acquire_lease("spec-42", OTHER_HOLDER) is None
    assert trial.store.acquire_lease("spec-42", HOLDER) is None
    assert trial.store.lease("spec-42") == mine
    trial.reopen()
    assert trial.store.lease("spec-42") == mine


def a_released_lease_is_free_under_a_higher_token(trial: Trial) -> None:
    mine = _taken(trial)
    trial.store.release_lease(samples.fence(mine))
    released = trial.store.lease("spec-42")
    assert released is not None
    assert released.holder is None
    theirs = trial.store.acquire_lease("spec-42", OTHER_HOLDER)
    assert theirs is not None
    assert theirs.token > mine.token
    assert theirs.holder == OTHER_HOLDER


def a_lease_that_has_not_moved_can_be_taken_over(trial: Trial) -> None:
    mine = _taken(trial)
    theirs = trial.store.acquire_lease("spec-42", OTHER_HOLDER, seen=mine)
    assert theirs is not None
    assert theirs.token > mine.token


def a_lease_that_has_moved_is_not_taken_over(trial: Trial) -> None:
    mine = _taken(trial)
    trial.store.heartbeat(samples.fence(mine))
    assert trial.store.acquire_lease("spec-42", OTHER_HOLDER, seen=mine) is None
    moved = trial.store.lease("spec-42")
    assert moved is not None
    assert moved.heartbeat > mine.heartbeat
    taken = trial.store.acquire_lease("spec-42", OTHER_HOLDER, seen=moved)
    assert taken is not None
    assert trial.store.acquire_lease("spec-42", HOLDER, seen=moved) is None


def leases_do_not_know_each_other(trial: Trial) -> None:
    _taken(trial)
    assert trial.store.acquire_lease("spec-43", OTHER_HOLDER) is not None


def an_old_token_is_fenced(trial: Trial) -> None:
    mine = _taken(trial)
    theirs = trial.store.acquire_lease("spec-42", OTHER_HOLDER, seen=mine)
    for fence in (samples.fence(mine), Fence(name="never taken", token=1)):
        with refused(FencedError):
            trial.store.heartbeat(fence)
        with refused(FencedError):
            trial.store.release_lease(fence)
    assert trial.store.lease("spec-42") == theirs


def a_released_lease_has_no_heartbeat(trial: Trial) -> None:
    mine = samples.fence(_taken(trial))
    trial.store.release_lease(mine)
    released = trial.store.lease("spec-42")
    trial.store.release_lease(mine)
    with refused(FencedError):
        trial.store.heartbeat(mine)
    assert trial.store.lease("spec-42") == released


def _claim(name: str = "conversation one a/b", seen: Lease | None = None) -> LeaseClaim:
    return LeaseClaim(name=name, holder=CALL_HOLDER, seen=seen)


def a_lease_is_taken_and_given_with_a_batch(trial: Trial) -> None:
    trial.store.commit((samples.workstream(),), take=(_claim(),))
    taken = trial.store.lease("conversation one a/b")
    assert taken is not None
    assert taken.holder == CALL_HOLDER
    trial.store.commit((), fences=(samples.fence(taken),), give=(samples.fence(taken),))
    given = trial.store.lease("conversation one a/b")
    assert given is not None
    assert given.holder is None
    trial.store.commit((), take=(_claim(),))
    again = trial.store.lease("conversation one a/b")
    assert again is not None
    assert again.token > taken.token


def a_batch_whose_lease_cannot_be_taken_leaves_nothing(trial: Trial) -> None:
    other = trial.store.acquire_lease("conversation one a/b", OTHER_HOLDER)
    with refused(ConflictError):
        trial.store.commit((samples.workstream(),), take=(_claim(), _claim("another")))
    assert trial.store.lease("conversation one a/b") == other
    assert trial.store.lease("another") is None
    assert trial.store.workstreams(samples.PROJECT) == ()
    trial.store.commit((samples.workstream(),), take=(_claim(seen=other),))
    assert len(trial.store.workstreams(samples.PROJECT)) == 1


def a_batch_that_gives_what_it_does_not_hold_leaves_nothing(trial: Trial) -> None:
    with refused(FencedError):
        trial.store.commit((samples.workstream(),), give=(Fence(name="never taken", token=1),))
    assert trial.store.workstreams(samples.PROJECT) == ()


def held_leases_are_those_of_the_project_that_somebody_holds(trial: Trial) -> None:
    named = [f"conversation {samples.PROJECT} {name}" for name in ("b/b", "a/a", "c/c")]
    held = [trial.store.acquire_lease(name, CALL_HOLDER) for name in named]
    trial.store.acquire_lease(f"conversation {samples.PROJECT}2 a/a", HOLDER)
    trial.store.acquire_lease(f"workstream {samples.PROJECT} a", HOLDER)
    assert held[2] is not None
    trial.store.release_lease(samples.fence(held[2]))
    assert trial.store.held_leases(samples.PROJECT) == (held[1], held[0])


LEASE_PROMISES = promises(
    {
        "S13": [
            a_held_lease_is_not_given_away,
            a_released_lease_is_free_under_a_higher_token,
            a_lease_that_has_not_moved_can_be_taken_over,
            a_lease_that_has_moved_is_not_taken_over,
            leases_do_not_know_each_other,
        ],
        "S14": [an_old_token_is_fenced, a_released_lease_has_no_heartbeat],
        "S34": [
            a_lease_is_taken_and_given_with_a_batch,
            a_batch_whose_lease_cannot_be_taken_leaves_nothing,
            a_batch_that_gives_what_it_does_not_hold_leaves_nothing,
        ],
        "S35": [held_leases_are_those_of_the_project_that_somebody_holds],
    }
)
