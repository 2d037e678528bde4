"""What the agents on this machine have stored, for a search: session by session, newest first.

Only the times of files are read before the first session is gone through, so that the first hit
does not wait for the last file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from upthread.agent_stores.homes import home_of
from upthread.agent_stores.outline import Look
from upthread.agent_stores.text_search import Searched
from upthread.agents.registry import reader_of
from upthread.core.agents import WITH_A_STORE


@contextmanager
def searched_sessions(
    environment: Mapping[str, str], look: Look, *, agent: str | None = None
) -> Generator[Iterator[Searched]]:
    """Give the stored sessions, the newest first, to be gone through while this is held.

    `environment` says where they keep theirs, as for histories. With `agent`, only that one's.
    """
    with ExitStack() as held:
        found: list[Searched] = []
        for name in WITH_A_STORE if agent is None else (agent,):
            home = home_of(name, environment)
            if home.exists():
                found += reader_of(name).sessions(home, look, held)
        yield iter(sorted(found, key=lambda each: -each.used_at_ms))
