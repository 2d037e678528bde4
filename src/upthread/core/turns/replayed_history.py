"""A replayed history as it would have been recorded: compared with what is stored, and stored.

What an agent replays is what was said; what is stored lost its secrets on the way. Before the two
are compared, the history loses them likewise. Agents replay a text in pieces of their own choosing,
so pieces are joined first: a secret may lie across two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from msgspec import structs

from upthread.core.events import (
    AgentEvent,
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UserTextReplayed,
)
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import JsonValue

_SPOKEN: Final = (UserTextReplayed, TextReceived, ReasoningReceived)


def redacted_history(history: Iterable[AgentEvent], redactor: Redactor) -> tuple[AgentEvent, ...]:
    """Return a history without its secrets, the pieces of each text joined."""
    return tuple(_redacted(event, redactor) for event in joined(history))


def joined(history: Iterable[AgentEvent]) -> Iterator[AgentEvent]:
    """Yield a history with whole texts: pieces that follow each other in one message are one."""
    for _, together in groupby(history, key=_text_of):
        first, *others = together
        if isinstance(first, _SPOKEN):
            text = "".join(piece.text for piece in (first, *others) if isinstance(piece, _SPOKEN))
            yield structs.replace(first, text=text)
        else:
            yield from (first, *others)


def _text_of(event: AgentEvent) -> object:
    """Return what says that two events are pieces of one text; for any other kind, its class."""
    if isinstance(event, _SPOKEN):
        # A child speaks between the pieces of its parent's text: by session, they are not joined.
        return type(event), event.upstream_session_id, getattr(event, "message_id", None)
    return type(event)


def _redacted(event: AgentEvent, redactor: Redactor) -> AgentEvent:
    match event:
        case UserTextReplayed() | TextReceived() | ReasoningReceived():
            return structs.replace(event, text=redactor.redact(event.text))
        case ToolCallAnnounced():
            return structs.replace(
                event,
                title=redactor.redact(event.title),
                arguments=redactor.redact_json(event.arguments),
                locations=tuple(map(redactor.redact, event.locations)),
            )
        case ToolCallUpdated():
            return _redacted_update(event, redactor)
        case PlanChanged(entries=entries):
            redacted = ((redactor.redact(text), status) for text, status in entries)
            return structs.replace(event, entries=tuple(redacted))
        case UnknownReceived():
            return structs.replace(event, raw=redactor.redact_json(event.raw))
        case _:
            return event


def _redacted_update(event: ToolCallUpdated, redactor: Redactor) -> ToolCallUpdated:
    def redacted(value: JsonValue) -> str | None:
        return redactor.redact(value) if isinstance(value, str) else None

    locations = event.locations
    return structs.replace(
        event,
        title=redacted(event.title),
        text=redacted(event.text),
        arguments=redactor.redact_json(event.arguments),
        locations=None if locations is None else tuple(map(redactor.redact, locations)),
    )
