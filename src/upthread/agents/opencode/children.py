"""Which sessions a prompt's own session has given work to, and when they began and ended.

A child is seen when its session is made, when a `task` call names it, or both; a child of an
earlier prompt that is given more work is only named. It is told as started before anything it says,
with the call it came from where that is known by then. One object serves one prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from upthread.agents._json import text_at
from upthread.agents.opencode.parts import child_named, goes_on_in_background
from upthread.core.events import ChildEnded, ChildStarted
from upthread.core.types import Outcome, UpstreamSessionId

ROLE_UNKNOWN: Final = "subagent"


class Family:
    """A session and all below it."""

    def __init__(self, session: UpstreamSessionId) -> None:
        self._parents: dict[UpstreamSessionId, UpstreamSessionId] = {}
        self._roles: dict[UpstreamSessionId, str] = {}
        self._started: set[UpstreamSessionId] = {session}
        self._ended: set[UpstreamSessionId] = set()

    def has(self, session: UpstreamSessionId) -> bool:
        """Whether a session is the prompt's own or one below it."""
        return session in self._started or session in self._parents

    def born(self, made: Mapping[str, Any]) -> None:
        """Take note of a session that was made; one of another family is let be."""
        parent = UpstreamSessionId(text_at(made, "parentID"))
        if self.has(parent):
            child = UpstreamSessionId(text_at(made, "id"))
            self._parents[child] = parent
            self._roles[child] = text_at(made, "agent") or ROLE_UNKNOWN

    def speaks(self, session: UpstreamSessionId) -> tuple[ChildStarted, ...]:
        """Return the start of a child that is heard before any call named it."""
        return self._start(session, call_id=None)

    def called(
        self, part: Mapping[str, Any], session: UpstreamSessionId
    ) -> tuple[ChildStarted, ...]:
        """Return the start of the child that a call names, nothing for any other call."""
        child = child_named(part)
        if child is None or child in self._started:
            return ()
        self._parents.setdefault(child, session)
        role = text_at(part, "state", "input", "subagent_type")
        self._roles[child] = role or self._roles.get(child, ROLE_UNKNOWN)
        return self._start(child, call_id=text_at(part, "callID"))

    def returned(
        self, part: Mapping[str, Any], session: UpstreamSessionId
    ) -> tuple[ChildEnded, ...]:
        """Return the end of the child whose call has its result, unless it goes on by itself."""
        child = child_named(part)
        if child is None or child not in self._started or child in self._ended:
            return ()
        status = text_at(part, "state", "status")
        if status not in {"completed", "error"} or goes_on_in_background(part):
            return ()
        self._ended.add(child)
        outcome = Outcome.OK if status == "completed" else Outcome.UNKNOWN
        ended = ChildEnded(
            upstream_session_id=session, child_upstream_session_id=child, outcome=outcome
        )
        return (ended,)

    def _start(self, child: UpstreamSessionId, *, call_id: str | None) -> tuple[ChildStarted, ...]:
        parent = self._parents.get(child)
        if parent is None or child in self._started:
            return ()
        self._started.add(child)
        started = ChildStarted(
            upstream_session_id=parent,
            child_upstream_session_id=child,
            role=self._roles[child],
            call_id=call_id,
        )
        return (started,)
