"""Looking into JSON whose shape nobody promised."""

from __future__ import annotations

from typing import Any, cast


def as_object(value: object) -> dict[str, Any]:
    """Return a JSON object as it is, an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def member(value: object, *path: str) -> object:
    """Return what lies at a path of member names, None where there is nothing."""
    for name in path:
        value = as_object(value).get(name)
    return value
