"""`dataclass`, `field` and `replace` of the standard library, their code made at first use.

A frozen dataclass with slots compiles six functions while its module is loaded: half a
millisecond, and a verb loads seventy classes and makes values of twenty. Here a class has its slots
at once, its `__init__` when the first value is made, and the rest (how values compare, hash, are
shown and pickled) when that is first asked for, from `dataclasses` itself. Nobody can tell but by
the clock, and by a fault in the class (a default before a field without), which is found as late.

The `__init__` fills the slots of a frozen class. The standard library's names each field to
`object.__setattr__`, which takes as long as reading the row that a value is made from; of a
conversation of 10,000 messages, some 25,000 values are made. Who makes them by position has
`maker`, which is quicker again. What is passed is not checked by either, as it is not there.

For classes with slots that stand alone and check nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

Value = TypeVar("Value")

_NAMES: Final = "__lazy_names__"
_OF_NO_SLOTS: Final = frozenset({"__dict__", "__weakref__"})


class _Default:
    """What `field` was given, until `dataclasses` is asked for one of its own."""

    # No named tuple: of those each compiles code, too.
    __slots__ = ("options",)

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options


def _dataclass(**options: bool) -> Callable[[type[Any]], type[Any]]:
    return lambda cls: _Written(cls, options).with_slots()


class _Written:
    """A class as it was written, and what is made of it when."""

    def __init__(self, cls: type[Any], options: Mapping[str, bool]) -> None:
        self._cls, self._options = cls, options
        self._members = {name: each for name, each in vars(cls).items() if name not in _OF_NO_SLOTS}
        # Asked of the class, not found in it: Python 3.14 makes them when they are.
        self._members["__annotations__"] = cls.__annotations__
        self._names = tuple(cls.__annotations__)
        self._defaults = {name: vars(cls)[name] for name in self._names if name in vars(cls)}

    def with_slots(self) -> type[Any]:
        """Return the class that will do, the members in wait that dataclasses would compile."""
        members = {name: each for name, each in self._members.items() if name not in self._defaults}
        members |= {_NAMES: self._names, "__slots__": self._names}
        members["__match_args__"] = () if self._options.get("kw_only") else self._names
        members["__init__"] = _Later("__init__", self._init)
        members |= {name: _Later(name, self._rest) for name in self._names_of_the_rest()}
        made = type(self._cls.__name__, (), members)
        made.__qualname__ = self._cls.__qualname__
        return made

    def _init(self, made: type[Any]) -> Mapping[str, Any]:
        """Make the function that fills the slots."""
        scope: dict[str, Any] = {"no_value": object()}
        takes = ["self", *["*"] * bool(self._names and self._options.get("kw_only"))]
        fills: list[str] = []
        for name in self._names:
            scope[f"set_{name}"] = getattr(made, name).__set__
            options, given = self._options_of(name), name
            if "default_factory" in options:
                scope[f"make_{name}"] = options["default_factory"]
                given = f"make_{name}() if {name} is no_value else {name}"
                takes.append(f"{name}=no_value")
            elif "default" in options:
                scope[f"default_{name}"] = options["default"]
                takes.append(f"{name}=default_{name}")
            else:
                takes.append(name)
            fills.append(f"set_{name}(self, {given})")
        init = _compiled(f"def __init__({', '.join(takes)})", fills, scope, made)
        init.__annotations__ = {**made.__annotations__, "return": None}
        init.__qualname__ = f"{made.__qualname__}.__init__"
        return {"__init__": init}

    def _rest(self, made: type[Any]) -> Mapping[str, Any]:
        """Have the standard library make what is seldom asked for."""
        import dataclasses  # noqa: PLC0415  # with `inspect`, a tenth of what a verb loads

        fields = {
            name: dataclasses.field(**each.options)
            for name, each in self._defaults.items()
            if isinstance(each, _Default)
        }
        whole = type(made.__name__, (), {**self._members, **fields})
        members = vars(dataclasses.dataclass(**self._options)(whole))
        return {name: members[name] for name in self._names_of_the_rest()}

    def _names_of_the_rest(self) -> list[str]:
        names = ["__dataclass_fields__", "__dataclass_params__", "__repr__", "__eq__", "__hash__"]
        if self._options.get("frozen"):
            names += ["__setattr__", "__delattr__", "__getstate__", "__setstate__"]
        if self._options.get("order"):
            names += ["__lt__", "__le__", "__gt__", "__ge__"]
        return [name for name in names if name not in self._members]

    def _options_of(self, name: str) -> Mapping[str, Any]:
        if name not in self._defaults:
            return {}
        default = self._defaults[name]
        return default.options if isinstance(default, _Default) else {"default": default}


class _Later:
    """A member that is made once it is asked for, and stands in this one's place from then on."""

    # No __set_name__: Python 3.11 makes a bug's error of a Ctrl-C in one.
    def __init__(self, name: str, make: Callable[[type[Any]], Mapping[str, Any]]) -> None:
        self._name, self._make = name, make

    def __get__(self, value: object, owner: type[Any]) -> Any:
        # Two threads may both come here: they make the same, and either's may stand.
        for name, member in self._make(owner).items():
            setattr(owner, name, member)
        return getattr(owner if value is None else value, self._name)


def maker(cls: type[Value]) -> Callable[..., Value]:
    """Return a function that takes all fields of a lazy dataclass, by position."""
    names = field_names(cls)
    scope: dict[str, Any] = {f"set_{name}": getattr(cls, name).__set__ for name in names}
    scope |= {"new": object.__new__, "cls": cls}
    fills = [f"set_{name}(value, {name})" for name in names]
    make: Callable[..., Value] = _compiled(
        f"def make({', '.join(names)})", ["value = new(cls)", *fills, "return value"], scope, cls
    )
    return make


def _compiled(head: str, body: list[str], scope: Mapping[str, Any], cls: type[Any]) -> Any:
    """Return a function of the class's module, where its annotations are understood."""
    lines = [f"def in_scope({', '.join(scope)}):", f"    {head}:"]
    lines += [f"        {line}" for line in body or ["pass"]]
    lines.append(f"    return {head.removeprefix('def ').partition('(')[0]}")
    made: dict[str, Any] = {}
    exec("\n".join(lines), vars(sys.modules[cls.__module__]), made)  # noqa: S102  # field names only
    return made["in_scope"](**scope)


def field_names(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of a lazy dataclass's fields or a Struct's, in order."""
    names: tuple[str, ...] = getattr(cls, "__struct_fields__", None) or getattr(cls, _NAMES)
    return names


def is_dataclass(value: object) -> bool:
    """Whether it is a value of a lazy dataclass, or a Struct."""
    return hasattr(type(value), _NAMES) or hasattr(type(value), "__struct_fields__")


def asdict(value: object) -> dict[str, Any]:
    """Return a value's fields by name, and those of values in it; nothing else is copied."""
    return {name: _plain(getattr(value, name)) for name in field_names(type(value))}


def _plain(value: object) -> Any:
    if is_dataclass(value):
        return asdict(value)
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        return {key: _plain(each) for key, each in members.items()}
    if isinstance(value, list):
        return list(map(_plain, cast("list[object]", value)))
    if isinstance(value, tuple):
        parts = list(map(_plain, cast("tuple[object, ...]", value)))
        make = getattr(cast("Any", value), "_make", tuple)  # a named one's own
        return make(parts)
    return value


def replace(value: Value, /, **changes: Any) -> Value:
    """Return the value with some fields changed."""
    names = field_names(type(value))
    kept = {name: getattr(value, name) for name in names if name not in changes}
    return type(value)(**kept, **changes)


def _field(**options: Any) -> Any:
    return _Default(options)


if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:
    dataclass, field = _dataclass, _field

__all__ = ["asdict", "dataclass", "field", "field_names", "is_dataclass", "maker", "replace"]
