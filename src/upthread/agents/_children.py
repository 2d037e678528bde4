"""The sub-agents of a prompt, as their agent tells of them. Pure, but for what it remembers."""

from upthread.core.events import ChildEnded, ChildStarted, Events
from upthread.core.names import ROLE_UNKNOWN
from upthread.core.types import Outcome, UpstreamSessionId


class Children:
    """Starts each sub-agent before it says anything, and ends it once.

    `own` is the prompt's session, which is nobody's child. `parents` has the children that have
    started, each with the session that made it; `working` are those that have not ended.
    """

    def __init__(self, own: str = "") -> None:
        self.parents: dict[UpstreamSessionId, UpstreamSessionId] = {}
        self.working: set[UpstreamSessionId] = set()
        self._own = own

    def has(self, session: UpstreamSessionId) -> bool:
        """Whether a session is the prompt's own or one below it."""
        return session == self._own or session in self.parents

    def start(
        self,
        child: UpstreamSessionId,
        *,
        parent: UpstreamSessionId,
        role: str = "",
        call_id: str | None = None,
    ) -> Events:
        """Return the start of a child, nothing for one that has started already."""
        if child in self.parents or child == self._own:
            return ()
        self.parents[child] = parent
        self.working.add(child)
        started = ChildStarted(
            upstream_session_id=parent,
            child_upstream_session_id=child,
            role=role or ROLE_UNKNOWN,
            call_id=call_id,
        )
        return (started,)

    def goes_on(self, child: UpstreamSessionId) -> None:
        """Note that a child works, perhaps again: it may be given more work once it has ended."""
        if child in self.parents:
            self.working.add(child)

    def end(self, child: UpstreamSessionId, outcome: Outcome) -> Events:
        """Return the end of a child's work, nothing for a session that was not at work."""
        if child not in self.working:
            return ()
        self.working.discard(child)
        parent = self.parents[child]
        ended = ChildEnded(
            upstream_session_id=parent, child_upstream_session_id=child, outcome=outcome
        )
        return (ended,)
