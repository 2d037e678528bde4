"""The stored form of parts and events: every value comes back, and damage is said."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from upthread.core import codec, events
from upthread.core.actors import Actor, ActorKind
from upthread.core.events import (
    AgentsCall,
    PromptSent,
    Question,
    RunEnded,
    RunStarted,
    TurnEnded,
    Usage,
)
from upthread.core.types import (
    ContextPart,
    ConversationId,
    ErasedPart,
    FilePart,
    JsonValue,
    Outcome,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from upthread.errors import StoreError, UsageError

# Any string Python can hold: NUL, lone surrogates, and pairs of them that are not one character.
TEXT = st.text(st.characters(exclude_categories=()), max_size=20) | st.sampled_from(
    ["\ud83d\ude00", "a\0b", "\udfff\ud800"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
MAYBE = st.none() | TEXT
PARTS = st.one_of(
    st.builds(TextPart, text=TEXT),
    st.builds(ContextPart, text=TEXT),
    st.builds(ReasoningPart, text=TEXT),
    st.builds(
        ToolCallPart,
        call_id=TEXT,
        title=TEXT,
        tool_kind=TEXT,
        arguments=JSON,
        locations=st.lists(TEXT, max_size=3).map(tuple),
    ),
    st.builds(ToolResultPart, call_id=TEXT, status=TEXT, text=TEXT, child_conversation_id=MAYBE),
    st.builds(FilePart, uri=TEXT, mime_type=TEXT),
    st.builds(UnknownPart, kind=TEXT, raw=JSON),
    st.builds(ErasedPart, kind=TEXT, call_id=MAYBE),
)


COUNT = st.none() | st.integers()
COUNTED = ("read", "written", "cached", "cache_written", "first_read", "first_cached")
USAGES = st.builds(Usage, requests=st.integers(), **dict.fromkeys(COUNTED, COUNT))
ACTORS = st.builds(Actor, kind=st.sampled_from(get_args(ActorKind)), name=TEXT)


def hints_of(cls) -> dict[str, str]:
    """The fields of an event and what each may be, as its source writes it; the base's too."""
    written = {}
    for each in reversed(cls.__mro__):
        written |= inspect.get_annotations(each)
    return {name: written[name] for name in cls.__struct_fields__}


def _events_of(alphabet):
    """A strategy for every event of an alphabet, from its fields' types."""
    shapes = {
        "str": TEXT,
        "str | None": MAYBE,
        "UpstreamSessionId": TEXT,
        "UpstreamSessionId | None": MAYBE,
        "int": st.integers(),
        "int | None": COUNT,
        "bool": st.booleans(),
        "JsonValue": JSON,
        "Outcome": st.sampled_from(Outcome),
        "Actor": ACTORS,
        "Actor | None": st.none() | ACTORS,
        "AgentsCall | None": st.none()
        | st.builds(AgentsCall, agent=TEXT, main_session=TEXT, call_id=TEXT, because=TEXT),
        "Usage | None": st.none() | USAGES,
        "tuple[str, ...]": st.lists(TEXT, max_size=3).map(tuple),
        "Mapping[str, str]": st.dictionaries(TEXT, TEXT, max_size=2),
        "Mapping[str, tuple[str, ...]]": st.dictionaries(
            TEXT, st.lists(TEXT, max_size=2).map(tuple), max_size=2
        ),
        "tuple[Question, ...]": st.lists(
            st.builds(Question, question_id=TEXT, role=TEXT, text=TEXT), max_size=2
        ).map(tuple),
    }
    return st.one_of(
        [
            st.builds(cls, **{name: shapes[hint] for name, hint in hints_of(cls).items()})
            for cls in get_args(alphabet)
        ]
    )


OF_A_CHILD = ToolResultPart(
    call_id="c", status="completed", text="", child_conversation_id=ConversationId("con")
)


@given(PARTS)
@example(OF_A_CHILD)
def test_every_part_comes_back_identical(part):
    stored = codec.encode_part(part)
    assert codec.decode_part(*stored) == part
    assert codec.encode_part(codec.decode_part(*stored)) == stored


@given(_events_of(events.TurnEvent))
def test_every_turn_event_comes_back_identical(event):
    kind, payload = codec.encode_event(event)
    assert codec.decode_turn_event(kind, payload) == event


@given(_events_of(events.RunEvent))
def test_every_run_event_comes_back_identical(event):
    kind, payload = codec.encode_event(event)
    assert codec.decode_run_event(kind, payload) == event


@given(JSON)
def test_every_json_value_comes_back_identical(value):
    assert codec.decode_json(codec.encode_json(value)) == value


@given(TEXT)
def test_text_is_kept_byte_for_byte(text):
    assert codec.decode_text(codec.encode_text(text)) == text


@given(JSON)
def test_valid_values_are_stored_as_json_anybody_can_read(value):
    encoded = codec.encode_json(value)
    try:
        encoded.decode()
    except UnicodeDecodeError:
        return  # a lone surrogate is not Unicode: nobody else can read it
    assert json.loads(encoded) == value


def test_events_are_stored_under_their_name():
    kind, payload = codec.encode_event(PromptSent(prompt_seq=1))
    assert kind == "prompt_sent"
    assert payload.startswith(b'{"prompt_seq":1,')


def test_not_a_number_comes_back_as_such():
    event = TurnEnded(outcome=Outcome.OK, report={"score": [math.nan, math.inf]})
    kind, payload = codec.encode_event(event)
    report = codec.decode_turn_event(kind, payload).report
    assert math.isnan(report["score"][0])
    assert report["score"][1] == math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    plain: str | None = None
    names: tuple[ConversationId, ...] = ()
    count: int = 0
    ratio: float | None = None
    points: tuple[float, ...] = ()
    anything: JsonValue = None
    inner: Measured | None = None


NUMBERLESS = {
    "a number that may be missing": Measured(ratio=math.nan),
    "one of several": Measured(points=(0.5, math.nan)),
    "within JSON": Measured(anything={"a": [math.nan]}),
    "within another value": Measured(inner=Measured(ratio=math.nan)),
}


@pytest.mark.parametrize("value", NUMBERLESS.values(), ids=NUMBERLESS)
def test_not_a_number_is_found_wherever_a_type_has_place_for_it(value):
    assert b"NaN" in codec.encode_json(value)


def test_an_integer_of_more_than_64_bits_is_stored_and_hides_no_number_that_is_none():
    told = {"large": 2**70, "score": math.nan}
    stored = codec.decode_json(codec.encode_json(told))
    assert stored["large"] == 2**70
    assert math.isnan(stored["score"])
    assert codec.encode_json(2**70) == str(2**70).encode()


def test_words_with_a_type_of_their_own_are_words_beside_a_null_too():
    told = codec.encode_json({"outcome": Outcome.OK, "detail": None})
    assert told == b'{"outcome":"ok","detail":null}'


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


def test_a_part_of_a_later_version_is_unknown_and_kept():
    for content, raw in ((b'{"x":1}', {"x": 1}), (b"not json", "not json")):
        unknown = UnknownPart(kind="hologram", raw=raw)
        assert codec.decode_part("hologram", None, content) == unknown


def test_an_unknown_part_never_comes_back_as_a_known_one():
    part = UnknownPart(kind="text", raw={"text": "spoofed"})
    assert codec.decode_part(*codec.encode_part(part)) == part


def test_no_content_is_an_erased_part():
    assert codec.decode_part("tool_call", "c", None) == ErasedPart(kind="tool_call", call_id="c")


@pytest.mark.parametrize("decode", [codec.decode_turn_event, codec.decode_run_event])
def test_an_event_of_a_later_version_is_an_error_with_the_cure(decode):
    with pytest.raises(StoreError, match=r"'hologram_shown'.*upgrade"):
        decode("hologram_shown", b"{}")


@pytest.mark.parametrize(
    ("kind", "call_id", "content", "message"),
    [
        ("tool_call", "c", b'{"title":3}', r"\$\.title"),
        ("tool_call", "c", b'{"title":"\xed\xa0\x80","tool_kind":3}', r"\$\.tool_kind"),
        ("tool_result", "c", b'{"status":"ok"}', "no text"),
        ("tool_result", "c", b'{"status":3}\ntext', r"\$\.status"),
        ("tool_result", "c", b'{"status":"ok"}\n\xff', "damaged"),
        ("tool_result", "c", b'{"status":"ok","te', "damaged"),
        ("tool_call", None, b'{"title":"t","tool_kind":"x"}', "no call id"),
        ("text", None, b"\xff", "damaged"),
        ("file", None, b"\xff", "damaged"),
    ],
)
def test_damaged_content_is_an_error_that_says_where(kind, call_id, content, message):
    with pytest.raises(StoreError, match=message):
        codec.decode_part(kind, call_id, content)


@pytest.mark.parametrize("text", ["", "\n", "a\nb\n", "\r\n", "\ud800\nx", '{"status":"failed"}\n'])
def test_a_result_keeps_every_line_of_its_text(text):
    part = ToolResultPart(call_id="c", status="com\npleted \ud800", text=text)
    assert codec.decode_part(*codec.encode_part(part)) == part


def test_a_field_of_a_later_version_is_passed_over():
    content = b'{"status":"completed","later":true}\ntext'
    part = ToolResultPart(call_id="c", status="completed", text="text")
    assert codec.decode_part("tool_result", "c", content) == part
    payload = b'{"prompt_seq":1,"later":true}'
    sent = PromptSent(prompt_seq=1)
    assert codec.decode_turn_event("prompt_sent", payload) == sent


def test_a_field_that_an_earlier_version_did_not_write_has_its_default():
    ended = codec.decode_run_event("run_ended", b'{"status":"approved"}')
    assert ended == RunEnded(status="approved")
    started = codec.decode_run_event("run_started", b'{"specification":"s","pipeline":[]}')
    assert started == RunStarted(specification="s", pipeline=[])


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | TEXT, max_size=8).map(tuple))
def test_plain_values_have_one_form_whichever_way_they_are_written(
    values: tuple[str | int | None, ...],
):
    assert codec.encode_plain_json(values) == codec.encode_json(values)


def test_what_is_no_bytes_is_damaged_text():
    with pytest.raises(StoreError, match="it is not bytes"):
        codec.decode_text("made a text by another program, or one bit")  # type: ignore[arg-type]
