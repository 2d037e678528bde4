"""What a rule is and how rules are applied, with the few that hold for every provider."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from upthread.testing.rehearsal_model._json import JsonObject, JsonValue

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


class Found(Struct, frozen=True):
    """What a rule found: the message's position, None for the request as a whole, and the words."""

    message_index: int | None
    what: str


class Violation(Struct, frozen=True, kw_only=True):
    """A rule that a request breaks. `what` is worded as the provider words it."""

    rule: str
    message_index: int | None
    what: str


Rule: TypeAlias = Callable[[JsonObject], Iterator[Found]]


def apply_rules(rules: Sequence[Rule], body: JsonObject) -> tuple[Violation, ...]:
    """Return every violation in the rules' order; a rule is called by its function's name."""
    return tuple(
        Violation(rule=rule.__name__, message_index=found.message_index, what=found.what)
        for rule in rules
        for found in rule(body)
    )


def holds_json_object(text: str) -> bool:
    """Return whether a text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def holds_lone_surrogate(value: JsonValue) -> bool:
    """Return whether any text in the value, keys included, is not valid Unicode."""
    if isinstance(value, str):
        return not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value)
    if isinstance(value, dict):
        return any(holds_lone_surrogate(key) or holds_lone_surrogate(value[key]) for key in value)
    return isinstance(value, list) and any(holds_lone_surrogate(item) for item in value)
