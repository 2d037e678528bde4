"""One `codex app-server` as a child process: JSON-RPC in lines, both ways.

What we ask is answered under the number we gave it. What the server tells and asks goes into a
queue, in order, and whoever takes it may ask in between. The queue is short: a reader that is slow
fills it, then the pipe, and so stops the agent. Every way a request can fail is an UpstreamError
that names the agent, what was asked, the session, and ends with the server's last words.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from upthread.agents._json import Unreadable, as_object, read_json, text_at, write_frame
from upthread.agents._process import ChildProcess
from upthread.agents._process_end import died, last_words
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


@dataclass(slots=True)
class _Asked:
    answer: dict[str, Any] = field(default_factory=dict[str, Any])
    is_answered: anyio.Event = field(default_factory=anyio.Event)


class CodexServer:
    """A running server. `read_all` serves it, until its output ends; `has_ended` is set then."""

    def __init__(self, child: ChildProcess, *, agent: str, timeout_s: float) -> None:
        self.child = child
        self.agent = agent
        self.has_ended = anyio.Event()
        self.told: MemoryObjectReceiveStream[Any]
        self._queue, self.told = anyio.create_memory_object_stream[Any](QUEUED_MAX)
        self._timeout_s = timeout_s
        self._numbers = itertools.count(1)
        self._asked: dict[int, _Asked] = {}
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
            self.has_ended.set()
            # Whoever waits is woken without an answer, and says how the server ended.
            for asked in self._asked.values():
                asked.is_answered.set()

    async def _take(self, message: object) -> None:
        if isinstance(message, Unreadable) and not self._first_unreadable:
            self._first_unreadable = str(message.raw)[:UNREADABLE_SHOWN_CHARACTERS]
        answer = as_object(message)
        number = answer.get("id")
        if "method" in answer and "id" in answer:
            self.child.allowance.take_request()
        if "method" in answer or not isinstance(number, int):
            await self._queue.send(message)
        # What was waited for too long is no longer here, and its answer is dropped.
        elif (asked := self._asked.get(number)) is not None:
            asked.answer = answer
            asked.is_answered.set()

    # --- what we say ---------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        session: UpstreamSessionId | None = None,
    ) -> dict[str, Any]:
        """Ask, within the start-up deadline, and return the result."""
        number = next(self._numbers)
        asked = self._asked[number] = _Asked()
        try:
            await self._send({"id": number, "method": method, "params": params})
            with anyio.fail_after(self._timeout_s):
                await self._answered(asked)
        except TimeoutError as error:
            raise self._timed_out(method) from error
        finally:
            del self._asked[number]
        if not asked.answer:
            raise await self.died(method)
        if "error" in asked.answer:
            raise self._refused(method, session, text_at(asked.answer, "error", "message"))
        return as_object(asked.answer.get("result"))

    async def _answered(self, asked: _Asked) -> None:
        if not self.has_ended.is_set():
            await asked.is_answered.wait()

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
