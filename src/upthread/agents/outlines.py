"""Every session that the agents on this machine have stored, at a glance: outlines, no histories.

Nothing is written, nothing is followed out of an agent's home, and the look ends when its bounds
are met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upthread.agent_stores.homes import home_of
from upthread.agent_stores.outline import Look, SessionOutline
from upthread.agents.registry import reader_of
from upthread.core.agents import WITH_A_STORE


def stored_outlines(
    environment: Mapping[str, str], look: Look, *, agent: str | None = None
) -> Iterator[SessionOutline]:
    """Yield the sessions that the agents have stored, one agent after the other.

    `environment` says where they keep theirs, as for histories. With `agent`, only that one's.
    """
    for name in WITH_A_STORE if agent is None else (agent,):
        if home_of(name, environment).exists():
            yield from reader_of(name).outlines(home_of(name, environment), look)
