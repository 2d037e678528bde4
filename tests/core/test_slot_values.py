"""Values made from columns are those their classes would make."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields, replace
from inspect import signature

import pytest

from upthread.core.slot_values import maker, quickly_made
from upthread.core.types import (
    Conversation,
    Lease,
    Link,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
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
