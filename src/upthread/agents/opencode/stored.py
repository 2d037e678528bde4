"""A sub-agent's session of OpenCode, read back from its database.

Where nobody was told which session a call made, the running part of the call names it.
"""

from __future__ import annotations

from pathlib import Path

from upthread.agents.opencode.parts import history
from upthread.core.cut_off import CutOffCall, StoredSession
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
                events=history(list(found.messages), session),
                # It counts in whole milliseconds: the whole of its last one is its own.
                written_at_ns=(found.written_at_ms + 1) * NS_PER_MS,
            )
    return None
