"""The sessions that the agents on this machine have stored: at a glance, and for a search.

Nothing is written, nothing is followed out of an agent's home, and a look ends when its bounds are
met. A search reads only the times of files before it goes through the first session, so that the
first hit does not wait for the last file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from upthread.agent_stores.homes import home_of
from upthread.agent_stores.outline import Look, SessionOutline
from upthread.agents.registry import reader_of
from upthread.core.agents import WITH_A_STORE

if TYPE_CHECKING:
    from upthread.agent_stores.text_search import Searched


def stored_outlines(
    environment: Mapping[str, str], look: Look, *, agent: str | None = None
) -> Iterator[SessionOutline]:
    """Yield the sessions that the agents have stored, one agent after the other.

    `environment` says where they keep theirs, as for histories. With `agent`, only that one's.
    """
    for name, home in _homes(environment, agent):
        yield from reader_of(name).outlines(home, look)


@contextmanager
def searched_sessions(
    environment: Mapping[str, str], look: Look, *, agent: str | None = None
) -> Generator[Iterator[Searched]]:
    """Give the stored sessions, the newest first, to be gone through while this is held.

    `environment` and `agent` as for `stored_outlines`.
    """
    with ExitStack() as held:
        found: list[Searched] = []
        for name, home in _homes(environment, agent):
            found += reader_of(name).sessions(home, look, held)
        yield iter(sorted(found, key=lambda each: -each.used_at_ms))


def _homes(environment: Mapping[str, str], agent: str | None) -> Iterator[tuple[str, Path]]:
    for name in WITH_A_STORE if agent is None else (agent,):
        home = home_of(name, environment)
        if home.exists():
            yield name, home
