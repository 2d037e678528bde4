"""Which threads a prompt's own thread has given work to, and when they began and ended. Pure.

A sub-agent is a thread of its own, named by the call that spawned it or gave it more work. It is
told as started before anything it says. One object serves one prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from upthread.agents._json import text_at, texts_at
from upthread.core.events import ChildEnded, ChildStarted
from upthread.core.types import Outcome, UpstreamSessionId

ROLE_UNKNOWN: Final = "subagent"
"""A sub-agent spawned without a type has no role."""

CALL: Final = "collabAgentToolCall"
ACTIVITY: Final = "subAgentActivity"
GIVES_WORK: Final = frozenset({"spawnAgent", "sendInput", "resumeAgent", "followupTask"})

_ENDS: Final[Mapping[str, Outcome]] = {
    "completed": Outcome.OK,
    "interrupted": Outcome.CANCELLED,
}


def children_named(item: Mapping[str, Any]) -> tuple[UpstreamSessionId, ...]:
    """Return the threads that an item gives work to, none for any other item."""
    if item.get("type") == ACTIVITY and item.get("kind") == "started":
        named = text_at(item, "agentThreadId")
        return (UpstreamSessionId(named),) if named else ()
    if item.get("type") != CALL or item.get("tool") not in GIVES_WORK:
        return ()
    return tuple(UpstreamSessionId(each) for each in texts_at(item, "receiverThreadIds"))


class Family:
    """A thread and all below it. `working` are the children that have not ended."""

    def __init__(self, session: UpstreamSessionId) -> None:
        self.working: set[UpstreamSessionId] = set()
        self._session = session
        self._parents: dict[UpstreamSessionId, UpstreamSessionId] = {}

    def has_child(self, session: UpstreamSessionId) -> bool:
        """Whether a thread is known to be below the prompt's own."""
        return session in self._parents

    def start(
        self,
        child: UpstreamSessionId,
        *,
        parent: UpstreamSessionId,
        role: str = "",
        call_id: str | None = None,
    ) -> tuple[ChildStarted, ...]:
        """Return the start of a child, nothing for one that has started already."""
        if child in self._parents or child == self._session:
            return ()
        self._parents[child] = parent
        self.working.add(child)
        started = ChildStarted(
            upstream_session_id=parent,
            child_upstream_session_id=child,
            role=role or ROLE_UNKNOWN,
            call_id=call_id,
        )
        return (started,)

    def goes_on(self, child: UpstreamSessionId) -> None:
        """Note that a child has begun to work, perhaps again."""
        # It may be given more work once it has ended, and is waited for again.
        if child in self._parents:
            self.working.add(child)

    def end(self, child: UpstreamSessionId, status: str) -> tuple[ChildEnded, ...]:
        """Return the end of a child's work, nothing for one that was not at work."""
        if child not in self.working:
            return ()
        self.working.discard(child)
        ended = ChildEnded(
            upstream_session_id=self._parents[child],
            child_upstream_session_id=child,
            outcome=_ENDS.get(status, Outcome.UNKNOWN),
        )
        return (ended,)
