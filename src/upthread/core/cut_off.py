"""A call that was cut off: what of it the agent's own store has and the record does not.

A hook sees a sub-agent begin; when the agent is killed, nobody sees it end. What it was asked and
did lies in the agent's own store, as a session that may hold earlier turns as well. Pure: the store
is read by agents/stored.py, and what is found is recorded by runtime/retrieval.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from upthread.core.events import (
    AgentEvent,
    ChildEnded,
    ChildStarted,
    ToolCallUpdated,
    UserTextReplayed,
)
from upthread.core.markdown import one_line
from upthread.core.recognition import children_of
from upthread.core.types import ErasedPart, Message, Speaker, TurnId, UpstreamSessionId

PROMPT_CHARACTERS_MAX: Final = 300
"""How much of a prompt one line tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOffCall:
    """A call of a sub-agent, by what hooks saw of it. `session` is empty where nobody saw it."""

    agent: str
    main_session: str
    call_id: str
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A sub-agent's session as its agent's store holds it, oldest first.

    `written_at_ns` is when the store last wrote to it, in epoch nanoseconds: what was touched later
    was not touched under its eyes.
    """

    upstream_session_id: UpstreamSessionId
    events: tuple[AgentEvent, ...]
    written_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOffTurn:
    """A turn that stopped before its end, for a person and for whoever goes on.

    `actions` are what it did to the world, and how that ended, in words; `detail` is why it
    stopped, empty where nobody ended it yet. `prompt` is empty where it was not kept.
    """

    turn_id: TurnId
    prompt: str
    actions: tuple[str, ...]
    detail: str

    @property
    def lines(self) -> tuple[str, str]:
        """One line for the interruption, one for the prompt; `actions` are lines as they are."""
        asked = one_line(self.prompt)[:PROMPT_CHARACTERS_MAX] or "not kept"
        why = f": {self.detail}" if self.detail else ""
        return f"the last turn was cut off{why}", f"it was asked: {asked}"


ReadStored: TypeAlias = Callable[[CutOffCall], StoredSession | None]
"""Reads a session from its agent's store, None where it holds none. Blocking.

Raises StoreError for what is there and cannot be read.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTurn:
    """The last prompt of a stored session, and what came after it."""

    prompt: str
    events: tuple[AgentEvent, ...]


def last_turn(
    events: Sequence[AgentEvent],
    recorded: Iterable[Message],
    *,
    redact: Callable[[str], str],
    context: str = "",
) -> StoredTurn | None:
    """Return the last turn of a stored session, None where the record has it already.

    `recorded` are the conversation's messages in that session: a session that has no more prompts
    than were recorded, the last of them the same, never got the one that was cut off. What was
    recorded may have lost its secrets on the way, so that is tried as well. `context` is what was
    put before the prompt. What its own sub-agents said is left to their sessions.
    """
    at = [i for i, event in enumerate(events) if isinstance(event, UserTextReplayed)]
    if not at:
        return None
    asked = events[at[-1]]
    assert isinstance(asked, UserTextReplayed)
    prompt = asked.text.removeprefix(f"{context}\n\n" if context else "")
    known = [message for message in recorded if message.speaker is Speaker.USER]
    texts = {asked.text, prompt}
    if known and len(at) <= len(known) and _may_be(known[-1], texts | set(map(redact, texts))):
        return None
    tail = events[at[-1] + 1 :]
    children = children_of(tail)
    return StoredTurn(
        prompt=prompt,
        events=tuple(
            _childless(event)
            for event in tail
            if event.upstream_session_id not in children
            and not isinstance(event, ChildStarted | ChildEnded)
        ),
    )


def _may_be(recorded: Message, texts: set[str]) -> bool:
    """Whether a recorded prompt may be one of these: of one that was not kept, nobody can tell."""
    is_kept = not any(isinstance(part, ErasedPart) for part in recorded.parts)
    return not is_kept or recorded.sent_text in texts or recorded.text in texts


def _childless(event: AgentEvent) -> AgentEvent:
    if isinstance(event, ToolCallUpdated):
        return replace(event, child_upstream_session_id=None)
    return event
