"""Rules: reading JSON of any form without a crash."""

import json

import pytest
from tests.core.history.histories import call, result, text

from upthread.core.codec import number_at, object_at, objects_at, session_at, text_at, texts_at
from upthread.core.history.model import TOO_DEEP, has_lone_surrogate, made_unicode, sendable
from upthread.core.types import ContextPart, FilePart, ReasoningPart, ToolCallPart


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


# --- what is sent is UTF-8 and JSON, whatever was stored ------------------------------------------


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


def test_what_is_of_another_form_is_empty():
    value = {"a": [1, {"b": 2}, "x"], "c": 3}
    assert (objects_at("ab"), objects_at(value, "a")) == ([], [{"b": 2}])
    assert (texts_at(value, "a"), texts_at(value, "c")) == (["x"], [])
    assert (object_at([]), object_at(value, "a", "b"), text_at(value, "c")) == ({}, {}, "")
    assert (session_at(value, "a"), session_at({"id": "ses_1"}, "id")) == ("", "ses_1")


@pytest.mark.parametrize(
    ("value", "number"), [(0, 0), (7, 7), (-1, None), (True, None), (1.5, None), ("1", None)]
)
def test_a_figure_is_a_whole_number_from_zero(value, number):
    assert number_at({"tokens": {"input": value}}, "tokens", "input") == number
