"""JSON with an agent, a message a line, of a shape that nobody promised.

Lines are decoded with the standard library, because models emit lone surrogates that stricter
decoders refuse. What cannot be read is kept as it came; what goes past a limit of core/quotas.py is
not decoded at all, and ends the agent. A question waits for its answer by its number, as JSON-RPC
has it; each protocol has words of its own around that, which stand with its adapter.
"""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import anyio
from msgspec import Struct

from upthread.agents._process import ChildProcess
from upthread.agents._process_end import RunningAgent
from upthread.core.quotas import require_sound_frame, whole_number
from upthread.core.types import JsonValue
from upthread.errors import QuotaExceededError


class Unreadable(Struct, frozen=True, kw_only=True):
    """A line that is no message; bytes that are no UTF-8 are surrogate escapes."""

    raw: JsonValue


def read_json(line: bytes) -> Any:
    """Return what a line holds, Unreadable for one that is no JSON. Raises QuotaExceededError."""
    require_sound_frame(line)
    try:
        text = line.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return Unreadable(raw=line.decode("utf-8", "surrogateescape"))
    try:
        return _DECODER.decode(text)
    except ValueError:
        return Unreadable(raw=text)


# strict=False: a raw control character in a string is the agent's slip, not a lost frame.
_DECODER: Final = json.JSONDecoder(strict=False, parse_int=whole_number)


def write_frame(message: object) -> bytes:
    """Encode a message as one line, in ASCII: lone surrogates and NUL go as escapes."""
    return json.dumps(message, separators=(",", ":")).encode("ascii")


def as_object(value: object) -> dict[str, Any]:
    """Return a JSON object as it is, an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def member(value: object, *path: str) -> object:
    """Return what lies at a path of member names, None where there is nothing."""
    for name in path:
        value = as_object(value).get(name)
    return value


def text_at(value: object, *path: str) -> str:
    """Return the text at a path of member names, "" for anything else."""
    found = member(value, *path)
    return found if isinstance(found, str) else ""


def objects_at(value: object, *path: str) -> list[dict[str, Any]]:
    """Return the objects of the list at a path; what else is in it, empty ones too, is left out."""
    return [found for item in _items_at(value, path) if (found := as_object(item))]


def texts_at(value: object, *path: str) -> list[str]:
    """Return the texts of the list at a path; what else is in it is left out."""
    return [item for item in _items_at(value, path) if isinstance(item, str)]


def _items_at(value: object, path: tuple[str, ...]) -> list[object]:
    found = member(value, *path)
    return cast("list[object]", found) if isinstance(found, list) else []


class _Question:
    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = None
        self.is_over = anyio.Event()


class Questions:
    """What was asked on one connection. `has_ended` is set once no answer will come any more."""

    def __init__(self) -> None:
        self.has_ended = anyio.Event()
        self._numbers = itertools.count()
        self._open: dict[object, _Question] = {}

    async def ask(self, send: Callable[[int], Awaitable[None]]) -> dict[str, Any] | None:
        """Send a question under a number of its own; returns its answer, None if none will come."""
        if self.has_ended.is_set():
            return None
        number = next(self._numbers)
        question = self._open[number] = _Question()
        try:
            await send(number)
            # It may have ended while the question left.
            if not self.has_ended.is_set():
                await question.is_over.wait()
        finally:
            self._open.pop(number, None)
        return question.answer

    def answer(self, number: object, answer: dict[str, Any]) -> None:
        """Hand an answer to whoever asked; the first counts. Nobody may wait for it any more."""
        question = self._open.pop(number, None)
        if question is not None:
            question.answer = answer
            question.is_over.set()

    def end(self) -> None:
        """Let nobody wait any more."""
        self.has_ended.set()
        for question in self._open.values():
            question.is_over.set()


class JsonLines(RunningAgent, ABC):
    """A running agent that speaks JSON on its pipes. `read_all` serves it, until its output ends.

    Messages are handed on and awaited before the next line is read, so that a full pipe stops an
    agent that is faster than we are. `has_ended` is set when there will be no more.
    """

    def __init__(self, child: ChildProcess, *, agent: str, timeout_s: float) -> None:
        super().__init__(child, agent=agent, timeout_s=timeout_s)
        self._questions = Questions()
        self.has_ended = self._questions.has_ended

    @abstractmethod
    async def _take(self, message: object) -> None:
        """Hand one message on, an answer by `_questions`."""

    async def read_all(self) -> None:
        """Hand on every message until there will be no more."""
        try:
            while (line := await self.child.read_line()) is not None:
                if line.strip():
                    await self._take_read(read_json(line))
        except QuotaExceededError as violation:
            self.violation = violation
            # Past a limit it is ended, and what it had said before is kept (A12, ADR 63).
            await self.child.stop()
        finally:
            # Whoever waits is woken without an answer, and says how it ended.
            self._questions.end()

    async def _take_read(self, message: object) -> None:
        if isinstance(message, Unreadable):
            self.note_unreadable(message.raw)
        await self._take(message)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message; a dead agent eats it."""
        await self.child.write_line(write_frame(message))

    async def _answer_to(
        self, asked: str, send: Callable[[int], Awaitable[None]], *, session: str = ""
    ) -> dict[str, Any]:
        """Ask within the agent's patience. Raises UpstreamError when it does not answer."""
        try:
            with anyio.fail_after(self.timeout_s):
                answer = await self._questions.ask(send)
        except TimeoutError as error:
            raise self.timed_out(asked, session=session) from error
        if answer is None:
            raise await self.died(asked)
        return answer
