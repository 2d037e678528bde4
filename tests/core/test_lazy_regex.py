"""An expression that is compiled at first use, and every one there is."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pkgutil import walk_packages

import upthread.core
from upthread.core import lazy_regex
from upthread.core.lazy_regex import regex


def test_it_is_compiled_when_it_is_used_and_once_and_then_does_what_the_compiled_one_does(
    monkeypatch,
):
    asked: list[str] = []
    compile_at_once = re.compile
    monkeypatch.setattr(
        lazy_regex.re, "compile", lambda *args: (asked.append(args[0]), compile_at_once(*args))[1]
    )
    late = regex(r"é|(a+)", re.ASCII)
    assert asked == []
    assert [bool(late.search(text)) for text in ("a", "b", "aa")] == [True, False, True]
    assert asked == [r"é|(a+)"]
    assert (late.sub(r"\1", "éaa"), late.flags, late.groups) == ("aa", re.ASCII, 1)


def test_every_expression_of_the_core_can_be_compiled():
    for each in walk_packages(upthread.core.__path__, f"{upthread.core.__name__}."):
        import_module(each.name)
    late = [
        each
        for name, module in sys.modules.items()
        if name.startswith("upthread.core.")
        for each in vars(module).values()
        if type(each) is lazy_regex._Later
    ]
    assert len(late) > 50
    for each in late:
        assert each.pattern == each._expression
