"""The depth of delegations: a counter beside the routing, as an alarm. It changes nothing.

Events are routed by the session they carry. Counting starts and ends alone would have to guess when
sub-agents run at once or one inside the other, and an end without a start would leave it wrong for
good: each of these is told, with the depth at that moment. A hand-off within a session is no
delegation and does not move the counter.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from upthread.core.types import UpstreamSessionId

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
