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
from upthread.core.lazy_dataclass import asdict, dataclass, field, field_names, maker, replace
from upthread.core.types import Link, ToolResultPart


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
            doing: object = with_options(default="", compare=False)

        made.append(Place)
    return made


FROZEN = {"frozen": True, "kw_only": True}


@pytest.mark.parametrize("options", [{"frozen": True}, {}, {**FROZEN, "order": True}])
def test_what_one_asks_of_it_is_answered_as_the_standard_library_does(options):
    theirs, ours = both(**options)
    for one, other in (
        ({"name": "a"}, {"name": "b", "row": 1}),
        ({"name": "a", "doing": "x"},) * 2,
    ):
        values = [(cls(**one), cls(**other)) for cls in (theirs, ours)]
        assert len({(a == b, a != b, a == 1, repr(a)) for a, b in values}) == 1
        assert repr(replace(values[1][0], row=9)) == repr(dataclasses.replace(values[1][0], row=9))
        if options.get("order"):
            first, second = ((a.name, a.row) < (b.name, b.row) for a, b in values)
            assert first == second
    taken = [
        [(p.name, p.kind) for p in signature(cls).parameters.values()] for cls in (ours, theirs)
    ]
    assert taken[0] == taken[1]
    assert ours.__match_args__ == theirs.__match_args__  # type: ignore[attr-defined]
    assert (ours.__doc__, ours.__qualname__) == (theirs.__doc__, theirs.__qualname__)
    assert repr(fields(ours)) == repr(fields(theirs))
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)  # type: ignore[attr-defined]
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)


def test_a_value_travels_to_a_process_that_has_made_none():
    value = Link(**{name: f"the {name}" for name in field_names(Link)})  # type: ignore[arg-type]
    code = "import pickle, sys; print(repr(pickle.load(sys.stdin.buffer)))"
    told = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(value), capture_output=True, check=True
    )
    assert told.stdout.decode().strip() == repr(value)
    assert {value: 1}[copy.deepcopy(value)] == 1


def test_each_class_of_the_core_is_whole_once_it_is_used():
    for module in walk_packages(upthread.core.__path__, f"{upthread.core.__name__}."):
        for cls in vars(import_module(module.name)).values():
            if not isinstance(cls, type) or "__lazy_names__" not in vars(cls):
                continue
            assert tuple(each.name for each in fields(cls)) == field_names(cls), cls
            needed = {
                each.name: f"the {each.name}"
                for each in fields(cls)
                if each.default is MISSING and each.default_factory is MISSING
            }
            assert needed.items() <= asdict(cls(**needed)).items(), cls


def test_a_value_made_by_position_is_the_one_its_class_would_make():
    columns = {name: f"the {name}" for name in field_names(ToolResultPart)}
    made = maker(ToolResultPart)(*columns.values())
    assert made == ToolResultPart(**columns)  # type: ignore[arg-type]
    with pytest.raises(FrozenInstanceError):
        made.text = "something else"
    with pytest.raises(TypeError, match="arguments"):
        maker(ToolResultPart)("call_1", "completed")


def test_values_in_a_value_are_told_as_it_is():
    _, cls = both(**FROZEN)
    ours = cls(name="a")
    for within in ([ours, (ours,)], {"of": ours, "to": "text"}):
        told = asdict(replace(ours, doing=within))
        assert told == dataclasses.asdict(replace(ours, doing=within))
