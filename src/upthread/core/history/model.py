"""One model of a history, and whether it is sound: messages with parts, whoever stored them.

Our own messages and the entries of the agents' stores come to the same form, so that they are
judged, repaired and rendered by the same code. Parts are those of core/types.py.

A history is sound if every call is answered once, directly after its message, and no id is there
twice: `faults` is one pass, and gives each fault with its place, rule and cure. Text that is not
Unicode is no fault, because rendering sees to it.

At the end, text and values are made fit to be sent. The store keeps what an agent sent byte for
byte; a request has to be UTF-8 and JSON (RFC 8259): valid Unicode, finite numbers, nesting with an
end.

A history may be cut before a message of the user at which no call is open, and at its end if none
is. Nothing in the world is undone by a cut: what was done stays done. A child belongs to the
conversation that called it, so in the other branch a result refers to its copy, or a note says
where the child is.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from upthread.core import types
from upthread.core.text import SURROGATES, item, unicode_text
from upthread.core.turns.effects import Effect
from upthread.core.types import (
    FRAMEWORK_PREFIX,
    ConversationId,
    ErasedPart,
    Message,
    Part,
    Speaker,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from upthread.errors import UsageError

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


CURES = {
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


OPENAI_AGENTS = "openai-agents"


class ItemCalls:
    """The calls in a history of the OpenAI Agents SDK.

    `orphans` are the results without a call, by number. A model refuses a history that has any.
    """

    def __init__(self) -> None:
        self.orphans: dict[int, str] = {}
        self._calls: dict[int, str] = {}
        self._made: Counter[str] = Counter()

    def take(self, seq: int, value: Mapping[str, Any]) -> None:
        """Take the next entry of the log: an item, or that an item was taken back."""
        popped = value.get("popped", -1)
        self.orphans.pop(popped, None)
        self._made[self._calls.pop(popped, "")] -= 1
        item = value.get("item", {})
        call_id = item.get("call_id")
        if call_id and not str(item.get("type")).endswith("_output"):
            self._calls[seq] = call_id
            self._made[call_id] += 1
        elif call_id and self._made[call_id] <= 0:
            self.orphans[seq] = call_id


def results_without_calls(messages: Iterable[Message]) -> Iterator[Fault]:
    """Yield a fault for each result whose call is missing in what the OpenAI Agents SDK keeps."""
    calls = ItemCalls()
    for message in messages:
        for part in message.parts:
            if isinstance(part, UnknownPart) and part.kind == FRAMEWORK_PREFIX + OPENAI_AGENTS:
                calls.take(message.seq, cast("Mapping[str, Any]", part.raw))
    for seq, call_id in calls.orphans.items():
        rule, what = _wrong_result(call_id, None, frozenset())
        yield Fault(place=f"message {seq}", rule=rule, what=what)


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


DEPTH_MAX = 100
TOO_DEEP = "[nested too deeply to be sent]"


def made_unicode(part: types.Part) -> types.Part:
    """Return the part with valid text; the same object when it was valid already."""
    match part:
        case (
            types.TextPart(text=text)
            | types.ContextPart(text=text)
            | types.ReasoningPart(text=text)
            | types.ToolResultPart(text=text)
        ) if re.search(SURROGATES, text):
            return replace(part, text=unicode_text(text))
        case types.ToolCallPart(title=title, arguments=arguments) if has_lone_surrogate(
            (title, arguments)
        ):
            return replace(part, title=unicode_text(title), arguments=sendable(arguments))
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


# --- where a history may be cut -------------------------------------------------------------------

CHILD_ELSEWHERE = "child_elsewhere"
"""The kind of the note that stands for a child which stays with the first branch."""
ERASED = "erased"
"""The kind of the note that stands for a part whose content was forgotten."""


def fork_points(messages: Sequence[Message]) -> tuple[int, ...]:
    """Return the `seq` of each message after which the history may be cut, in order."""
    points: list[int] = []
    waiting: set[str] = set()
    for message, following in zip(messages, [*messages[1:], None], strict=False):
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                waiting.add(part.call_id)
            elif isinstance(part, ToolResultPart):
                # A result that no call waits for harms no cut: it is repaired where the history is
                # sent.
                waiting.discard(part.call_id)
        # Between two messages of one answer a cut would leave half of it.
        is_turn = following is None or following.speaker is Speaker.USER
        if is_turn and message.speaker is not Speaker.USER and not waiting:
            points.append(message.seq)
    return tuple(points)


def cut(messages: Sequence[Message], at_seq: int) -> tuple[Message, ...]:
    """Return the messages up to and with `at_seq`. UsageError, naming the nearest, at no point."""
    points = fork_points(messages)
    if at_seq not in points:
        # Of two that are as near the earlier one, so that the same question has one answer.
        nearest = min(points, key=lambda point: (abs(point - at_seq), point), default=None)
        hint = "nothing here may be cut yet" if nearest is None else f"cut at message {nearest}"
        raise UsageError(
            f"the history cannot be cut after message {at_seq}: a turn or a call is open there",
            hint=hint,
            at_message=str(at_seq),
        )
    return tuple(message for message in messages if message.seq <= at_seq)


def without_children(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages without their children, which stay with the first branch.

    A result loses the reference and keeps its text, and a note beside it says which child that was.
    What was forgotten stays so: a note says that there was something.
    """
    return tuple(
        replace(
            message,
            parts=tuple(chain.from_iterable(_without_child(part) for part in message.parts)),
        )
        for message in messages
    )


def children_in(messages: Sequence[Message]) -> tuple[ConversationId, ...]:
    """Return the children that results refer to, each once, in order."""
    parts = chain.from_iterable(message.parts for message in messages)
    named = (part.child_conversation_id for part in parts if isinstance(part, ToolResultPart))
    return tuple(dict.fromkeys(child for child in named if child is not None))


def branch_note(address: str, at_seq: int, effects: Sequence[Effect], told: str) -> str:
    """Return what the other branch is told where it begins: what was done is not undone."""
    lines = [f"[This conversation was branched off from {address} after message {at_seq}.]"]
    if effects:
        lines += ["", "Done before, and not undone by the branching:"]
        lines += [item(effect.in_words) for effect in effects]
    return "\n".join([*lines, *(["", told] if told else [])])


def _without_child(part: Part) -> tuple[Part, ...]:
    if isinstance(part, ErasedPart):
        # Forgotten is forgotten: a branch must not be the way to read it after all.
        return (UnknownPart(kind=ERASED, raw=part.kind),)
    if not isinstance(part, ToolResultPart) or part.child_conversation_id is None:
        return (part,)
    raw = {"call_id": part.call_id, "conversation_id": part.child_conversation_id}
    # Dropped, else the branch would go on in the first one's child.
    result = replace(part, child_conversation_id=None)
    return (result, UnknownPart(kind=CHILD_ELSEWHERE, raw=raw))
