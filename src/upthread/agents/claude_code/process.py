"""One running `claude -p`: its lines in order, and the requests that go both ways.

Frames are handed to `on_frame` and awaited before the next line is read, so that a full pipe stops
an agent that is faster than we are. What we ask (`control_request`) is answered under the id we
gave it; what it asks is a frame like any other.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio

from upthread.agents._json import Unreadable, as_object, read_json, text_at, write_frame
from upthread.agents._process import ChildProcess
from upthread.agents._process_end import died, last_words
from upthread.core.types import Outcome
from upthread.errors import QuotaExceededError, UpstreamError

OnFrame: TypeAlias = Callable[[object], Awaitable[None]]

UNREADABLE_SHOWN_CHARACTERS: Final = 200


@dataclass(slots=True)
class _Asked:
    answer: dict[str, Any] = field(default_factory=dict[str, Any])
    is_answered: anyio.Event = field(default_factory=anyio.Event)


class ClaudeProcess:
    """A running CLI. `read_all` serves it, until its output ends.

    `has_ended` is set then; `is_released` by whoever has heard its last words.
    """

    def __init__(self, child: ChildProcess, *, agent: str, on_frame: OnFrame) -> None:
        self.child = child
        self.has_ended = anyio.Event()
        self.is_released = anyio.Event()
        self._agent = agent
        self._on_frame = on_frame
        self._numbers = itertools.count(1)
        self._asked: dict[str, _Asked] = {}
        self._violation: QuotaExceededError | None = None
        self._first_unreadable = ""

    async def read_all(self) -> None:
        """Hand on every frame until there will be no more."""
        try:
            while (line := await self.child.read_line()) is not None:
                if line.strip():
                    await self._take(read_json(line))
        except QuotaExceededError as violation:
            self._violation = violation
            # Past a limit it is ended, and what it had said before is kept (A12, ADR 63).
            await self.child.stop()
        finally:
            self.has_ended.set()
            # Whoever waits is woken without an answer, and says how it ended.
            for asked in self._asked.values():
                asked.is_answered.set()

    async def _take(self, frame: object) -> None:
        if isinstance(frame, Unreadable) and not self._first_unreadable:
            self._first_unreadable = str(frame.raw)[:UNREADABLE_SHOWN_CHARACTERS]
        if text_at(frame, "type") == "control_request":
            self.child.allowance.take_request()
        response = as_object(as_object(frame).get("response"))
        if text_at(frame, "type") != "control_response":
            await self._on_frame(frame)
        # An interrupt's answer finds nobody: it is not waited for.
        elif (asked := self._asked.get(text_at(response, "request_id"))) is not None:
            asked.answer = response
            asked.is_answered.set()

    # --- what we say ---------------------------------------------------------------------------

    async def send(self, frame: Mapping[str, Any]) -> None:
        """Queue a frame; a dead process eats it."""
        await self.child.write_line(write_frame(frame))

    async def ask(
        self, subtype: str, more: Mapping[str, Any] | None = None, *, timeout_s: float
    ) -> None:
        """Ask and wait for the answer. UpstreamError when there is none, or it is a no."""
        identity = f"upthread-{next(self._numbers)}"
        asked = self._asked[identity] = _Asked()
        try:
            await self.request(subtype, identity, more)
            with anyio.fail_after(timeout_s):
                await asked.is_answered.wait()
        except TimeoutError as error:
            raise UpstreamError(
                f"{self._agent} did not answer {subtype} within {timeout_s:g} s",
                outcome=Outcome.TIMED_OUT,
                hint=self.last_words(),
            ) from error
        finally:
            del self._asked[identity]
        if not asked.answer:
            raise await self.died(subtype)
        if asked.answer.get("subtype") == "error":
            raise UpstreamError(
                f"{self._agent} refused {subtype}: {text_at(asked.answer, 'error')}",
                outcome=Outcome.UNKNOWN,
                hint=self.last_words(),
            )

    async def request(
        self, subtype: str, identity: str, more: Mapping[str, Any] | None = None
    ) -> None:
        """Ask without waiting."""
        request = {"subtype": subtype, **(more or {})}
        await self.send({"type": "control_request", "request_id": identity, "request": request})

    async def answer(self, request_id: str, response: Mapping[str, Any]) -> None:
        """Answer what the agent asked."""
        body = {"subtype": "success", "request_id": request_id, "response": response}
        await self.send({"type": "control_response", "response": body})

    async def refuse(self, request_id: str, why: str) -> None:
        """Say that what the agent asked cannot be answered."""
        body = {"subtype": "error", "request_id": request_id, "error": why}
        await self.send({"type": "control_response", "response": body})

    # --- its end -------------------------------------------------------------------------------

    async def died(self, during: str) -> UpstreamError:
        """End what is left of an agent whose output ended, and say how it went."""
        return await died(
            self.child,
            agent=self._agent,
            during=during,
            hint=self.last_words(),
            violation=self._violation,
        )

    def last_words(self) -> str:
        """Return what it last wrote to stderr, and what on its stdout was no JSON."""
        return last_words(self.child, unreadable=self._first_unreadable)
