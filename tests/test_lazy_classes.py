"""Every class of ours whose code is made at its first use, and every expression, is used once."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest

import upthread
from upthread.core import lazy_regex
from upthread.core.lazy_dataclass import field_names

APART = ("upthread.integrations.", "upthread.__main__", "upthread.surfaces.hook.__main__")
"""What needs a framework that is not here, and programs."""


def lazy_classes() -> list[type[Any]]:
    names = [
        each.name
        for each in walk_packages(upthread.__path__, "upthread.")
        if not each.name.startswith(APART) and not each.name.endswith("__main__")
    ]
    return [
        each
        for name in names
        for each in vars(import_module(name)).values()
        if isinstance(each, type) and each.__module__ == name and "__lazy_names__" in vars(each)
    ]


@pytest.mark.parametrize("cls", lazy_classes(), ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_a_value_of_it_can_be_made_and_compared_and_shown(cls):
    assert tuple(each.name for each in fields(cls)) == field_names(cls)
    needed = [
        each for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING
    ]
    given = {each.name: f"the {each.name}" for each in needed}
    value, same = cls(**given), cls(**given)
    assert {name: getattr(value, name) for name in given} == given
    assert repr(value).startswith(f"{cls.__qualname__}(")
    assert value != object()
    assert isinstance(value == same, bool)


def test_each_expression_can_be_compiled():
    lazy_classes()
    late = [
        each
        for name, module in sys.modules.items()
        if name.startswith("upthread.")
        for each in vars(module).values()
        if type(each) is lazy_regex._Later
    ]
    assert len(late) > 100
    for each in late:
        assert each.pattern == each._expression
