"""The difference of two JSON values makes the one of the other, types and all."""

import json

from hypothesis import given
from hypothesis import strategies as st

from upthread.integrations.json_delta import SAME, applied, changed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda each: (
        st.lists(each, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "v", "l", "o"]), each, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES, VALUES)
def test_what_was_changed_is_made_of_what_was_before(before, after):
    told = json.loads(json.dumps(changed(before, after)))
    assert json.dumps(applied(before, told), sort_keys=True) == json.dumps(after, sort_keys=True)


@given(VALUES)
def test_of_the_same_value_nothing_is_told(value):
    assert changed(value, json.loads(json.dumps(value))) == SAME


def test_of_a_long_conversation_only_what_is_new_is_told():
    before = {"state": {"messages": [f"message {at}" for at in range(10_000)]}, "step": 1}
    after = {"state": {"messages": [*before["state"]["messages"], "new"]}, "step": 2}
    assert len(json.dumps(changed(before, after))) < 100
