"""One `codex app-server` as a child process, and the threads it knows.

What we ask is answered under the number we gave it. What the server tells and asks goes into a
queue, in order, and whoever takes it may ask in between. The queue is short: a reader that is slow
fills it, then the pipe, and so stops the agent. Every way a request can fail is an UpstreamError.

Only ids reach the server, in the one form Codex gives them: what is no UUID it would take for a
name or refuse with words of its own. What comes back is compared with what was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from upthread.agents._connection import JsonLines, is_uuid
from upthread.agents._json_lines import as_object, objects_at, text_at
from upthread.agents._outcomes import DETAIL_CHARACTERS_MAX
from upthread.agents._process import ChildProcess
from upthread.agents.base import ListedSession
from upthread.agents.codex.items import history_of
from upthread.agents.codex.outcomes import outcome_of_refusal
from upthread.agents.codex.turn import FIRST_NAME
from upthread.core.events import AgentEvent
from upthread.core.quotas import HISTORY
from upthread.core.roles.limits import RoleLimits
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError

QUEUED_MAX: Final = 64
"""Events that wait for whoever takes them. Then reading stops, the pipe fills, and Codex waits: a
slow reader holds its agent up, and neither memory nor an event is lost."""

BUSY_HINT: Final = (
    "leave it where it is open; Codex's own command leaves a server behind that keeps it: "
    "codex app-server daemon stop"
)
"""Seen in 0.169.0; `codex resume --no-daemon` leaves none."""

CODE_METHOD_NOT_FOUND: Final = -32601

PAGE_ENTRIES: Final = 100
PAGES_MAX: Final = 10_000
ROLE_PATIENCE_S: Final = 2.0
"""How long the server may take to say what a sub-agent is, while its words wait."""
ROLE_ASKED_AGAIN_S: Final = 0.05
SOURCES: Final = ("cli", "vscode", "exec", "appServer")
"""Threads that people or programs have begun; those of sub-agents are left out."""

_AS_NARROW: Final = {
    "read-only": frozenset({"readOnly"}),
    "workspace-write": frozenset({"readOnly", "workspaceWrite"}),
}
"""The policies a thread answers with, as narrow as each mode or narrower (0.169.0)."""


class CodexServer(JsonLines):
    """A running server. `told` is what it says by itself, and ends with its output."""

    def __init__(self, child: ChildProcess, *, agent: str, timeout_s: float) -> None:
        super().__init__(child, agent=agent, timeout_s=timeout_s)
        self.told: MemoryObjectReceiveStream[Any]
        self._queue, self.told = anyio.create_memory_object_stream[Any](QUEUED_MAX)

    async def read_all(self) -> None:
        """As every agent's; its end tells whoever takes what is told that nothing more comes."""
        with self._queue:
            await super().read_all()

    async def _take(self, message: object) -> None:
        answer = as_object(message)
        number = answer.get("id")
        if "method" in answer and "id" in answer:
            self.child.allowance.take_request()
        if "method" in answer or not isinstance(number, int):
            await self._queue.send(message)
        else:  # of a question that was waited for too long, it is nobody's
            self._questions.answer(number, answer)

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        session: UpstreamSessionId | None = None,
    ) -> dict[str, Any]:
        """Ask, within the start-up deadline, and return the result."""
        answer = await self._answer_to(
            method,
            lambda number: self.send({"id": number, "method": method, "params": params}),
            session=session or "",
        )
        if "error" in answer:
            said = text_at(answer, "error", "message")
            outcome = outcome_of_refusal(said)
            hint = BUSY_HINT if outcome is Outcome.BUSY else ""
            said = said[:DETAIL_CHARACTERS_MAX]
            raise self.refused(method, said, outcome=outcome, session=session or "", hint=hint)
        return as_object(answer.get("result"))

    async def notify(self, method: str) -> None:
        """Tell the server something that has no answer."""
        await self.send({"method": method})

    async def answer(self, request_id: object, result: Mapping[str, Any]) -> None:
        """Answer what the server asked."""
        await self.send({"id": request_id, "result": result})

    async def refuse(self, request_id: object, why: str) -> None:
        """Say that what the server asked cannot be answered."""
        error = {"code": CODE_METHOD_NOT_FOUND, "message": why}
        await self.send({"id": request_id, "error": error})


class Threads:
    """The threads one server knows. Each method may raise UpstreamError."""

    def __init__(
        self, server: CodexServer, *, working_directory: str, title: str, limits: RoleLimits
    ) -> None:
        self._server = server
        self._limits = limits
        self._place = {"cwd": working_directory}
        self._title = title

    async def new(self) -> UpstreamSessionId:
        """Make a thread and have it written down, which takes a name."""
        # Without `cwd` it works where its server was started, which is here. With it, Codex writes
        # into the person's own settings that the directory is trusted (0.171.0), and then runs its
        # MCP servers, also without upthread.
        session = self._named("thread/start", await self._asked("thread/start", {}))
        await self._name(session, self._title or FIRST_NAME)
        return session

    async def attach(self, session: UpstreamSessionId) -> None:
        """Load exactly this thread, to work in our own directory (A4)."""
        if not is_uuid(session):
            raise UpstreamError(
                f"{self._server.agent} has no session {session}",
                outcome=Outcome.MISSING,
                hint="its sessions are named by UUIDs",
                upstream_session_id=session,
            )
        # Without `cwd` it would work where it was begun, and not here (0.169.0).
        asked = {**self._place, "threadId": session, "excludeTurns": True}
        answer = await self._asked("thread/resume", asked, session=session)
        returned = self._named("thread/resume", answer)
        if returned != session:
            raise self._server.opened_another(returned, session)

    async def read(self, session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
        """Return a thread's history. A call that was cut off is not in it (0.169.0)."""
        await self.attach(session)
        # Each history has a quota of its own: what came before counts in neither (ADR 63).
        self._server.child.allowance.renew(HISTORY)
        asked = {"threadId": session, "sortDirection": "asc"}
        stored = await self._pages("thread/items/list", asked, session=session)
        return tuple(
            event for each in stored for event in history_of(as_object(each.get("item")), session)
        )

    async def listed(self) -> tuple[ListedSession, ...]:
        """Return the threads of this machine, newest first, those of sub-agents left out."""
        found = await self._pages("thread/list", {"sourceKinds": SOURCES, "modelProviders": []})
        return tuple(_listed(thread) for thread in found)

    async def fork(self, session: UpstreamSessionId) -> UpstreamSessionId:
        """Return a new thread with the same history."""
        await self.attach(session)
        asked = {**self._place, "threadId": session, "excludeTurns": True}
        answer = await self._asked("thread/fork", asked, session=session)
        forked = self._server.fork_named(text_at(answer, "thread", "id"), session, "thread/fork")
        if self._title:
            await self._name(forked, self._title)
        return forked

    async def _asked(
        self, method: str, asked: Mapping[str, Any], *, session: UpstreamSessionId | None = None
    ) -> dict[str, Any]:
        """Ask for a thread within the role's limits.

        Its sandbox is only ever made narrower: where the person's own is as narrow, or narrower, it
        is left as it is. Raises UpstreamError where the one asked for is not what is there.
        """
        model = self._limits.model_for(self._server.agent)
        asked = {**asked, **({"model": model} if model else {})}
        wanted = self._limits.sandbox
        if wanted == "read-only":
            asked = {**asked, "sandbox": wanted}
        answer = await self._server.ask(method, asked, session=session)
        if wanted == "workspace-write" and _sandbox_in(answer) == "dangerFullAccess":
            # Only an answer tells the person's own sandbox. What `thread/start` made for the first
            # one has no name yet, so that nothing of it is on disk (0.169.0).
            answer = await self._server.ask(method, {**asked, "sandbox": wanted}, session=session)
        if wanted and _sandbox_in(answer) not in _AS_NARROW[wanted]:
            raise UpstreamError(
                f"{self._server.agent} did not take the role's sandbox {wanted}",
                outcome=Outcome.UNKNOWN,
                hint="nothing was sent; look at sandbox_mode in the role's file",
            )
        return answer

    async def _name(self, session: UpstreamSessionId, name: str) -> None:
        asked = {"threadId": session, "name": name}
        await self._server.ask("thread/name/set", asked, session=session)

    async def role_of(self, child: UpstreamSessionId) -> str:
        """Return what kind of sub-agent a thread is, "" for one without a kind or not known.

        Codex refuses while the file of a new thread is still empty (0.169.0), so it is asked again.
        """
        with anyio.move_on_after(ROLE_PATIENCE_S):
            while not self._server.has_ended.is_set():
                try:
                    answer = await self._server.ask("thread/read", {"threadId": child})
                except UpstreamError:
                    await anyio.sleep(ROLE_ASKED_AGAIN_S)
                else:
                    return text_at(answer, "thread", "agentRole")
        return ""  # a child without a role is a child all the same

    async def _pages(
        self, method: str, asked: Mapping[str, Any], *, session: UpstreamSessionId | None = None
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._server.ask(
                method, {**asked, "limit": PAGE_ENTRIES, "cursor": cursor}, session=session
            )
            found += objects_at(page, "data")
            before, cursor = cursor, text_at(page, "nextCursor") or None
            if cursor is None:
                return found
            if cursor == before:
                break
        # A history that is cut short would be taken for the whole of it.
        raise UpstreamError(
            f"{self._server.agent} answered {method} with pages that do not end",
            outcome=Outcome.UNKNOWN,
            hint="neither its sessions nor a history can be confirmed; please report this",
        )

    def _named(self, asked: str, answer: Mapping[str, Any]) -> UpstreamSessionId:
        return self._server.session_named(text_at(answer, "thread", "id"), asked)


def _sandbox_in(answer: Mapping[str, Any]) -> str:
    return text_at(answer, "sandbox", "type")


def _listed(thread: Mapping[str, Any]) -> ListedSession:
    updated = thread.get("updatedAt")
    return ListedSession(
        upstream_session_id=UpstreamSessionId(text_at(thread, "id")),
        title=text_at(thread, "name") or text_at(thread, "preview"),
        working_directory=text_at(thread, "cwd"),
        updated_at=str(updated) if isinstance(updated, int) else "",
    )
