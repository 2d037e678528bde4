"""What a rule is: a name, the sentence it stands for, where that is written, and the cure.

A provider's rules are checks of the request as it is sent, so they hold for whatever wrote it. They
are data: a table of rules is applied by `violations`, listed in the docs, and each one is tested by
a history that breaks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from upthread.core.types import JsonValue

JsonObject: TypeAlias = Mapping[str, JsonValue]
Request: TypeAlias = JsonObject
"""The body of a request, as far as the history goes."""

Finding: TypeAlias = tuple[int | None, str]
"""The message's or item's position from 0, None for the whole; and what is wrong with it."""

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One demand of a provider. `source` is where it is written, or where its error is quoted."""

    name: str
    demand: str
    source: str
    cure: str
    find: Callable[[Request], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule broken at one place. `message` is a position from 0, None for the request itself."""

    message: int | None
    rule: str
    what: str
    cure: str

    def in_words(self) -> str:
        """`message 3: call_ids_differ: …; cure: …`."""
        where = "request" if self.message is None else f"message {self.message}"
        return f"{where}: {self.rule}: {self.what}; cure: {self.cure}"


def violations(rules: Iterable[Rule], request: Request) -> tuple[Violation, ...]:
    """Return every violation, in the order of the rules."""
    return tuple(
        Violation(message=position, rule=rule.name, what=what, cure=rule.cure)
        for rule in rules
        for position, what in rule.find(request)
    )


# --- reading JSON of unknown form --------------------------------------------------------------


def items_of(value: JsonValue) -> Sequence[JsonObject]:
    """Return the objects of an array, an empty one in place of what is none."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return ()
    return [object_of(item) for item in value]


def object_of(value: JsonValue) -> JsonObject:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def text_of(value: JsonValue) -> str:
    """Return a text, an empty one for anything else."""
    return value if isinstance(value, str) else ""


def has_lone_surrogate(value: JsonValue) -> bool:
    """Return whether a text anywhere in it, keys included, has no UTF-8 form."""
    waiting: list[JsonValue] = [value]
    while waiting:  # no recursion: what agents send may be nested deeper than our stack
        held = waiting.pop()
        if isinstance(held, str):
            if not held.isascii() and SURROGATES.search(held):
                return True
        elif isinstance(held, Mapping):
            waiting += [*held, *held.values()]
        elif isinstance(held, Sequence):
            waiting += held
    return False


def repeated(values: Iterable[str]) -> list[str]:
    """Return each value that comes again, once, in the order of its second coming."""
    seen: set[str] = set()
    again: dict[str, None] = {}
    for value in values:
        if value in seen:
            again[value] = None
        seen.add(value)
    return list(again)
