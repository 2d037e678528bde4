"""Every session that the agents on this machine have stored, at a glance: outlines, no histories.

Each agent's folder has its own, `outline`. Nothing is written, nothing is followed out of an
agent's home, and the look ends when its bounds are met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol, cast

from upthread.agent_stores.homes import home_of
from upthread.agent_stores.outline import Look, SessionOutline
from upthread.agents.registry import part_of
from upthread.core.agents import WITH_A_STORE


class _Outlines(Protocol):
    """The part of an agent's folder that reads outlines."""

    def outlines(self, home: Path, look: Look, /) -> Iterator[SessionOutline]: ...


def stored_outlines(
    environment: Mapping[str, str], look: Look, *, agent: str | None = None
) -> Iterator[SessionOutline]:
    """Yield the sessions that the agents have stored, one agent after the other.

    `environment` says where they keep theirs, as for histories. With `agent`, only that one's.
    """
    for name in WITH_A_STORE if agent is None else (agent,):
        if home_of(name, environment).is_dir():
            part = cast("_Outlines", part_of(name, "outline"))
            yield from part.outlines(home_of(name, environment), look)
