"""JSON as it arrives: any shape, narrowed where it is read. It never raises on a wrong shape."""

from __future__ import annotations

from typing import TypeAlias, cast

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]


def as_object(value: JsonValue) -> JsonObject:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """Return the value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: JsonValue) -> str:
    """Return the value if it is text, else the empty text."""
    return value if isinstance(value, str) else ""


def objects_in(value: JsonValue) -> list[JsonObject]:
    """Return the array's items, those that are no object as empty ones: positions are kept."""
    return [as_object(item) for item in as_list(value)]


def json_object(**fields: object) -> JsonObject:
    """Return the fields as an object; for literals whose nesting a type checker cannot follow."""
    return cast("JsonObject", fields)
