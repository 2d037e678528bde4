"""Where a history may be cut, and what of it goes into the other branch.

A cut is valid before a message of the user at which no call is open, and at the end of a history in
which none is. Nothing in the world is undone by a cut: what was done stays done. A child belongs to
the conversation that called it, so in the other branch a result refers to its copy, or a note says
where the child is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from msgspec import structs

from upthread.core.text import item
from upthread.core.turns.effects import Effect
from upthread.core.types import (
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

CHILD_ELSEWHERE: Final = "child_elsewhere"
"""The kind of the note that stands for a child which stays with the first branch."""
ERASED: Final = "erased"
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
        structs.replace(
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
    result = structs.replace(part, child_conversation_id=None)
    return (result, UnknownPart(kind=CHILD_ELSEWHERE, raw=raw))
