"""JSON of any form read without a crash, and text and values as they can be sent.

The store keeps what an agent sent byte for byte; a request has to be UTF-8 and JSON (RFC 8259):
valid Unicode, finite numbers, nesting with an end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import structs

from upthread.core import types
from upthread.core.text import SURROGATES, unicode_text

JsonObject: TypeAlias = Mapping[str, types.JsonValue]


def items_of(value: types.JsonValue) -> Sequence[JsonObject]:
    """Return the objects of an array, an empty one in place of what is none."""
    # A text is a sequence as well, of its letters.
    if isinstance(value, str) or not isinstance(value, Sequence):
        return ()
    return [object_of(item) for item in value]


def object_of(value: types.JsonValue) -> JsonObject:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def text_of(value: types.JsonValue) -> str:
    """Return a text, an empty one for anything else."""
    return value if isinstance(value, str) else ""


def has_lone_surrogate(value: types.JsonValue) -> bool:
    """Return whether a text anywhere in it, keys included, has no UTF-8 form."""
    waiting: list[types.JsonValue] = [value]
    while waiting:  # no recursion: what agents send may be nested deeper than our stack
        held = waiting.pop()
        if isinstance(held, str):
            if not held.isascii() and re.search(SURROGATES, held):
                return True
        elif isinstance(held, Mapping):
            waiting += [*held, *held.values()]
        elif isinstance(held, Sequence):
            waiting += held
    return False


# --- text and values as they can be sent ----------------------------------------------------------


DEPTH_MAX: Final = 100
TOO_DEEP: Final = "[nested too deeply to be sent]"


def made_unicode(part: types.Part) -> types.Part:
    """Return the part with valid text; the same object when it was valid already."""
    match part:
        case (
            types.TextPart(text=text)
            | types.ContextPart(text=text)
            | types.ReasoningPart(text=text)
            | types.ToolResultPart(text=text)
        ) if re.search(SURROGATES, text):
            return structs.replace(part, text=unicode_text(text))
        case types.ToolCallPart(title=title, arguments=arguments) if has_lone_surrogate(
            (title, arguments)
        ):
            return structs.replace(part, title=unicode_text(title), arguments=sendable(arguments))
        case _:
            return part


def sendable(value: types.JsonValue, *, depth: int = 0) -> types.JsonValue:
    """Return a value as JSON that a provider takes: a dict, list or scalar of its own."""
    if isinstance(value, str):
        return unicode_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        # NaN and the infinities have no form in JSON.
        return str(value)
    if not isinstance(value, Mapping | Sequence):
        return value
    if depth == DEPTH_MAX:
        # What an agent sent may nest without end: one value is lost, and not the history.
        return TOO_DEEP
    if isinstance(value, Mapping):
        return {unicode_text(key): sendable(held, depth=depth + 1) for key, held in value.items()}
    return [sendable(held, depth=depth + 1) for held in value]
