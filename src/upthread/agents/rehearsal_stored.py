"""A session of the rehearsal agent, read back from its file as it would replay it."""

from __future__ import annotations

from pathlib import Path

from upthread.agents.acp.wire import events_of
from upthread.agents.rehearsal.history import replay
from upthread.agents.rehearsal.sessions import SessionStore, UnknownSessionError
from upthread.core.turns.hooked_call import StoredSession
from upthread.core.types import UpstreamSessionId
from upthread.vendors.homes import file_stamp


def read_session(home: Path, session: UpstreamSessionId) -> StoredSession | None:
    """Return a session as the agent's file holds it, None without one. Raises OSError."""
    path = _path(home, session)
    if path is None:
        return None
    # Before it is read: what is touched in between then counts as not seen by the session.
    written_at_ns = path.stat().st_mtime_ns
    updates = replay(SessionStore(home).read(session), names_messages=True)
    return StoredSession(
        upstream_session_id=session,
        events=tuple(
            event
            for update in updates
            for event in events_of(str(update["sessionUpdate"]), update, session=session)
        ),
        written_at_ns=written_at_ns,
    )


def stamp_of(home: Path, session: UpstreamSessionId) -> str:
    """Return what a session's file is known by, empty without one."""
    path = _path(home, session)
    return file_stamp(path) if path else ""


def _path(home: Path, session: UpstreamSessionId) -> Path | None:
    if not home.is_dir():
        return None
    try:
        return SessionStore(home).path(session)
    except UnknownSessionError:
        return None
