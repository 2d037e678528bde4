"""When two actions may be one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from upthread.core.outward.actions import Action

WORDS = st.none() | st.sampled_from(["a", "b"])
ACTIONS = st.builds(
    Action,
    family=st.sampled_from(["push", "mail"]),
    target=st.lists(WORDS, max_size=3).map(tuple),
)


@given(ACTIONS, ACTIONS)
def test_may_be_the_same_holds_both_ways(one, other):
    assert one.may_be(one)
    assert one.may_be(other) == other.may_be(one)


@given(ACTIONS, ACTIONS)
def test_two_that_say_different_things_of_one_place_are_not_the_same(one, other):
    said = zip(one.target, other.target, strict=False)
    differs = one.family != other.family or any(a and b and a != b for a, b in said)
    assert one.may_be(other) != differs
