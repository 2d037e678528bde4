"""Values made from columns are those their classes would make."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields

import pytest

from upthread.core.making import maker
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
