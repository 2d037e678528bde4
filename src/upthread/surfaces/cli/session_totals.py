"""Totals: what is told of many sessions, taken in one after the other. Values only.

Of each session only what is told is kept, so that memory does not grow with their number.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from msgspec import Struct, field

from upthread.agent_stores.outline import DAY_MS, SessionOutline

SOON_DAYS: Final = 7
DIRECTORIES_MAX: Final = 10_000
"""Of more directories than these only the number of sessions is known."""

ROLES_MAX: Final = 1_000
KEPT_MAX: Final = 10
"""How many sessions are told of one by one, unless all are asked for."""


class Numbers(Struct):
    """How many there are of something, and when one of them was used last."""

    sessions: int = 0
    sub_agents: int = 0
    used_at_ms: int = 0

    def add(self, outline: SessionOutline) -> None:
        """Count a session."""
        self.sub_agents += outline.is_sub_agent
        self.sessions += not outline.is_sub_agent
        self.used_at_ms = max(self.used_at_ms, outline.used_at_ms)


class Soon(Struct):
    """Which sessions an agent deletes soon: how many, how many of them here, and the first one."""

    sessions: int = 0
    here: int = 0
    first_at_ms: int = 0


def is_deleted_soon(outline: SessionOutline, now_ms: int) -> bool:
    """Return whether its agent deletes a session within a few days."""
    at_ms = outline.deleted_at_ms
    return at_ms is not None and at_ms <= now_ms + SOON_DAYS * DAY_MS


class Newest(Struct):
    """The newest few of many sessions."""

    most: int
    count: int = 0
    _heap: list[tuple[int, int, SessionOutline]] = field(
        default_factory=list[tuple[int, int, SessionOutline]]
    )

    def add(self, outline: SessionOutline) -> None:
        """Take one in; it may be forgotten again for a newer one."""
        self.count += 1
        # The number before the session: of two at the same moment neither is compared further.
        entry = (outline.used_at_ms, -self.count, outline)
        if len(self._heap) < self.most:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    @property
    def outlines(self) -> list[SessionOutline]:
        """Them, the newest first."""
        return [outline for _, _, outline in sorted(self._heap, reverse=True)]


class RoleHere(Struct):
    """The sub-agents of one role and one agent: how many, and the newest."""

    newest: SessionOutline
    count: int = 0


class Totals:
    """All that is told. `is_here` says which directories are the project's.

    `held` are the sessions that are in our own record, of which nothing is lost when their agent
    deletes them.
    """

    def __init__(
        self,
        is_here: Callable[[str], bool],
        *,
        now_ms: int,
        kept_max: int = KEPT_MAX,
        held: Collection[str] = (),
    ) -> None:
        self._held = held
        self._is_here = is_here
        self._now_ms = now_ms
        self.agents: dict[str, Numbers] = {}
        self.agents_here: dict[str, Numbers] = {}
        self.elsewhere: dict[str, Numbers] = {}
        self.sessions_here = Newest(kept_max)
        self.roles_here: dict[tuple[str, str], RoleHere] = {}
        self.sub_agents_here = Newest(kept_max)
        self.interrupted_here = Newest(kept_max)
        self.soon: dict[str, Soon] = {}
        self.foreign: Counter[str] = Counter()

    @property
    def sessions(self) -> int:
        """How many sessions there are, sub-agents not counted."""
        return sum(each.sessions for each in self.agents.values())

    def add(self, outline: SessionOutline) -> None:
        """Take a session in."""
        if outline.is_foreign:
            self.foreign[outline.agent] += 1
            return
        is_here = self._is_here(outline.directory)
        self.agents.setdefault(outline.agent, Numbers()).add(outline)
        if is_here:
            self.agents_here.setdefault(outline.agent, Numbers()).add(outline)
            self._add_here(outline)
        elif outline.directory in self.elsewhere or len(self.elsewhere) < DIRECTORIES_MAX:
            self.elsewhere.setdefault(outline.directory, Numbers()).add(outline)
        self._add_soon(outline, is_here=is_here)

    def _add_here(self, outline: SessionOutline) -> None:
        if not outline.is_sub_agent:
            self.sessions_here.add(outline)
            if outline.ending == "interrupted":
                self.interrupted_here.add(outline)
        elif outline.is_of_a_role:
            self._add_role(outline)

    def _add_role(self, outline: SessionOutline) -> None:
        self.sub_agents_here.add(outline)
        key = (outline.role, outline.agent)
        if key not in self.roles_here and len(self.roles_here) >= ROLES_MAX:
            return
        role = self.roles_here.setdefault(key, RoleHere(newest=outline))
        role.count += 1
        if outline.used_at_ms > role.newest.used_at_ms:
            role.newest = outline

    def _add_soon(self, outline: SessionOutline, *, is_here: bool) -> None:
        at_ms = outline.deleted_at_ms
        if at_ms is None or not is_deleted_soon(outline, self._now_ms):
            return
        soon = self.soon.setdefault(outline.agent, Soon(first_at_ms=at_ms))
        soon.sessions += 1
        soon.here += is_here and outline.session_id not in self._held
        soon.first_at_ms = min(soon.first_at_ms, at_ms)
