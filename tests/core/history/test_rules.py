"""Rules: reading JSON of any form without a crash."""

from __future__ import annotations

import json

import pytest
from tests.core.history.histories import call, result, text

from upthread.core.history.rules import (
    TOO_DEEP,
    has_lone_surrogate,
    items_of,
    made_unicode,
    object_of,
    repeated,
    sendable,
    text_of,
)
from upthread.core.text import unicode_text
from upthread.core.types import ContextPart, FilePart, ReasoningPart, ToolCallPart


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


@pytest.mark.extended
def test_a_value_nested_beyond_the_stack_is_read():
    value = []
    for _ in range(100_000):
        value = [value]
    assert has_lone_surrogate(value) is False


def test_what_comes_again_is_named_once():
    assert repeated(["a", "b", "a", "c", "b", "a"]) == ["a", "b"]


# --- what is sent is UTF-8 and JSON, whatever was stored ------------------------------------------


@pytest.mark.parametrize(
    ("stored", "sent"),
    [
        ("plain", "plain"),
        ("a\ud83dz", "a\ufffdz"),
        ("\ud83d\ude00", "😀"),
        ("\udc00\x00", "\ufffd\x00"),
    ],
)
def test_halves_are_joined_and_single_ones_shown(stored, sent):
    assert unicode_text(stored) == sent


@pytest.mark.parametrize(
    "part",
    [
        text("\ud83d"),
        ContextPart(text="\ud83d"),
        ReasoningPart(text="\ud83d"),
        result("c", "\ud83d"),
    ],
)
def test_every_part_with_text_is_made_valid(part):
    assert made_unicode(part).text == "\ufffd"


def test_a_call_is_made_valid_in_its_title_and_its_arguments():
    made = made_unicode(call("c", "\ud83d", {"a": ["\ud83d"]}))
    assert isinstance(made, ToolCallPart)
    assert (made.title, made.arguments) == ("\ufffd", {"a": ["\ufffd"]})


@pytest.mark.parametrize("part", [text("x"), call("c", "x", {"a": 1}), FilePart(uri="\ud83d")])
def test_a_valid_part_is_the_same_object(part):
    assert made_unicode(part) is part


def test_a_value_is_sent_as_plain_json():
    value = {"a": (1, float("inf"), None), "b": {"c\ud800": float("nan")}, "d": 1.5}
    sent = sendable(value)
    assert sent == {"a": [1, "inf", None], "b": {"c\ufffd": "nan"}, "d": 1.5}
    json.dumps(sent, allow_nan=False)


def test_a_value_nested_too_deeply_is_cut_and_says_so():
    value: list[object] = []
    for _ in range(10_000):
        value = [value]
    assert TOO_DEEP in json.dumps(sendable(value))
