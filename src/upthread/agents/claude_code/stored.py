"""A session of Claude Code, its own or a sub-agent's, read back from its transcript.

Where nobody was told which sub-agent a call made, the small file beside its transcript names the
call. What a call asked for is in the main session's transcript as well, from before there is a
sub-agent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from upthread.agents._json import text_at
from upthread.agents.claude_code.histories import (
    called_with,
    find_subagent,
    find_transcript,
    newest_heard,
    subagents_by_call,
)
from upthread.agents.claude_code.transcript import read_history
from upthread.core.turns.hooked_call import CutOffCall, StoredSession
from upthread.core.types import UpstreamSessionId
from upthread.errors import StoreError
from upthread.vendors.homes import file_stamp, require_own

TRANSCRIPT_BYTES_MAX: Final = 64 * 1024 * 1024


def read_stored(home: Path, call: CutOffCall) -> StoredSession | None:
    """Return what the store holds of a call's sub-agent, None for nothing. Raises StoreError."""
    main = find_transcript(home, call.main_session)
    if main is None:
        return None
    agent_id = call.session or subagents_by_call(main).get(call.call_id, "")
    path = find_subagent(home, call.main_session, agent_id)
    # One that is named and not there is a loss to be told, and no call that made none.
    if path is None and agent_id and not call.session:
        raise StoreError(
            f"the transcript of sub-agent {agent_id} is not beside what names it",
            hint="put it back where Claude Code had it",
        )
    if path is None:
        return None
    require_own(home, path, bytes_max=TRANSCRIPT_BYTES_MAX)
    session = UpstreamSessionId(agent_id)
    # Before it is read: what is touched in between then counts as not seen by the session.
    written_at_ns = path.stat().st_mtime_ns
    return StoredSession(
        upstream_session_id=session,
        events=read_history(path, session, with_usage=True),
        written_at_ns=written_at_ns,
    )


def read_session(home: Path, session: UpstreamSessionId) -> StoredSession | None:
    """Return a main session as its transcript holds it, None without one. Raises StoreError."""
    path = find_transcript(home, session)
    if path is None:
        return None
    require_own(home, path, bytes_max=TRANSCRIPT_BYTES_MAX)
    # Before it is read: what is touched in between then counts as not seen by the session.
    written_at_ns = path.stat().st_mtime_ns
    return StoredSession(
        upstream_session_id=session,
        events=read_history(path, session, with_usage=True),
        written_at_ns=written_at_ns,
    )


def stamp_of(home: Path, session: UpstreamSessionId) -> str:
    """Return what a session's transcript is known by, empty without one."""
    path = find_transcript(home, session)
    return (newest_heard(path) or file_stamp(path)) if path else ""


def read_asked(home: Path, call: CutOffCall) -> str:
    """Return what a call asked for by its main session, empty for nothing. Raises StoreError."""
    main = find_transcript(home, call.main_session)
    if main is None:
        return ""
    require_own(home, main, bytes_max=TRANSCRIPT_BYTES_MAX)
    given = called_with(main, call.call_id)
    return text_at(given, "prompt") or text_at(given, "message")
