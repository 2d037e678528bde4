"""Which sessions a prompt's own session has given work to, and when they began and ended.

A child is seen when its session is made, when a `task` call names it, or both; a child of an
earlier prompt that is given more work is only named. It is told as started before anything it says,
with the call it came from where that is known by then. One that goes on in the background ends when
OpenCode says so to the session that it works for. One object serves one prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from upthread.agents._json import text_at
from upthread.agents.opencode.parts import (
    child_named,
    end_of_background,
    goes_on_in_background,
)
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
        self.in_background: set[UpstreamSessionId] = set()
        self.silent: set[UpstreamSessionId] = set()

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
        # One that another session gives work to keeps the parent it was made by (1.18.33).
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
        if status not in {"completed", "error"}:
            return ()
        # Its call is answered at once, and it works on (1.18.33, where that is switched on).
        if goes_on_in_background(part):
            self.in_background.add(child)
            return ()
        outcome = Outcome.OK if status == "completed" else Outcome.UNKNOWN
        return (self._end(child, session, outcome),)

    def told_of_end(
        self, part: Mapping[str, Any], session: UpstreamSessionId, *, otherwise: Outcome
    ) -> tuple[ChildEnded, ...]:
        """Return the end of a child in the background that a session has been told of.

        `otherwise` is what it came to where it did not end well.
        """
        found = end_of_background(part)
        if found is None or found[0] not in self.in_background:
            return ()
        child, went_well = found
        return (self._end(child, session, Outcome.OK if went_well else otherwise),)

    def note_idle(self, child: UpstreamSessionId, *, is_idle: bool) -> None:
        """Take note that a child stands still, or works again; `silent` are those that do."""
        if is_idle:
            self.silent.add(child)
        else:
            self.silent.discard(child)

    def end_background(self, outcome: Outcome, *, only_silent: bool) -> tuple[ChildEnded, ...]:
        """Return the ends of children in the background whose end nobody is told of any more."""
        over = self.in_background & self.silent if only_silent else set(self.in_background)
        return tuple(self._end(child, self._parents[child], outcome) for child in sorted(over))

    def _end(
        self, child: UpstreamSessionId, session: UpstreamSessionId, outcome: Outcome
    ) -> ChildEnded:
        self._ended.add(child)
        self.in_background.discard(child)
        return ChildEnded(
            upstream_session_id=session, child_upstream_session_id=child, outcome=outcome
        )

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
