"""Forking: where a history may be cut, and what of it goes into the other branch.

A cut is valid before a message of the user at which no call is open, and at the end of a history in
which none is. Nothing in the world is undone by a cut: what was done stays done. A child belongs to
the conversation that called it, so in the other branch a result refers to its copy, or to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from upthread.core.types import (
    ConversationId,
    Message,
    Part,
    Speaker,
    ToolCallPart,
    ToolResultPart,
)
from upthread.errors import UsageError


def fork_points(messages: Sequence[Message]) -> tuple[int, ...]:
    """Return the `seq` of each message after which the history may be cut, in order."""
    points: list[int] = []
    waiting: set[str] = set()
    for message, following in zip(messages, [*messages[1:], None], strict=False):
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                waiting.add(part.call_id)
            elif isinstance(part, ToolResultPart):
                waiting.discard(part.call_id)
        is_turn = following is None or following.speaker is Speaker.USER
        if is_turn and message.speaker is not Speaker.USER and not waiting:
            points.append(message.seq)
    return tuple(points)


def cut(messages: Sequence[Message], at_seq: int) -> tuple[Message, ...]:
    """Return the messages up to and with `at_seq`. UsageError, naming the nearest, at no point."""
    points = fork_points(messages)
    if at_seq not in points:
        nearest = min(points, key=lambda point: (abs(point - at_seq), point), default=None)
        hint = "nothing here may be cut yet" if nearest is None else f"cut at message {nearest}"
        raise UsageError(
            f"the history cannot be cut after message {at_seq}: a turn or a call is open there",
            hint=hint,
            at_message=str(at_seq),
        )
    return tuple(message for message in messages if message.seq <= at_seq)


def with_children(
    messages: Sequence[Message], children: Mapping[ConversationId, ConversationId]
) -> tuple[Message, ...]:
    """Return the messages with each child's conversation replaced by its copy.

    A child that `children` does not name stays with the first branch: the result loses the
    reference and keeps its text.
    """
    return tuple(
        replace(message, parts=tuple(_with_child(part, children) for part in message.parts))
        for message in messages
    )


def _with_child(part: Part, children: Mapping[ConversationId, ConversationId]) -> Part:
    if not isinstance(part, ToolResultPart) or part.child_conversation_id is None:
        return part
    return replace(part, child_conversation_id=children.get(part.child_conversation_id))
