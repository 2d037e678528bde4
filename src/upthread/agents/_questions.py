"""Questions to an agent that wait for their answers, each by its number, as JSON-RPC has them.

Each protocol has words of its own around it: what a frame looks like, what is told and what is
asked by the agent, and what a refusal means stand with its adapter.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import anyio


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
