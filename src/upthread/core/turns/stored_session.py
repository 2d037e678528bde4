"""A session as its agent's own store has it, and a turn that was cut off.

When an agent is killed, nobody sees its turn end. What it was asked and did lies in its own store,
as a session that may hold earlier turns, and later ones, as well. Pure: the store is read by
agents/stored.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct, structs

from upthread.core.events import (
    AgentEvent,
    ChildEnded,
    ChildStarted,
    ToolCallUpdated,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.text import one_line
from upthread.core.turns.recognition import children_of
from upthread.core.types import Outcome, TurnId, UpstreamSessionId

PROMPT_CHARACTERS_MAX: Final = 300
"""How much of a prompt one line tells."""


class CutOffCall(Struct, frozen=True, kw_only=True):
    """A call of a sub-agent, by what was seen of it. `session` is empty where nobody saw it."""

    agent: str
    main_session: str
    call_id: str
    session: str = ""


class UndecidedCall(Struct, frozen=True, kw_only=True):
    """A call of a sub-agent that no hook could record: its agent's store has the hook's line."""

    main_session: str
    call_id: str
    role: str
    prompt: str
    directory: str


class StoredFailure(Struct, frozen=True, kw_only=True):
    """That the newest turn of a session failed, as its agent's store says."""

    outcome: Outcome
    detail: str


class StoredSession(Struct, frozen=True, kw_only=True):
    """A sub-agent's session as its agent's store holds it, oldest first.

    `written_at_ns` is when the store last wrote to it, in epoch nanoseconds: what was touched later
    was not touched under its eyes. `refusal` is what the agent answered in place of a sub-agent,
    which there is none of then: the session has no id, and no more than the prompt. `failure` is
    None unless the newest turn ended in one, and the store says which.
    """

    upstream_session_id: UpstreamSessionId
    events: tuple[AgentEvent, ...]
    written_at_ns: int
    refusal: str = ""
    failure: StoredFailure | None = None


class CutOffTurn(Struct, frozen=True, kw_only=True):
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
        return self._lines("the last turn")

    @property
    def lines_of_earlier(self) -> tuple[str, str]:
        """As `lines`, of a turn that others have come after."""
        return self._lines("an earlier turn")

    def _lines(self, which: str) -> tuple[str, str]:
        asked = one_line(self.prompt)[:PROMPT_CHARACTERS_MAX] or "not kept"
        why = f": {self.detail}" if self.detail else ""
        return f"{which} was cut off{why}", f"it was asked: {asked}"


UNANSWERED: Final = " unanswered"
"""The end of a session's stamp while its store has no reply to the newest prompt."""


class StoredTurn(Struct, frozen=True, kw_only=True):
    """One prompt of a stored session, and what came after it, up to the next prompt."""

    upstream_session_id: UpstreamSessionId | None
    prompt: str
    events: tuple[AgentEvent, ...]

    @property
    def usage(self) -> UsageReported | None:
        """What the session held at the turn's end, None where its store does not tell."""
        told = [event for event in self.events if isinstance(event, UsageReported)]
        return told[-1] if told else None


def stored_turns(events: Sequence[AgentEvent]) -> tuple[StoredTurn, ...]:
    """Return a stored session as its turns, without what its own sub-agents heard and said."""
    children = children_of(events)
    own = [event for event in events if event.upstream_session_id not in children]
    at = [i for i, event in enumerate(own) if isinstance(event, UserTextReplayed)]
    return tuple(_turn(own, *each) for each in pairwise((*at, len(own))))


def _turn(events: Sequence[AgentEvent], begin: int, end: int) -> StoredTurn:
    asked, *tail = events[begin:end]
    assert isinstance(asked, UserTextReplayed)
    children = children_of(tail)
    return StoredTurn(
        upstream_session_id=asked.upstream_session_id,
        prompt=asked.text,
        events=tuple(
            _childless(event)
            for event in tail
            if event.upstream_session_id not in children
            and not isinstance(event, ChildStarted | ChildEnded)
        ),
    )


def _childless(event: AgentEvent) -> AgentEvent:
    if isinstance(event, ToolCallUpdated):
        return structs.replace(event, child_upstream_session_id=None)
    return event
