"""An agent's sessions: made, attached, forked, listed. Exactly the one asked for, or an error.

`missing` is said only where it is known: by the agent's own code for it, or because the agent lists
its sessions and this is not among them. Whatever else goes wrong leaves the session where it is.

One agent would empty a session that it loads too soon. Gemini CLI 0.61.0 keeps a session in a file
that carries the minute it was begun in. Each load begins a recording of its own first, under the
minute of the load: within the same minute that is the very file, whose messages are gone then for
good. Which minute a session has a file for can be seen, so that there is never a wait without need,
and at most one of a minute.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from upthread.agents._process_end import RefusedByAgentError
from upthread.agents.acp.outcomes import ABOUT_THE_SESSION, outcome_of_suspicion
from upthread.agents.acp.peer import Peer
from upthread.agents.acp.wire import SessionPage, shaped
from upthread.agents.base import ListedSession
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError

LIST_PAGES_MAX: Final = 1000
"""Of pages as small as 20 that is 20,000 sessions. A list that does not end may lack any session,
and what it lacks would count as gone."""

_IF_LISTED: Final = {
    True: "; the agent still lists this session",
    False: "; the agent does not list this session",
}

MINUTE_MS: Final = 60_000
_HEAD_CHARACTERS: Final = 8
"""As much of a session's id as Gemini CLI puts into the name of its file (0.61.0)."""
_HEAD: Final = re.compile(rf"[0-9a-z-]{{{_HEAD_CHARACTERS}}}")


class Sessions:
    """The sessions of one running agent, in one working directory."""

    def __init__(self, peer: Peer, *, working_directory: str) -> None:
        self._peer = peer
        self._place: dict[str, Any] = {"cwd": working_directory, "mcpServers": []}
        self.can_list = False

    async def new(self) -> UpstreamSessionId:
        """Make a session. Raises UpstreamError when none was named."""
        answer = await self._peer.call("session/new", self._place)
        return self._peer.session_named(answer.get("sessionId"), "session/new")

    async def attach(self, method: str, session: UpstreamSessionId) -> None:
        await self._wait_out_minute(session)
        answer = await self._called(method, session)
        # ACP has no id in this answer; one that is there all the same has to be this (A4).
        returned = answer.get("sessionId", session)
        if returned != session:
            error = self._peer.opened_another(returned, session)
            await self._confirm(error, session)
            raise error
        if (
            self._peer.words.quirk.attaches_what_is_gone
            and (await self._looked_up(session))[0] is False
        ):
            raise UpstreamError(
                f"{self._peer.agent} attached session {session} and does not list it",
                outcome=Outcome.MISSING,
                hint="it was not used",
                upstream_session_id=session,
            )

    async def _called(self, method: str, session: UpstreamSessionId) -> dict[str, Any]:
        try:
            return await self._peer.call(method, {**self._place, "sessionId": session})
        except RefusedByAgentError as refused:
            await self._confirm(refused, session)
            raise

    async def _wait_out_minute(self, session: UpstreamSessionId) -> None:
        words = self._peer.words

        def patience_ms() -> int:
            pattern = words.quirk.file_of_minute
            return wait_ms(words.home, pattern, session, now_ms=words.now_ms())

        if words.quirk.file_of_minute:
            await anyio.sleep(await anyio.to_thread.run_sync(patience_ms) / 1000)

    async def _confirm(self, refused: UpstreamError, session: UpstreamSessionId) -> None:
        """Give an error an outcome that can be relied on (A4)."""
        if isinstance(refused, RefusedByAgentError) and refused.is_certain:
            return
        # An opaque refusal of this very session suggests the one thing that its list can tell.
        is_opaque = refused.outcome is Outcome.UNKNOWN
        suspected = Outcome.MISSING if is_opaque else Outcome(refused.outcome)
        # Not our message, which names the session in any case.
        said = ""
        if isinstance(refused, RefusedByAgentError) and not is_opaque:
            said = refused.said
        refused.outcome, because = await self.confirmed(suspected, said, session)
        refused.message += because

    async def confirmed(
        self, suspected: Outcome, said: str, session: UpstreamSessionId
    ) -> tuple[Outcome, str]:
        """Return what is left of an outcome that words alone suggest, and what the list says."""
        is_listed, because = (
            await self._looked_up(session) if suspected in ABOUT_THE_SESSION else (None, "")
        )
        outcome = outcome_of_suspicion(suspected, is_listed=is_listed, is_named=session in said)
        return outcome, because

    async def _looked_up(self, session: UpstreamSessionId) -> tuple[bool | None, str]:
        """Return whether the agent lists a session, anywhere or here, and the words for it.

        None when it cannot be asked, or does not end its list in time.
        """
        if not self.can_list:
            return None, ""
        # What an agent lists without a directory is its own choice, so it is asked twice.
        try:
            listed = await self.listed({}, {"cwd": self._place["cwd"]}, until=session)
        # Not to be asked is not to lack it: only a list without it makes it missing (A4).
        except UpstreamError as error:
            return None, f"; {error.message}" if error.outcome is Outcome.TIMED_OUT else ""
        is_listed = session in {one.upstream_session_id for one in listed}
        return is_listed, _IF_LISTED[is_listed]

    async def listed(
        self, *scopes: Mapping[str, str], until: str = ""
    ) -> tuple[ListedSession, ...]:
        """Return the sessions of each scope, or those up to one. All pages have one deadline."""
        listed: list[ListedSession] = []
        try:
            with anyio.fail_after(self._peer.timeout_s):
                for scope in scopes:
                    async for sessions in self._pages(scope):
                        listed += sessions
                        if until in {one.upstream_session_id for one in sessions}:
                            return tuple(listed)
        except TimeoutError as error:
            raise self._peer.timed_out("session/list to its end") from error
        return tuple(listed)

    async def _pages(self, scope: Mapping[str, str]) -> AsyncGenerator[list[ListedSession]]:
        cursor: str | None = None
        for _ in range(LIST_PAGES_MAX):
            params = {**scope, "cursor": cursor} if cursor else dict(scope)
            page = shaped(await self._peer.call("session/list", params), SessionPage)
            if page is None:
                raise self._unreadable_list()
            yield [
                ListedSession(
                    upstream_session_id=UpstreamSessionId(one.session_id),
                    title=one.title or "",
                    working_directory=one.cwd or "",
                    updated_at=one.updated_at or "",
                )
                for one in page.sessions
            ]
            # A cursor that stands still would give the same page for ever.
            if not page.next_cursor or page.next_cursor == cursor:
                return
            cursor = page.next_cursor
        raise self._unreadable_list()

    def _unreadable_list(self) -> UpstreamError:
        return UpstreamError(
            f"{self._peer.agent} answered session/list with something that is no list",
            outcome=Outcome.UNKNOWN,
            hint="its sessions cannot be confirmed",
        )

    async def fork(self, session: UpstreamSessionId) -> UpstreamSessionId:
        answer = await self._called("session/fork", session)
        return self._peer.fork_named(answer.get("sessionId"), session, "session/fork")


def wait_ms(home: Path, pattern: str, session: str, *, now_ms: int) -> int:
    """Return how long a load is to wait, 0 where it may begin. Blocking.

    `pattern` says where below `home` the file of a session is; `{minute}` in it is a minute of UTC,
    `{head}` how the session's id begins.
    """
    head = session[:_HEAD_CHARACTERS]
    if not _HEAD.fullmatch(head):
        return 0  # no session of that agent: it will say so
    minute = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H-%M")
    if not any(home.glob(pattern.format(minute=minute, head=head))):
        return 0
    return MINUTE_MS - now_ms % MINUTE_MS
