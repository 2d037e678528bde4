"""OpenCode's sessions: made, attached, read back, forked, listed. Exactly the one asked for.

`missing` is the server's own 404. An id of another form than OpenCode's gets a bare error from it
(500 in 1.18.33), so such a one is looked for in the list before anything is said.

A role's limits go with each prompt: tools that are off, and the model. Only ever `false`: a tool
that is switched on would pass by what the person's own configuration asks about. What is denied for
some arguments only, our gate refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import anyio
import anyio.to_thread

from upthread.agent_stores.homes import home_of
from upthread.agents._connection import RefusedByAgentError, open_elsewhere
from upthread.agents._json_lines import as_object, objects_at, text_at
from upthread.agents.base import ListedSession
from upthread.agents.opencode.parts import history
from upthread.agents.opencode.reader import AGENT, writer_of
from upthread.agents.opencode.server import OpenCodeServer
from upthread.core.events import AgentEvent
from upthread.core.roles.limits import EDITING, RoleLimits, denies_wholly, named_tools
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError

LISTED_MAX: Final = 100_000
"""More than anybody was seen to have. A list of as many may go on."""

EVERYWHERE: Final = {"scope": "project"}
"""The query for a repository's sessions in all directories."""

TOOLS: Final = ("bash", "codesearch", "external_directory", "glob", "grep", "list", "lsp", "read")
"""OpenCode's tools and permissions, as seen in 1.18.33; `edit` stands for all that edit."""
MORE_TOOLS: Final = ("question", "skill", "task", "todoread", "todowrite", "webfetch", "websearch")


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
        answer = await self._server.post("/session", body)
        return self._server.session_named(text_at(answer, "id"), "POST /session")

    async def attach(self, session: UpstreamSessionId) -> None:
        """Raise UpstreamError unless the server has exactly this session, and alone (A4)."""
        home = home_of(AGENT, self._server.child.environment())
        if pid := await anyio.to_thread.run_sync(writer_of, home, session):
            raise open_elsewhere(self._server.agent, session, pid)
        try:
            answer = await self._server.get(path_of(session), session=session)
        except RefusedByAgentError as refused:
            await self._confirm(refused, session)
            raise
        returned = text_at(answer, "id")
        if returned != session:
            raise self._server.opened_another(repr(returned), session)
        # Without it OpenCode takes a prompt, and fails without a word (1.18.33).
        await _require_directory(session, text_at(answer, "directory"))

    async def _confirm(self, refused: RefusedByAgentError, session: UpstreamSessionId) -> None:
        if refused.outcome == Outcome.MISSING:
            return
        # Sub-agents' sessions too, and those of other directories: one whose directory was moved is
        # looked for there (500 if a file has its place, 1.18.33).
        listed = [
            one for query in ({}, EVERYWHERE) for one in await self.listed(query, roots_only=False)
        ]
        for one in listed:
            if one.upstream_session_id == session:
                await _require_directory(session, one.working_directory)
                return
        # Nor is it known to be gone where the list may go on: `missing` ends a session for good.
        if len(listed) >= LISTED_MAX:
            return
        refused.message += "; it does not list this session"
        refused.outcome = Outcome.MISSING

    async def read(self, session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
        """Return a session's history. One whose messages it cannot read is `corrupted`."""
        await self.attach(session)
        try:
            messages = await self._server.get(path_of(session, "message"), session=session)
        except RefusedByAgentError as refused:
            # Not for the moment: it has just read the session itself from the same database.
            if refused.outcome == Outcome.UNKNOWN:
                refused.outcome = Outcome.CORRUPTED
            raise
        return history(messages, session)

    async def listed(
        self, query: Mapping[str, str] = MappingProxyType({}), *, roots_only: bool = True
    ) -> tuple[ListedSession, ...]:
        """Return the sessions of the project, children only where asked for."""
        asked = {"limit": str(LISTED_MAX), **({"roots": "true"} if roots_only else {}), **query}
        answer = await self._server.get("/session", query=asked)
        return tuple(_listed(one) for one in objects_at({"sessions": answer}, "sessions"))

    async def fork(self, session: UpstreamSessionId) -> UpstreamSessionId:
        """Return a new session with the same history. The server gives a fork no parent."""
        await self.attach(session)
        answer = await self._server.post(path_of(session, "fork"), session=session)
        return self._server.fork_named(text_at(answer, "id"), session, "the fork")


async def _require_directory(session: UpstreamSessionId, directory: str) -> None:
    if directory and not await anyio.Path(directory).is_dir():
        raise UpstreamError(
            f"the session {session} works in {directory}, which is gone",
            outcome=Outcome.WORKSPACE_CHANGED,
            hint="put the directory back, or let the session be replaced",
        )


def _listed(session: Mapping[str, Any]) -> ListedSession:
    updated = as_object(session.get("time")).get("updated")
    return ListedSession(
        upstream_session_id=UpstreamSessionId(text_at(session, "id")),
        title=text_at(session, "title"),
        working_directory=text_at(session, "directory"),
        updated_at=str(updated) if isinstance(updated, int) else "",
    )


def prompt_limits(limits: RoleLimits, *, agent: str) -> Mapping[str, Any]:
    """Return the members of a prompt's body that hold the limits, none for none."""
    off = [tool for tool in (*TOOLS, *MORE_TOOLS) if denies_wholly(limits, tool)]
    off += ["edit"] if all(denies_wholly(limits, tool) for tool in EDITING) else []
    off += [tool for tool in named_tools(limits) if denies_wholly(limits, tool) and tool not in off]
    provider, _, model = limits.model_for(agent).partition("/")
    return {
        **({"tools": dict.fromkeys(off, False)} if off else {}),
        **({"model": {"providerID": provider, "modelID": model}} if model else {}),
    }
