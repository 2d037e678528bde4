"""One model of a history, and whether it is sound: messages with parts, whoever stored them.

Our own messages and the entries of the agents' stores come to the same form, so that they are
judged, repaired and rendered by the same code. Parts are those of core/types.py.

A history is sound if every call is answered once, directly after its message, and no id is there
twice: `faults` is one pass, and gives each fault with its place, rule and cure. Text that is not
Unicode is no fault, because rendering sees to it.

At the end, text and values are made fit to be sent. The store keeps what an agent sent byte for
byte; a request has to be UTF-8 and JSON (RFC 8259): valid Unicode, finite numbers, nesting with an
end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Final, TypeAlias

from msgspec import Struct, structs

from upthread.core import types
from upthread.core.text import SURROGATES, unicode_text

NOTES = (types.UnknownPart, types.ErasedPart)
"""Parts that are nobody's words: kept, and never sent to a model."""


class HistoryMessage(Struct, frozen=True, kw_only=True):
    """What was said at one place. `place` says where it is stored, in words: `line 41`."""

    speaker: types.Speaker
    parts: tuple[types.Part, ...]
    place: str


History: TypeAlias = tuple[HistoryMessage, ...]
"""A conversation as it would be sent, oldest first.

Results are parts of messages of the speaker `tool`, calls of the speaker `assistant`; what a store
keeps otherwise, its reader has put in order.
"""


def history_of(messages: Iterable[types.Message]) -> History:
    """Return our own messages as a history."""
    return tuple(
        HistoryMessage(speaker=message.speaker, parts=message.parts, place=f"message {message.seq}")
        for message in messages
    )


# --- soundness ------------------------------------------------------------------------------------


CURES: Final = {
    "every_call_has_a_result": "it is closed with an unknown outcome",
    "every_result_has_a_call": "it is taken out",
    "one_result_for_a_call": "all but the first are taken out",
    "call_ids_differ": "the later call gets an id of its own",
    "results_stand_after_their_calls": "the result is put after its call",
}
"""The rules of a sound history, and what repair does about a breach."""


class Fault(Struct, frozen=True, kw_only=True):
    """A rule broken at one place of a stored history. `what` names the call."""

    place: str
    rule: str
    what: str

    @property
    def cure(self) -> str:
        """What repair does about it."""
        return CURES[self.rule]


def faults(messages: Sequence[HistoryMessage]) -> tuple[Fault, ...]:
    """Return every fault, in the order of the history. Empty for a sound one."""
    found: list[tuple[int, str, str]] = []
    waiting: dict[str, int] = {}  # the calls without a result: their messages
    late: set[str] = set()
    made: set[str] = set()
    is_answering = False
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, types.ToolCallPart):
                if part.call_id in made:
                    what = f"call {part.call_id} has the id of an earlier one"
                    found.append((index, "call_ids_differ", what))
                # Calls may come together; after some results a new call means that the other
                # results are late.
                late.update(waiting if is_answering else ())
                is_answering = False
                made.add(part.call_id)
                # The first of two: its place is where the result is missing.
                waiting.setdefault(part.call_id, index)
            elif isinstance(part, types.ToolResultPart):
                is_answering = True
                asked = waiting.pop(part.call_id, None)
                if asked is None or part.call_id in late:
                    where = None if asked is None else messages[asked].place
                    found.append((index, *_wrong_result(part.call_id, where, made)))
            elif waiting and not isinstance(part, NOTES):
                late.update(waiting)
    for call_id, index in waiting.items():
        found.append((index, "every_call_has_a_result", f"call {call_id} has no result"))
    found.sort(key=itemgetter(0))
    return tuple(Fault(place=messages[n].place, rule=rule, what=what) for n, rule, what in found)


def _wrong_result(call_id: str, where: str | None, made: AbstractSet[str]) -> tuple[str, str]:
    """Return the rule that a result breaks, and how. `where` is its call, None without a call."""
    if where is not None:
        what = f"the result of call {call_id} ({where}) comes late"
        return "results_stand_after_their_calls", what
    if call_id in made:
        return "one_result_for_a_call", f"call {call_id} has its result already"
    return "every_result_has_a_call", f"a result of call {call_id}, which nothing before it made"


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
