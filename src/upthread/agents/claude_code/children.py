"""Which events are a sub-agent's, and when one began and ended.

Frames of a sub-agent carry the id of the call that made it (`parent_tool_use_id`), and its own id
since 2.1.2xx; `task_started` and `task_notification` say when it begins and ends. It is numbered
within its session, as in its transcript's name. It remembers the children of one process.
"""

from __future__ import annotations

from typing import Any, Final

from upthread.agents._json import text_at
from upthread.core.events import AgentEvent, ChildEnded, ChildStarted
from upthread.core.types import Outcome, UpstreamSessionId

ROLE_UNKNOWN: Final = "subagent"
CHILDREN_REMEMBERED_MAX: Final = 10_000
SUBAGENT_TASK: Final = "local_agent"

_ENDS: Final = {"completed": Outcome.OK, "stopped": Outcome.CANCELLED}


def child_session(session: str, agent_id: str) -> UpstreamSessionId:
    """Return the id of a sub-agent's session: Claude Code numbers them within their session."""
    return UpstreamSessionId(f"{session}:subagent:{agent_id}")


def role_of(frame_or_arguments: object) -> str:
    """Return the sub-agent's type that a frame or a delegating call names."""
    return text_at(frame_or_arguments, "subagent_type") or ROLE_UNKNOWN


class Children:
    """The sub-agents of one process, by the call that made each."""

    def __init__(self) -> None:
        self._by_call: dict[str, UpstreamSessionId] = {}
        self._parents: dict[UpstreamSessionId, UpstreamSessionId] = {}

    def of_call(self, call_id: str) -> UpstreamSessionId | None:
        """Return the child that a call made, None for a call that made none."""
        return self._by_call.get(call_id)

    def speaking(
        self, frame: dict[str, Any], session: UpstreamSessionId
    ) -> tuple[tuple[ChildStarted, ...], UpstreamSessionId]:
        """Return whose words a frame holds, after the child's start when they are its first."""
        call_id = text_at(frame, "parent_tool_use_id")
        if not call_id:
            return (), session
        known = self._by_call.get(call_id)
        if known is not None:
            return (), known
        # Where a version names no sub-agent, its call is an id that no other one has.
        child = child_session(session, text_at(frame, "agent_id") or call_id)
        return self._start(child, parent=session, call_id=call_id, role=role_of(frame)), child

    def started(
        self, frame: dict[str, Any], session: UpstreamSessionId
    ) -> tuple[ChildStarted, ...]:
        """Return the start that a `task_started` frame tells of, none for another kind of task."""
        task_id, call_id = text_at(frame, "task_id"), text_at(frame, "tool_use_id")
        if text_at(frame, "task_type") != SUBAGENT_TASK or not task_id or not call_id:
            return ()
        parent_task = text_at(frame, "parent_task_id")
        parent = child_session(session, parent_task) if parent_task else session
        child = child_session(session, task_id)
        return self._start(child, parent=parent, call_id=call_id, role=role_of(frame))

    def ended(self, frame: dict[str, Any], session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
        """Return the end that a `task_notification` frame tells of."""
        child = child_session(session, text_at(frame, "task_id"))
        if child not in self._parents:
            return ()
        outcome = _ENDS.get(text_at(frame, "status"), Outcome.UNKNOWN)
        ended = ChildEnded(
            upstream_session_id=self._parents[child],
            child_upstream_session_id=child,
            outcome=outcome,
        )
        return (ended,)

    def _start(
        self, child: UpstreamSessionId, *, parent: UpstreamSessionId, call_id: str, role: str
    ) -> tuple[ChildStarted, ...]:
        if len(self._by_call) >= CHILDREN_REMEMBERED_MAX:
            del self._by_call[next(iter(self._by_call))]
        self._by_call[call_id] = child
        self._parents[child] = parent
        started = ChildStarted(
            upstream_session_id=parent,
            child_upstream_session_id=child,
            role=role,
            call_id=call_id,
        )
        return (started,)
