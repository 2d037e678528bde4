"""Sub-agents in a record: which event names one, its conversation, and how deep they go.

Events are routed by the session they carry. The depth is a counter beside the routing, as an alarm,
and changes nothing: counting starts and ends alone would have to guess when sub-agents run at once
or one inside the other, and an end without a start would leave it wrong for good. Each of these is
told, with the depth at that moment. A hand-off within a session is no delegation and does not move
the counter.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from upthread.core.events import AgentEvent, ChildStarted, ToolCallUpdated
from upthread.core.types import (
    CHILD_SLOT,
    Conversation,
    ConversationId,
    ConversationKey,
    JsonValue,
    UpstreamSessionId,
)


def child_named(event: AgentEvent) -> UpstreamSessionId | None:
    """Return the session that an event says is a sub-agent's, None for any other event."""
    if isinstance(event, ChildStarted | ToolCallUpdated):
        return event.child_upstream_session_id
    return None


def child_conversation(
    root: Conversation,
    *,
    parent_conversation_id: ConversationId,
    started: ChildStarted,
    opened_at_ms: int,
) -> Conversation:
    """Return the conversation of a sub-agent. Its id follows from parent and upstream id."""
    # Derived, so that a child that is told again after a crash is the one that is there.
    seed = f"{parent_conversation_id}\n{started.child_upstream_session_id}".encode(
        "utf-8", "surrogatepass"
    )
    digest = base64.b32encode(hashlib.sha256(seed).digest()).decode().lower()[:26]
    return Conversation(
        conversation_id=ConversationId(f"con_{digest}"),
        key=ConversationKey(
            project_id=root.key.project_id,
            workstream=root.key.workstream,
            role=started.role,
            slot=CHILD_SLOT,
        ),
        generation=1,
        base_name=root.base_name,
        opened_at_ms=opened_at_ms,
        parent_conversation_id=parent_conversation_id,
        parent_call_id=started.call_id,
    )


def as_started(event: ToolCallUpdated, known: JsonValue) -> ChildStarted:
    """Return the start that a call's update tells of; `known` are the call's arguments so far."""
    assert event.child_upstream_session_id is not None
    arguments = event.arguments or known
    role = arguments.get("subagent_type") if isinstance(arguments, Mapping) else None
    return ChildStarted(
        upstream_session_id=event.upstream_session_id,
        child_upstream_session_id=event.child_upstream_session_id,
        role=role if isinstance(role, str) and role else "subagent",
        call_id=event.call_id,
    )


# --- the depth of delegations ---------------------------------------------------------------------

ALARM: Final = "depth_alarm"
"""The kind of the note that keeps an alarm."""

NESTED: Final = "nested"
PARALLEL: Final = "parallel"
UNMATCHED_END: Final = "unmatched_end"
OPEN_AT_END: Final = "open_at_end"

ALARMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        NESTED: "a sub-agent called one of its own",
        PARALLEL: "a sub-agent began while another one ran",
        UNMATCHED_END: "a sub-agent ended that had not begun",
        OPEN_AT_END: "the turn ended while a sub-agent ran",
    }
)
"""Every alarm, in words."""


class DepthCounter:
    """Counts the sub-agents that run. `depth` is how many do."""

    def __init__(self) -> None:
        self._running: dict[UpstreamSessionId, UpstreamSessionId] = {}

    @property
    def depth(self) -> int:
        return len(self._running)

    def start(self, child: UpstreamSessionId, *, parent: UpstreamSessionId) -> tuple[str, ...]:
        """Count a start; returns its alarms, none for one that is counted already."""
        if child in self._running:
            return ()
        is_nested = parent in self._running
        # Those it came from run as well, and are no others beside it.
        is_parallel = any(other not in self._above(parent) for other in self._running)
        self._running[child] = parent
        return (NESTED,) * is_nested + (PARALLEL,) * is_parallel

    def end(self, child: UpstreamSessionId) -> tuple[str, ...]:
        """Count an end; one without a start is an alarm, and the counter stays."""
        return () if self._running.pop(child, None) is not None else (UNMATCHED_END,)

    def finish(self) -> tuple[UpstreamSessionId, ...]:
        """Return the sub-agents that still run at the end of the turn, the first one first."""
        return tuple(self._running)

    def _above(self, session: UpstreamSessionId) -> set[UpstreamSessionId]:
        """Return the running sub-agent `session` and those it came from."""
        above: set[UpstreamSessionId] = set()
        # Who is whose parent is the agent's word: two that name each other must not hold us here.
        while session in self._running and session not in above:
            above.add(session)
            session = self._running[session]
        return above
