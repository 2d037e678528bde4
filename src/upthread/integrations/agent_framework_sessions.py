"""Whole sessions of Microsoft's Agent Framework on upthread's record.

By themselves: agent-framework-core 1.23 warns of its SessionStore, which is an experiment, as soon
as a class is made from it.
"""

from agent_framework import AgentSession, SessionStore

from upthread.integrations.agent_framework import Snapshots
from upthread.integrations.on_record import Folding, settled
from upthread.runtime.record.entry_log import EntryLog

SESSIONS = "agent-framework-session"


class UpthreadSessionStore(Folding[Snapshots], SessionStore):
    """Whole sessions by an id of the caller's. Each `set` is kept; `get` returns the newest."""

    _kind = Snapshots

    async def get(self, session_id: str) -> AgentSession | None:
        """Return a copy of a session, None without one. ValueError for an id that is none."""
        self.validate_session_id(session_id)
        log = self._log(session_id)
        found = await self._look(lambda: self._folds.of(log).fold.by_id.get(session_id))
        return AgentSession.from_dict(found) if found else None

    async def set(self, session_id: str, session: AgentSession) -> None:
        """Keep a copy of a session in place of the one before. ValueError for a bad id."""
        self.validate_session_id(session_id)
        snapshot = session.to_dict()
        log = self._log(session_id)
        await settled(self._folds.append, log, lambda at: at.fold.entry(session_id, snapshot))

    async def delete(self, session_id: str) -> None:
        """Erase a session. ValueError for an id that is none."""
        self.validate_session_id(session_id)
        await settled(self._log(session_id).rewrite, lambda _: ())

    def _log(self, session_id: str) -> EntryLog:
        return self._record.log(SESSIONS, session_id)
