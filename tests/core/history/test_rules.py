"""Rules: reading JSON of any form without a crash."""

from __future__ import annotations

import pytest

from upthread.core.history.rules import (
    has_lone_surrogate,
    items_of,
    object_of,
    repeated,
    text_of,
)


@pytest.mark.parametrize(
    ("value", "items"), [(None, 0), ("text", 0), (3, 0), ({"a": 1}, 0), ([{}, 3], 2)]
)
def test_only_an_array_has_items(value, items):
    assert len(items_of(value)) == items


def test_what_is_no_object_and_no_text_is_an_empty_one():
    assert object_of([1]) == {}
    assert object_of({"a": 1}) == {"a": 1}
    assert text_of(3) == ""
    assert text_of("x") == "x"


@pytest.mark.parametrize(
    ("value", "has"),
    [
        ("\ud800", True),
        ({"\ud800": 1}, True),
        ([[{"a": ["\udfff"]}]], True),
        ("😀", False),
        ([1, None, True, {"a": "b"}], False),
    ],
)
def test_half_a_character_is_found_wherever_it_is(value, has):
    assert has_lone_surrogate(value) is has


def test_a_value_nested_beyond_the_stack_is_read():
    value = []
    for _ in range(100_000):
        value = [value]
    assert has_lone_surrogate(value) is False


def test_what_comes_again_is_named_once():
    assert repeated(["a", "b", "a", "c", "b", "a"]) == ["a", "b"]
