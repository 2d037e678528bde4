"""A lazy dataclass is the standard library's in all that one can ask of it."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from dataclasses import MISSING, FrozenInstanceError, fields
from importlib import import_module
from inspect import signature
from pkgutil import walk_packages
from typing import Any

import pytest

import upthread.core
from upthread.core.lazy_dataclass import (
    asdict,
    dataclass,
    field,
    field_names,
    is_dataclass,
    maker,
    replace,
)
from upthread.core.types import (
    Conversation,
    Lease,
    Link,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)


def both(**options: bool) -> list[type[Any]]:
    """Return one class, made by the standard library and by ours."""
    made = []
    for by, with_options in ((dataclasses.dataclass, dataclasses.field), (dataclass, field)):

        @by(slots=True, **options)  # type: ignore[call-overload, untyped-decorator]
        class Place:
            """Where something is."""

            name: str
            row: int = 7
            seen: list[int] = with_options(default_factory=list)
            doing: str = with_options(default="", compare=False)

            @property
            def shown(self) -> str:
                return f"{self.name}:{self.row}"

        made.append(Place)
    return made


def every_class_of_the_core() -> list[type[Any]]:
    modules = [
        import_module(each.name)
        for each in walk_packages(upthread.core.__path__, f"{upthread.core.__name__}.")
    ]
    return [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__
        if "__lazy_names__" in vars(each)
    ]


FROZEN = {"frozen": True, "kw_only": True}


@pytest.mark.parametrize(
    "options", [FROZEN, {"frozen": True}, {"kw_only": True}, {}, {**FROZEN, "order": True}]
)
def test_what_one_asks_of_it_is_answered_as_the_standard_library_does(options):
    theirs, ours = both(**options)
    for one, other in (
        ({"name": "a"}, {"name": "b", "row": 1}),
        ({"name": "a", "doing": "x"},) * 2,
    ):
        values = [(cls(**one), cls(**other)) for cls in (theirs, ours)]
        assert len({(a == b, a != b, a == 1, repr(a), a.shown) for a, b in values}) == 1
        assert len({repr(dataclasses.asdict(a)) for a, _ in values}) == 1
        assert repr(asdict(values[1][0])) == repr(dataclasses.asdict(values[0][0]))
        assert repr(replace(values[1][0], row=9)) == repr(dataclasses.replace(values[1][0], row=9))
        if options.get("order"):
            first, second = ((a.name, a.row) < (b.name, b.row) for a, b in values)
            assert first == second
    assert list(signature(ours).parameters) == list(signature(theirs).parameters)
    assert [each.kind for each in signature(ours).parameters.values()] == [
        each.kind for each in signature(theirs).parameters.values()
    ]
    assert ours.__match_args__ == theirs.__match_args__  # type: ignore[attr-defined]
    assert (ours.__doc__, ours.__qualname__) == (theirs.__doc__, theirs.__qualname__)
    assert repr(fields(ours)) == repr(fields(theirs))
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)  # type: ignore[attr-defined]
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)


@pytest.mark.parametrize("options", [FROZEN, {"frozen": True}, {}])
def test_a_class_without_fields_has_a_value_like_any_other(options):
    @dataclass(slots=True, **options)
    class Nothing:
        """Says no more than that it is there."""

    assert Nothing() == Nothing()
    assert repr(Nothing()).endswith("Nothing()")
    assert asdict(Nothing()) == {}
    assert signature(Nothing).parameters == {}


def test_a_list_that_a_value_is_given_is_its_own():
    _, ours = both()
    assert ours("a").seen is not ours("a").seen


@pytest.mark.parametrize("first", [lambda cls: cls("a"), fields, repr])
def test_it_is_frozen_whatever_was_asked_of_it_first(first):
    _, ours = both(frozen=True)
    first(ours if first is not repr else ours("a"))
    value = ours("a")
    for name in ("name", "row"):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, "b")
        with pytest.raises(FrozenInstanceError):
            delattr(value, name)


def test_what_is_missing_or_unknown_or_by_position_is_said_in_the_same_words():
    theirs, ours = both(**FROZEN)
    for arguments, named in (((), {}), ((), {"name": "a", "colour": 1}), (("a",), {})):
        said = []
        for cls in (theirs, ours):
            with pytest.raises(TypeError) as error:
                cls(*arguments, **named)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_a_value_travels_to_a_process_that_has_made_none():
    value = Link(**{name: f"the {name}" for name in field_names(Link)})  # type: ignore[arg-type]
    code = "import pickle, sys; print(repr(pickle.load(sys.stdin.buffer)))"
    told = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(value), capture_output=True, check=True
    )
    assert told.stdout.decode().strip() == repr(value)
    assert copy.deepcopy(value) == copy.copy(value) == value
    assert {value: 1}[copy.copy(value)] == 1


@pytest.mark.parametrize("cls", every_class_of_the_core(), ids=lambda cls: cls.__qualname__)
def test_each_class_of_the_core_is_whole_once_it_is_used(cls):
    assert tuple(each.name for each in fields(cls)) == field_names(cls)
    given = {
        each.name: f"the {each.name}"
        for each in fields(cls)
        if each.default is MISSING and each.default_factory is MISSING
    }
    value = cls(**given)
    assert {name: getattr(value, name) for name in given} == given
    assert value == copy.copy(value)
    assert is_dataclass(value)
    assert not is_dataclass(cls)


@pytest.mark.parametrize("options", [{}, {"slots": True}])
def test_a_class_that_needs_more_is_refused_at_once(options):
    class Base:
        pass

    with pytest.raises(TypeError, match="Derived"):

        @dataclass(**options)  # type: ignore[call-overload]
        class Derived(Base):
            number: int

    with pytest.raises(TypeError, match="Checked"):

        @dataclass(**options)  # type: ignore[call-overload]
        class Checked:
            number: int

            def __post_init__(self) -> None:
                assert self.number > 0


def test_a_default_that_may_change_is_refused_at_once():
    with pytest.raises(TypeError, match=r"Listed.*default_factory"):

        @dataclass(slots=True)
        class Listed:
            names: list[str] = []  # noqa: RUF012


# --- made by position ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cls", [Conversation, Lease, Link, Message, TextPart, ToolCallPart, ToolResultPart]
)
def test_a_value_made_by_position_is_the_one_its_class_would_make(cls):
    columns = {name: f"the {name}" for name in field_names(cls)}
    made = maker(cls)(*columns.values())
    assert made == cls(**columns)
    assert hash(made) == hash(cls(**columns))
    assert repr(made) == repr(cls(**columns))
    with pytest.raises(FrozenInstanceError):
        setattr(made, field_names(cls)[0], "something else")


def test_all_fields_must_be_given():
    with pytest.raises(TypeError, match="arguments"):
        maker(ToolResultPart)("call_1", "completed")


def test_values_in_a_value_are_told_as_it_is():
    @dataclass(**FROZEN, slots=True)
    class Pair:
        left: object
        right: object = None

    inner = Pair(left=1)
    told = asdict(Pair(left=[inner, (inner,)], right={"of": inner, "to": "text"}))
    assert told == dataclasses.asdict(
        Pair(left=[inner, (inner,)], right={"of": inner, "to": "text"})
    )
