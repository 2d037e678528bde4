"""A sub-agent's session of OpenCode, read back from its database.

Where nobody was told which session a call made, the running part of the call names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upthread.agents._json import as_object
from upthread.agents.opencode.parts import history, usage
from upthread.core.cut_off import CutOffCall, StoredSession
from upthread.core.events import AgentEvent
from upthread.core.types import UpstreamSessionId
from upthread.vendors.finding import require_own
from upthread.vendors.opencode import (
    DATABASE_BYTES_MAX,
    called_session,
    find_databases,
    read_messages,
)

NS_PER_MS = 1_000_000


def read_stored(data_home: Path, call: CutOffCall) -> StoredSession | None:
    """Return what the store holds of a call's sub-agent, None for nothing. Raises StoreError."""
    for path in find_databases(data_home):
        require_own(data_home, path, bytes_max=DATABASE_BYTES_MAX)
        named = call.session or called_session(path, call.main_session, call.call_id)
        found = read_messages(path, named) if named else None
        if found is not None:
            session = UpstreamSessionId(named)
            return StoredSession(
                upstream_session_id=session,
                events=tuple(event for each in found.messages for event in _events(each, session)),
                # It counts in whole milliseconds: the whole of its last one is its own.
                written_at_ns=(found.written_at_ms + 1) * NS_PER_MS,
            )
    return None


def _events(message: Mapping[str, Any], session: UpstreamSessionId) -> Iterator[AgentEvent]:
    yield from history([message], session)
    held = usage(as_object(message.get("info")), session, window=None)
    if held is not None:
        yield held
