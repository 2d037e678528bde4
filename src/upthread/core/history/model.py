"""One model of a history: messages with parts, whoever stored them.

Our own messages and the entries of the agents' stores come to the same form, so that they are
judged, repaired and rendered by the same code. Parts are those of core/types.py. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from upthread.core.types import ErasedPart, Message, Part, Speaker, UnknownPart

NOTES = (UnknownPart, ErasedPart)
"""Parts that are nobody's words: kept, and never sent to a model."""


class Spoken(Protocol):
    """A message as far as its validity goes: ours or another's."""

    @property
    def speaker(self) -> Speaker: ...

    @property
    def parts(self) -> tuple[Part, ...]: ...


class HistoryMessage(Struct, frozen=True, kw_only=True):
    """What was said at one place. `place` says where it is stored, in words: `line 41`."""

    speaker: Speaker
    parts: tuple[Part, ...]
    place: str = ""


class History(Struct, frozen=True, kw_only=True):
    """A conversation as it would be sent, oldest first.

    Results are parts of messages of the speaker `tool`, calls of the speaker `assistant`; what a
    store keeps otherwise, its reader has put in order.
    """

    messages: tuple[HistoryMessage, ...] = ()


def history_of(messages: Iterable[Message]) -> History:
    """Return our own messages as a history."""
    return History(
        messages=tuple(
            HistoryMessage(
                speaker=message.speaker, parts=message.parts, place=f"message {message.seq}"
            )
            for message in messages
        )
    )


def place_of(messages: Sequence[HistoryMessage], index: int) -> str:
    """Return where a message is stored, its position from 1 where nobody said."""
    # From 1, as people count, and as our own messages are numbered.
    return messages[index].place or f"message {index + 1}"
