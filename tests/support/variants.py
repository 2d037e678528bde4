"""Values of a type as a framework may make them: with what it requires alone, and with one more."""

import dataclasses
import datetime as dt
import enum
import types
import typing
from collections.abc import Iterator
from typing import Any

import pydantic
import typing_extensions

WRAPPERS = {typing.Required, typing.NotRequired, typing.Annotated, typing_extensions.Required}
SCALARS = {str: "x", int: 1, float: 0.5, bool: True, bytes: b"\xff\0", Any: "x", object: "x"}
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def variants(kind: Any) -> Iterator[Any]:
    """Yield a value without its optional fields, then for each of these one that has it alone."""
    fields = _fields(kind)
    required = {name: minimal(each) for name, (each, is_needed) in fields.items() if is_needed}
    yield kind(**required)
    for name, (each, is_needed) in fields.items():
        if not is_needed:
            yield kind(**required, **{name: minimal(each)})


def members(kind: Any) -> list[Any]:
    """Return the classes of a union, whatever is written around them."""
    if hasattr(kind, "__metadata__"):
        return members(typing.get_args(kind)[0])
    found = [each for one in typing.get_args(kind) if one is not None for each in members(one)]
    return found if _is_union(kind) else [kind]


def minimal(kind: Any) -> Any:  # noqa: PLR0911  # one for each kind of type
    """Return a value of a type with as little in it as there may be."""
    origin, given = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, typing.TypeVar):
        return minimal(kind.__bound__ or str)
    if isinstance(kind, typing_extensions.TypeAliasType):
        return minimal(kind.__value__)
    if hasattr(kind, "__metadata__") or origin in WRAPPERS:
        return minimal(given[0])
    if _is_union(kind):
        return minimal(next(each for each in given if each is not types.NoneType))
    if origin is typing.Literal:
        return given[0]
    if kind in SCALARS:
        return SCALARS[kind]
    plain = origin or kind
    if plain is dt.datetime:
        return NOW
    if issubclass(plain, enum.Enum):
        return next(iter(plain))
    if _fields(plain):
        return next(variants(plain))
    if issubclass(plain, dict) or plain.__name__ in {"Mapping", "dict"}:
        return {minimal(given[0]): minimal(given[1])} if given else {}
    items = [minimal(given[0])] if given else []
    return plain(items) if plain in {list, set, tuple, frozenset} else items


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in {typing.Union, types.UnionType}


def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field of a class, and whether it has to be given."""
    plain = typing.get_origin(kind) or kind
    if isinstance(plain, type) and issubclass(plain, pydantic.BaseModel):
        return {
            name: (each.annotation, each.is_required()) for name, each in plain.model_fields.items()
        }
    if typing_extensions.is_typeddict(plain):
        hints = typing_extensions.get_type_hints(plain, include_extras=True)
        optional = {typing.NotRequired, typing_extensions.NotRequired}
        return {
            name: (
                each,
                typing.get_origin(each) in WRAPPERS - optional
                or (plain.__total__ and typing.get_origin(each) not in optional),
            )
            for name, each in hints.items()
        }
    if dataclasses.is_dataclass(plain):
        hints = typing.get_type_hints(plain, include_extras=True)
        nothing = dataclasses.MISSING
        return {
            each.name: (hints[each.name], each.default is nothing is each.default_factory)
            for each in dataclasses.fields(plain)
            if each.init
        }
    return {}
