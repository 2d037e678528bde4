"""Text and values as they can be sent: valid Unicode, finite numbers, nesting with an end.

The store keeps what an agent sent byte for byte; a request has to be UTF-8 and JSON (RFC 8259).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from upthread.core.history.rules import SURROGATES, has_lone_surrogate
from upthread.core.types import (
    ContextPart,
    JsonValue,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

DEPTH_MAX: Final = 100
TOO_DEEP: Final = "[nested too deeply to be sent]"


def made_unicode(part: Part) -> Part:
    """Return the part with valid text; the same object when it was valid already."""
    match part:
        case (
            TextPart(text=text)
            | ContextPart(text=text)
            | ReasoningPart(text=text)
            | ToolResultPart(text=text)
        ) if SURROGATES.search(text):
            return replace(part, text=unicode_text(text))
        case ToolCallPart(title=title, arguments=arguments) if has_lone_surrogate(
            (title, arguments)
        ):
            return replace(part, title=unicode_text(title), arguments=sendable(arguments))
        case _:
            return part


def unicode_text(text: str) -> str:
    """Return the text with halves of surrogate pairs joined, and single ones as U+FFFD."""
    if not SURROGATES.search(text):
        return text
    # Through UTF-16: two halves that stand side by side become the character that they were.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def sendable(value: JsonValue, *, depth: int = 0) -> JsonValue:
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
