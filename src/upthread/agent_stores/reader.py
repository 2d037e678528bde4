"""The reader of an agent's own store: the port that each agent with a store has, as `reader`.

A reader opens nothing for writing and leaves no file behind. What it cannot read it reports with
its place and leaves where it is. `home` is the directory that `agent_stores/homes.py` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from upthread.agent_stores.base import VendorHistory
from upthread.agent_stores.copies import RepairedCopy
from upthread.agent_stores.outline import Look, SessionOutline
from upthread.agent_stores.text_search import Searched
from upthread.core.turns.recognition import CutOffCall, StoredSession, UndecidedCall
from upthread.core.types import UpstreamSessionId


class Reader(Protocol):
    """Reads the sessions of one agent: listed, searched, diagnosed, and as events."""

    def outlines(self, home: Path, look: Look, /) -> Iterator[SessionOutline]:
        """Yield each session, by a row or by both ends of its file; counts what it passes over."""
        ...

    def sessions(self, home: Path, look: Look, held: ExitStack, /) -> Iterator[Searched]:
        """Yield each session to be searched, in any order; `held` keeps open what they read."""
        ...

    def find_histories(self, home: Path, /) -> Iterator[Path]:
        """Yield each file that may hold sessions, a sub-agent's after its main session's."""
        ...

    def read_histories(
        self, path: Path, /, *, characters_max: int | None = None
    ) -> Iterator[VendorHistory]:
        """Yield the sessions of a file as the agent would send them. Raises StoreError."""
        ...

    def repair(
        self, path: Path, into: Path, /, *, session_id: str | None, sessions: Iterable[str]
    ) -> RepairedCopy:
        """Copy a file and repair the copy; UsageError where a copy is there already."""
        ...

    def read_session(self, home: Path, session: UpstreamSessionId, /) -> StoredSession | None:
        """Return a session as events, None where it is not there. Raises OSError, StoreError."""
        ...

    def read_stored(self, home: Path, call: CutOffCall, /) -> StoredSession | None:
        """Return a sub-agent's session by the call that made it. Otherwise as `read_session`."""
        ...

    def undecided_calls(self, home: Path, mark: str, since_ns: int, /) -> Iterator[UndecidedCall]:
        """Yield the calls of sub-agents beside which our hook wrote a mark since a moment."""
        ...

    def stamp_of(self, home: Path, session: UpstreamSessionId, /) -> str:
        """Return what changes with each prompt of a session, empty where it is not there."""
        ...

    def version_of(self, home: Path, session: UpstreamSessionId, /) -> str:
        """Return the version of the agent that a session is of, empty where it is not known."""
        ...
