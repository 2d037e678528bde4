"""What an agent's history holds of a turn and the store does not.

A crash loses what was said after the last commit. The agent's history has it, replayed: in other
pieces, with other white space, calls under their old ids. Nothing is stored twice, nothing new is
left out. The recorded text is always the beginning of the replayed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from upthread.core.codec import encode_json
from upthread.core.events import (
    AgentEvent,
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
)
from upthread.core.turns.effects import answered_permissions
from upthread.core.turns.recognition import children_of
from upthread.core.types import (
    JsonValue,
    Message,
    Part,
    ReasoningPart,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)


def unrecorded(tail: Sequence[AgentEvent], recorded: Iterable[Message]) -> tuple[AgentEvent, ...]:
    """Return the events of a replayed tail that are not in the store yet.

    `recorded` are the turn's messages after its prompt. The tail follows the last prompt of the
    turn, so only what was recorded after that counts. What children said is left out: it was
    recorded in their own conversations while they spoke.
    """
    known = _Known(_parts_after_last_prompt(recorded))
    children = children_of(tail)
    events = (event for event in tail if event.upstream_session_id not in children)
    return tuple(left for event in events if (left := known.without(event)) is not None)


def open_calls(recorded: Iterable[Message]) -> tuple[ToolCallPart, ...]:
    """Return the recorded calls of a turn that have no result, oldest first."""
    parts = [part for message in recorded for part in message.parts]
    answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    calls = {part.call_id: part for part in parts if isinstance(part, ToolCallPart)}
    return tuple(part for call_id, part in calls.items() if call_id not in answered)


def attended_calls(recorded: Iterable[Message]) -> frozenset[str]:
    """Return the calls whose end is recorded, or that somebody of ours allowed or refused."""
    parts = [part for message in recorded for part in message.parts]
    ended = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    return frozenset(ended.union(*map(answered_permissions, parts)))


def _parts_after_last_prompt(recorded: Iterable[Message]) -> list[Part]:
    parts: list[Part] = []
    for message in recorded:
        if message.speaker is Speaker.USER:
            parts.clear()
        else:
            parts += message.parts
    return parts


class _Known:
    """What is recorded and has not been met in the tail yet."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
        self._announced = {part.call_id for part in parts if isinstance(part, ToolCallPart)}
        self._text = "".join(part.text for part in parts if isinstance(part, TextPart))
        self._reasoning = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
        self._notes = [_note(p.kind, p.raw) for p in parts if isinstance(p, UnknownPart)]

    def without(self, event: AgentEvent) -> AgentEvent | None:
        """Return what is new in an event, None for nothing."""
        match event:
            case TextReceived(text=text):
                new, self._text = _beyond(text, self._text)
                return structs.replace(event, text=new) if new else None
            case ReasoningReceived(text=text):
                new, self._reasoning = _beyond(text, self._reasoning)
                return structs.replace(event, text=new) if new else None
            case _:
                return None if self._is_stored(event) else event

    def _is_stored(self, event: AgentEvent) -> bool:
        match event:
            case ToolCallAnnounced(call_id=call_id):
                return call_id in self._announced
            case ToolCallUpdated(call_id=call_id):
                # By its result: an update of a call that is still open may bring it.
                return call_id in self._answered
            case PlanChanged(entries=entries):
                return self._meet(_note("plan", entries))
            case UnknownReceived(kind=kind, raw=raw):
                return self._meet(_note(kind, raw))
            case _:
                return False

    def _meet(self, note: bytes) -> bool:
        if note not in self._notes:
            return False
        # Once for each: the same plan may really have come twice.
        self._notes.remove(note)
        return True


def _note(kind: str, raw: JsonValue) -> bytes:
    return encode_json([kind, raw])


def _beyond(text: str, known: str) -> tuple[str, str]:
    """Return what of a text is not known, and what of the known text is left.

    White space counts for nothing: agents give it back as they like. From the first difference on,
    all is new.
    """
    if text.startswith(known):
        return text[len(known) :], ""
    if known.startswith(text):
        return "", known[len(text) :]
    at, met = 0, 0
    while True:
        following, waiting = _next_visible(text, at), _next_visible(known, met)
        if following == len(text):
            return "", known[met:]
        if waiting == len(known):
            return text[at:] if met == len(known) else text[following:], ""
        if text[following] != known[waiting]:
            return text[at:], ""
        at, met = following + 1, waiting + 1


def _next_visible(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start
