"""Values as JSON: every value comes back, a person can read it, and damage is said."""

import json
import math
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from upthread.core import codec
from upthread.core.codec import read_json
from upthread.core.events import PromptSent, RunEvent, TurnEnded, TurnEvent, kind_of
from upthread.core.types import JsonValue, Outcome
from upthread.errors import StoreError, UsageError

# Any string Python can hold: NUL, lone surrogates, and pairs of them that are not one character.
TEXT = st.text(st.characters(exclude_categories=()), max_size=20) | st.sampled_from(
    ["\ud83d\ude00", "a\0b", "\udfff\ud800", "~", "~text:\\u0041", "~number:nan", "\\", " "]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
TURN_EVENT = codec.Json(TurnEvent, "turn event")
RUN_EVENT = codec.Json(RunEvent, "run event")


@given(JSON)
@example({"~": ["\ud800", math.inf]})
def test_every_json_value_comes_back_identical(value):
    assert codec.decode_json(codec.encode_json(value)) == value


@given(JSON)
def test_what_is_stored_is_json_anybody_can_read(value):
    encoded = codec.encode_json(value)
    read = json.loads(encoded.decode())
    assert read == value or codec.is_marked(encoded)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (["a", "\ud800"], ' ["a","~text:\\\\ud800"]'),
        (["~a", math.nan], ' ["~text:~a","~number:nan"]'),
        (["~a"], '["~a"]'),
        ({"\udfff\\": -math.inf}, ' {"~text:\\\\udfff\\\\\\\\":"~number:-inf"}'),
    ],
)
def test_what_json_cannot_hold_is_marked(value, stored):
    assert codec.encode_json(value).decode() == stored
    assert repr(codec.decode_json(stored)) == repr(value)
    assert repr(codec.decode_json(stored.encode())) == repr(value)


def test_events_are_stored_under_their_name_and_without_what_is_as_always():
    stored = codec.encode_json(PromptSent(prompt_seq=1))
    assert stored == b'{"type":"prompt_sent","prompt_seq":1}'
    assert TURN_EVENT.decode(stored) == PromptSent(prompt_seq=1)


def test_an_event_is_known_by_the_word_it_is_stored_under():
    assert kind_of(TurnEnded(outcome=Outcome.OK)) == "turn_ended"


def test_text_is_utf_8_with_halves_of_characters():
    assert codec.encode_text("ü\ud83d") == b"\xc3\xbc\xed\xa0\xbd"


def test_not_a_number_comes_back_as_such():
    event = TurnEnded(outcome=Outcome.OK, report={"score": [math.nan, math.inf]})
    report = TURN_EVENT.decode(codec.encode_json(event)).report
    assert math.isnan(report["score"][0])
    assert report["score"][1] == math.inf


class Measured(Struct):
    plain: str | None = None
    ratio: float | None = None
    points: tuple[float, ...] = ()
    anything: JsonValue = None
    inner: Any = None


@pytest.mark.parametrize(
    "value",
    [
        Measured(ratio=math.nan),
        Measured(points=(0.5, math.nan)),
        Measured(anything={"a": [math.nan]}),
        Measured(inner=Measured(ratio=math.nan)),
    ],
)
def test_not_a_number_is_found_wherever_a_type_has_place_for_it(value):
    assert b"~number:nan" in codec.encode_json(value)


def test_an_integer_of_more_than_64_bits_is_stored_and_hides_no_number_that_is_none():
    stored = codec.decode_json(codec.encode_json({"large": 2**70, "score": math.nan}))
    assert stored["large"] == 2**70
    assert math.isnan(stored["score"])
    assert codec.encode_json(2**70) == str(2**70).encode()


def test_frozen_values_are_stored_as_what_they_hold():
    frozen = MappingProxyType({"a": (1, MappingProxyType({"b": range(2)}))})
    assert codec.decode_json(codec.encode_json(frozen)) == {"a": [1, {"b": [0, 1]}]}
    surrogate = MappingProxyType({"\ud800": (math.nan, None, math.inf)})
    assert list(codec.decode_json(codec.encode_json(surrogate))) == ["\ud800"]


def test_a_value_that_is_not_json_is_refused():
    with pytest.raises(UsageError, match="object cannot be stored"):
        codec.encode_json({"a": object()})


def test_a_value_nested_too_deeply_is_refused_in_words():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UsageError, match="nested too deeply"):
        codec.encode_json(deep)


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        (b'{"type":"prompt_sent","prompt_seq":"x"}', r"\$\.prompt_seq"),
        (b'{"type":"hologram_shown"}', "hologram_shown"),
        (b'{"type":"prompt_sent","prompt', "damaged"),
        (b"\xff", "damaged"),
        (7, "damaged"),
        (b' {"type":"prompt_sent","prompt_seq":"~number:nine"}', "damaged"),
    ],
)
def test_damaged_json_is_an_error_that_says_where(stored, says):
    with pytest.raises(StoreError, match=says):
        TURN_EVENT.decode(stored)


def test_a_field_of_a_later_version_is_passed_over():
    stored = b'{"type":"run_ended","status":"approved","later":true}'
    assert RUN_EVENT.decode(stored).status == "approved"


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | TEXT, max_size=8).map(tuple))
def test_plain_values_have_one_form_whichever_way_they_are_written(values):
    assert codec.encode_plain_json(values) == codec.encode_json(values)


def test_the_json_of_others_may_hold_halves_of_characters():
    assert read_json(b'["\\ud800", NaN]')[0] == "\ud800"  # type: ignore[index]
    with pytest.raises(StoreError, match="no JSON"):
        read_json(b"{")


@pytest.mark.parametrize(
    ("value", "back", "is_same"),
    [
        ({"a": (1, [math.nan])}, {"a": [1, [math.nan]]}, True),
        ({1: "a"}, {"1": "a"}, False),
        ([1, 2], [1], False),
        ({"a": b"x"}, {"a": "x"}, False),
        ([Decimal(1)], ["1"], True),
    ],
)
def test_a_value_comes_back_where_all_in_it_is_equal_or_may_be_text(value, back, is_same):
    assert codec.comes_back(value, back, but=(Decimal,)) is is_same


@pytest.mark.parametrize(("levels", "is_deeper"), [(2, False), (3, True)])
def test_lists_and_objects_count_as_levels_of_a_value(levels, is_deeper):
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    assert codec.is_nested_deeper(value, 2) is is_deeper
