"""The depth counter: what it counts, and what it finds odd."""

from upthread.core.turns.sub_agents import (
    ALARMS,
    NESTED,
    OPEN_AT_END,
    PARALLEL,
    UNMATCHED_END,
    DepthCounter,
)
from upthread.core.types import UpstreamSessionId

OWN, A, B, DEEP = (UpstreamSessionId(f"ses_{name}") for name in ("own", "a", "b", "deep"))


def test_one_child_after_another_is_nothing_odd():
    counter = DepthCounter()
    for child in (A, B):
        assert counter.start(child, parent=OWN) == ()
        assert counter.depth == 1
        assert counter.end(child) == ()
    assert (counter.depth, counter.finish()) == (0, ())


def test_a_start_counts_once():
    counter = DepthCounter()
    counter.start(A, parent=OWN)
    assert counter.start(A, parent=OWN) == ()
    assert counter.depth == 1


def test_a_child_beside_another_is_parallel_at_any_depth():
    counter = DepthCounter()
    counter.start(A, parent=OWN)
    assert counter.start(B, parent=OWN) == (PARALLEL,)
    assert counter.start(DEEP, parent=A) == (NESTED, PARALLEL)


def test_sessions_that_name_each_other_as_parents_do_not_hang_it():
    counter = DepthCounter()
    counter.start(A, parent=B)
    counter.start(B, parent=A)
    assert counter.start(DEEP, parent=A) == (NESTED,)


def test_every_alarm_has_its_words():
    assert set(ALARMS) == {NESTED, PARALLEL, UNMATCHED_END, OPEN_AT_END}
    assert all(ALARMS.values())
