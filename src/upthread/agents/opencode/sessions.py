"""OpenCode's sessions: made, attached, read back, forked, listed. Exactly the one asked for.

`missing` is the server's own 404. An id of another form than OpenCode's gets a bare error from it
(500 in 1.18.33), so such a one is looked for in the list before anything is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from upthread.agents._json import as_object, objects_at, text_at
from upthread.agents.base import ListedSession
from upthread.agents.opencode.parts import history
from upthread.agents.opencode.server import OpenCodeServer, RefusedByServerError
from upthread.core.events import AgentEvent
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError

LISTED_MAX: Final = 100_000


def path_of(session: UpstreamSessionId, *below: str) -> str:
    """Return the path of a session; whatever the id holds, it stays one segment."""
    return "/".join(["/session", quote(session, safe=""), *below])


class Sessions:
    """The sessions one server knows."""

    def __init__(self, server: OpenCodeServer, *, title: str) -> None:
        self._server = server
        self._title = title

    async def new(self) -> UpstreamSessionId:
        """Make a session. Raises UpstreamError when none was named.

        With a title of ours OpenCode asks no model for one.
        """
        body = {"title": self._title} if self._title else None
        return self._named(as_object(await self._server.post("/session", body)), "POST /session")

    async def attach(self, session: UpstreamSessionId) -> None:
        """Raise UpstreamError unless the server has exactly this session (A4)."""
        try:
            answer = await self._server.get(path_of(session), session=session)
        except RefusedByServerError as refused:
            raise await self._confirmed(refused, session) from refused
        returned = text_at(answer, "id")
        if returned != session:
            raise UpstreamError(
                f"{self._server.agent} answered with session {returned!r} "
                f"when asked for session {session}",
                outcome=Outcome.UNKNOWN,
                hint="it was not used",
                upstream_session_id=session,
            )

    async def _confirmed(
        self, refused: RefusedByServerError, session: UpstreamSessionId
    ) -> UpstreamError:
        if refused.outcome == Outcome.MISSING:
            return refused
        # Sub-agents' sessions too: those are gone on with by their ids as well.
        listed = {one.upstream_session_id for one in await self.listed(roots_only=False)}
        if session in listed:
            return refused
        error = UpstreamError(
            f"{refused.message}; it does not list this session",
            outcome=Outcome.MISSING,
            hint=refused.hint,
        )
        error.ids.update(refused.ids)
        return error

    async def read(self, session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
        """Return a session's history."""
        await self.attach(session)
        messages = await self._server.get(path_of(session, "message"), session=session)
        return history(messages, session)

    async def listed(self, *, roots_only: bool = True) -> tuple[ListedSession, ...]:
        """Return the sessions of the project, children only where asked for."""
        query = {"limit": str(LISTED_MAX), **({"roots": "true"} if roots_only else {})}
        answer = await self._server.get("/session", query=query)
        return tuple(_listed(one) for one in objects_at({"sessions": answer}, "sessions"))

    async def fork(self, session: UpstreamSessionId) -> UpstreamSessionId:
        """Return a new session with the same history. The server gives a fork no parent."""
        await self.attach(session)
        answer = await self._server.post(path_of(session, "fork"), session=session)
        forked = self._named(as_object(answer), "the fork")
        if forked == session:
            raise UpstreamError(
                f"{self._server.agent} answered the fork of session {forked} with that session",
                outcome=Outcome.UNKNOWN,
                hint="start a fresh session with a briefing instead",
                upstream_session_id=forked,
            )
        return forked

    def _named(self, answer: Mapping[str, Any], asked: str) -> UpstreamSessionId:
        session = text_at(answer, "id")
        if not session:
            raise UpstreamError(
                f"{self._server.agent} answered {asked} without a session id",
                outcome=Outcome.UNKNOWN,
                hint="nothing was recorded; try again",
            )
        return UpstreamSessionId(session)


def _listed(session: Mapping[str, Any]) -> ListedSession:
    updated = as_object(session.get("time")).get("updated")
    return ListedSession(
        upstream_session_id=UpstreamSessionId(text_at(session, "id")),
        title=text_at(session, "title"),
        working_directory=text_at(session, "directory"),
        updated_at=str(updated) if isinstance(updated, int) else "",
    )
