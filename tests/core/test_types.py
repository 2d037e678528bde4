"""Values made from columns are those their classes would make."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields, replace
from inspect import signature

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core import types
from upthread.core.types import (
    ContextPart,
    Conversation,
    ConversationId,
    ConversationKey,
    Durability,
    Holder,
    Lease,
    Link,
    Message,
    Outcome,
    ProjectId,
    ReasoningPart,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
    maker,
    quickly_made,
)


@pytest.mark.parametrize(
    "cls", [Conversation, Lease, Link, Message, TextPart, ToolCallPart, ToolResultPart]
)
def test_a_made_value_is_the_one_its_class_would_make(cls):
    columns = {each.name: f"the {each.name}" for each in fields(cls)}
    made = maker(cls)(*columns.values())
    assert made == cls(**columns)
    assert hash(made) == hash(cls(**columns))
    assert repr(made) == repr(cls(**columns))


def test_a_made_value_stays_frozen():
    made = maker(TextPart)("said")
    with pytest.raises(FrozenInstanceError):
        made.text = "something else"


def test_all_fields_must_be_given():
    with pytest.raises(TypeError, match="arguments"):
        maker(ToolResultPart)("call_1", "completed")


def test_a_class_that_checks_what_it_is_made_of_is_not_made_without_it():
    @dataclass(frozen=True, slots=True)
    class Checked:
        number: int

        def __post_init__(self) -> None:
            assert self.number > 0

    with pytest.raises(AssertionError, match="Checked"):
        maker(Checked)


@pytest.mark.parametrize("cls", [Link, Message, TextPart, ToolCallPart])
def test_a_class_that_makes_quickly_is_a_frozen_dataclass_like_any_other(cls):
    given = {each.name: f"the {each.name}" for each in fields(cls) if each.default is MISSING}
    value = cls(**given)
    as_given = {each.name: given.get(each.name, each.default) for each in fields(cls)}
    assert {name: getattr(value, name) for name in as_given} == as_given
    assert cls(**as_given) == value
    assert replace(value, **{fields(cls)[0].name: "another"}) != value
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(cls)[0].name, "something else")
    with pytest.raises(TypeError, match="positional"):
        cls(*as_given.values())
    with pytest.raises(TypeError, match="unexpected keyword"):
        cls(**given, nobody="knows")
    assert list(signature(cls).parameters) == list(as_given)


def test_a_default_that_has_to_be_made_is_not_forgotten():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Listed:
        names: tuple[str, ...] = field(default_factory=tuple)

    with pytest.raises(AssertionError, match="names"):
        quickly_made(Listed)


# --- core/types -----------------------------------------------------------------------------------


def message(*parts: types.Part) -> Message:
    return Message(
        conversation_id=ConversationId("con"),
        seq=1,
        speaker=Speaker.USER,
        turn_id=TurnId("trn"),
        upstream_session_id=None,
        recorded_at_ms=0,
        parts=parts,
    )


def test_a_messages_text_is_what_was_said_and_nothing_else():
    parts = (
        ContextPart(text="context"),
        TextPart(text="one "),
        ReasoningPart(text="thought"),
        TextPart(text="two"),
        UnknownPart(kind="plan", raw=[]),
    )
    assert message(*parts).text == "one two"


def test_the_context_was_sent_before_the_text_wherever_it_is_recorded():
    said, context = TextPart(text="do it"), ContextPart(text="who you are")
    assert message(said, context).sent_text == "who you are\n\ndo it"
    assert message(said).sent_text == "do it"
    assert message(context).sent_text == "who you are"
    assert message().sent_text == ""


def test_an_outcome_has_one_word_everywhere():
    words = """ok missing expired busy rate_limited credit_exhausted context_full auth corrupted
    process_died poisoned timed_out cancelled workspace_changed transient unknown""".split()
    assert [outcome.value for outcome in Outcome] == words


def test_synced_is_the_more_durable():
    assert max(Durability) is Durability.SYNCED


def test_a_holder_is_told_in_words():
    holder = Holder(host="build-3", boot_id="b", pid=4711, started_at_ticks=1)
    assert holder.in_words() == "pid 4711 on build-3"
    doing = dataclasses.replace(holder, doing="run spec-42")
    assert doing.in_words() == "pid 4711 on build-3 (run spec-42)"


def test_only_siblings_show_their_slot():
    key = ConversationKey(project_id=ProjectId("prj"), workstream="s", role="r")
    assert key.address == "s/r"
    assert dataclasses.replace(key, slot=3).address == "s/r~3"


VALUES = [
    found
    for found in vars(types).values()
    if isinstance(found, type) and dataclasses.is_dataclass(found)
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__name__)
def test_every_value_is_frozen(value: type):
    assert value.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert hasattr(value, "__slots__")


@given(st.lists(st.text()))
def test_texts_are_joined_without_anything_between(texts: list[str]):
    assert message(*(TextPart(text=text) for text in texts)).text == "".join(texts)
