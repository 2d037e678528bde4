"""Read the agent's own store: its parts, by the names of `agent_stores/reader.py`."""

from __future__ import annotations

from upthread.agents.codex.histories import find_histories, read_histories
from upthread.agents.codex.outline import outlines
from upthread.agents.codex.search import sessions
from upthread.agents.codex.stored import (
    read_session,
    read_stored,
    stamp_of,
    undecided_calls,
    version_of,
)

__all__ = [
    "find_histories",
    "outlines",
    "read_histories",
    "read_session",
    "read_stored",
    "sessions",
    "stamp_of",
    "undecided_calls",
    "version_of",
]
