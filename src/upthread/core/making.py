"""Frozen values made from stored columns, in the order of their fields.

A frozen dataclass sets each field by name through `object.__setattr__`, which takes as long as
reading the row it is made from. Those who read thousands of rows fill the slots instead. The value
is the same as the class itself would make; what is passed is not checked, as it is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

Value = TypeVar("Value")


def maker(cls: type[Value]) -> Callable[..., Value]:
    """Return a function that takes all fields of a frozen dataclass with slots, by position."""
    assert not hasattr(cls, "__post_init__"), f"{cls.__name__} must be made by its own class"
    names = [each.name for each in fields(cls)]  # type: ignore[arg-type]  # any dataclass
    scope: dict[str, Any] = {f"set_{name}": getattr(cls, name).__set__ for name in names}
    scope |= {"new": object.__new__, "cls": cls}
    lines = [
        f"def make({', '.join(names)}):",
        "    value = new(cls)",
        *(f"    set_{name}(value, {name})" for name in names),
        "    return value",
    ]
    exec("\n".join(lines), scope)  # noqa: S102  # as dataclasses makes __init__: field names only
    make: Callable[..., Value] = scope["make"]
    return make
