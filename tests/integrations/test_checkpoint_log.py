"""A thread is the fold of what was appended, and of a list only what is new is appended."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from upthread.errors import StoreError
from upthread.integrations.checkpoint_log import (
    CheckpointThread,
    SavedCheckpoint,
    elements_of,
    list_of,
)

SERDE = JsonPlusSerializer()
VALUES = st.lists(st.text() | st.integers(-(2**31), 2**31) | st.binary() | st.none(), max_size=8)


@given(VALUES)
def test_a_list_is_cut_into_its_elements_and_put_together_again(value):
    whole = SERDE.dumps_typed(value)
    elements = elements_of(whole)
    assert len(elements) == len(value)
    joined = list_of(elements) if value else whole
    assert SERDE.loads_typed(joined) == value


@pytest.mark.parametrize("whole", [("pickle", b"\x91\x01"), ("msgpack", b"\x81"), ("msgpack", b"")])
def test_what_is_no_list_in_messagepack_is_not_cut(whole):
    assert elements_of(whole) == ()


def saved(at):
    return SavedCheckpoint(
        checkpoint_id=str(at), parent=None, checkpoint=("x", b""), metadata=("x", b""), versions={}
    )


@given(st.lists(VALUES, min_size=1, max_size=8))
def test_a_list_comes_back_whatever_it_was_before(lists):
    writer, reader = CheckpointThread(), CheckpointThread()
    for version, value in enumerate(lists):
        stored = elements_of(SERDE.dumps_typed(value))
        entry = writer.put_entry("", saved(version), {"c": (version, stored)})
        for thread in (writer, reader):
            thread.take(json.loads(json.dumps(entry)))
        assert reader.blobs["", "c", version] == stored


def test_a_list_that_grows_is_appended_to_by_what_is_new_of_it():
    thread, sizes = CheckpointThread(), []
    for version in range(100):
        value = [f"message {at}" for at in range(version + 1)]
        stored = elements_of(SERDE.dumps_typed(value))
        entry = thread.put_entry("", saved(version), {"c": (version, stored)})
        thread.take(entry)
        sizes.append(len(json.dumps(entry)))
    assert sizes[-1] <= sizes[1] + 8


def test_an_entry_that_no_version_of_this_wrote_is_refused():
    with pytest.raises(StoreError, match="no known kind"):
        CheckpointThread().take({"future": 1})
