"""A sub-agent's session of Claude Code, read back from its transcript.

Where nobody was told which sub-agent a call made, the small file beside its transcript names the
call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from upthread.agents.claude_code.transcript import read_history
from upthread.core.cut_off import CutOffCall, StoredSession
from upthread.core.types import UpstreamSessionId
from upthread.vendors.claude_code import find_subagent, find_transcript, subagents_by_call
from upthread.vendors.finding import require_own

TRANSCRIPT_BYTES_MAX: Final = 64 * 1024 * 1024


def read_stored(home: Path, call: CutOffCall) -> StoredSession | None:
    """Return what the store holds of a call's sub-agent, None for nothing. Raises StoreError."""
    main = find_transcript(home, call.main_session)
    if main is None:
        return None
    agent_id = call.session or subagents_by_call(main).get(call.call_id, "")
    path = find_subagent(home, call.main_session, agent_id)
    if path is None:
        return None
    require_own(home, path, bytes_max=TRANSCRIPT_BYTES_MAX)
    session = UpstreamSessionId(agent_id)
    written_at_ns = path.stat().st_mtime_ns
    return StoredSession(
        upstream_session_id=session,
        events=read_history(path, session, with_usage=True),
        written_at_ns=written_at_ns,
    )
