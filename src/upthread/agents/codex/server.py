"""One `codex app-server` as a child process: JSON-RPC in lines, both ways.

What we ask is answered under the number we gave it. What the server tells and asks goes into a
queue, in order, and whoever takes it may ask in between. The queue is short: a reader that is slow
fills it, then the pipe, and so stops the agent. Every way a request can fail is an UpstreamError
that names the agent, what was asked, the session, and ends with the server's last words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from upthread.agents._json import Unreadable, as_object, read_json, text_at, write_frame
from upthread.agents._process import ChildProcess
from upthread.agents._process_end import died, last_words
from upthread.agents._questions import Questions
from upthread.agents.codex.outcomes import outcome_of_refusal
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import QuotaExceededError, UpstreamError

QUEUED_MAX: Final = 64
MESSAGE_CHARACTERS_MAX: Final = 2000
BUSY_HINT: Final = (
    "leave it where it is open; Codex's own command leaves a server behind that keeps it: "
    "codex app-server daemon stop"
)
"""Seen in 0.169.0; `codex resume --no-daemon` leaves none."""

UNREADABLE_SHOWN_CHARACTERS: Final = 200
CODE_METHOD_NOT_FOUND: Final = -32601


class CodexServer:
    """A running server. `read_all` serves it, until its output ends; `has_ended` is set then."""

    def __init__(self, child: ChildProcess, *, agent: str, timeout_s: float) -> None:
        self.child = child
        self.agent = agent
        self._questions = Questions()
        self.has_ended = self._questions.has_ended
        self.told: MemoryObjectReceiveStream[Any]
        self._queue, self.told = anyio.create_memory_object_stream[Any](QUEUED_MAX)
        self._timeout_s = timeout_s
        self._violation: QuotaExceededError | None = None
        self._first_unreadable = ""

    async def read_all(self) -> None:
        """Hand on every message until there will be no more."""
        try:
            # Its end tells whoever takes from it that nothing more comes.
            with self._queue:
                while (line := await self.child.read_line()) is not None:
                    if line.strip():
                        await self._take(read_json(line))
        except QuotaExceededError as violation:
            self._violation = violation
            # Past a limit it is ended, and what it had said before is kept (A12, ADR 63).
            await self.child.stop()
        finally:
            # Whoever waits is woken without an answer, and says how the server ended.
            self._questions.end()

    async def _take(self, message: object) -> None:
        if isinstance(message, Unreadable) and not self._first_unreadable:
            self._first_unreadable = str(message.raw)[:UNREADABLE_SHOWN_CHARACTERS]
        answer = as_object(message)
        number = answer.get("id")
        if "method" in answer and "id" in answer:
            self.child.allowance.take_request()
        if "method" in answer or not isinstance(number, int):
            await self._queue.send(message)
        else:  # of a question that was waited for too long, it is nobody's
            self._questions.answer(number, answer)

    # --- what we say ---------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        session: UpstreamSessionId | None = None,
    ) -> dict[str, Any]:
        """Ask, within the start-up deadline, and return the result."""
        try:
            with anyio.fail_after(self._timeout_s):
                answer = await self._questions.ask(
                    lambda number: self._send({"id": number, "method": method, "params": params})
                )
        except TimeoutError as error:
            raise self._timed_out(method) from error
        if answer is None:
            raise await self.died(method)
        if "error" in answer:
            raise self._refused(method, session, text_at(answer, "error", "message"))
        return as_object(answer.get("result"))

    async def notify(self, method: str) -> None:
        """Tell the server something that has no answer."""
        await self._send({"method": method})

    async def answer(self, request_id: object, result: Mapping[str, Any]) -> None:
        """Answer what the server asked."""
        await self._send({"id": request_id, "result": result})

    async def refuse(self, request_id: object, why: str) -> None:
        """Say that what the server asked cannot be answered."""
        error = {"code": CODE_METHOD_NOT_FOUND, "message": why}
        await self._send({"id": request_id, "error": error})

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self.child.write_line(write_frame(message))

    # --- how it fails --------------------------------------------------------------------------

    def _refused(self, method: str, session: UpstreamSessionId | None, said: str) -> UpstreamError:
        about = f" for session {session}" if session else ""
        outcome = outcome_of_refusal(said)
        error = UpstreamError(
            f"{self.agent} refused {method}{about}: {said[:MESSAGE_CHARACTERS_MAX]}",
            outcome=outcome,
            hint=BUSY_HINT if outcome is Outcome.BUSY else self.last_words(),
        )
        if session:
            error.ids["upstream_session_id"] = session
        return error

    def _timed_out(self, method: str) -> UpstreamError:
        return UpstreamError(
            f"{self.agent} did not answer {method} within {self._timeout_s:g} s",
            outcome=Outcome.TIMED_OUT,
            hint=self.last_words(),
        )

    async def died(self, during: str) -> UpstreamError:
        """End what is left of a server whose output ended, and say how it went."""
        return await died(
            self.child,
            agent=self.agent,
            during=during,
            hint=self.last_words(),
            violation=self._violation,
        )

    def last_words(self) -> str:
        """Return what it last wrote to stderr, and what on its stdout was no JSON."""
        return last_words(self.child, unreadable=self._first_unreadable)
