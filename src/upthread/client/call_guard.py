"""Whether a call inside an agent is held back: the guard of `tell`, asked by a hook's process."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from upthread.agents.base import PermissionRequest
from upthread.core.turns.effects import Effect
from upthread.runtime.permissions.gate import Gate

Answered = TypeVar("Answered")


def held_by(gate: Gate, known: Sequence[Effect], request: PermissionRequest) -> str:
    """Return why a call must not run, by what is left open or in doubt; empty where it may."""
    gate.expect(known=tuple(known), keep=_keep_nothing)
    answer = _now(gate.hold(request))
    if answer is None or answer.runs:
        return ""
    return f"{answer.why}: {gate.parked.detail}" if gate.parked else answer.why


async def _keep_nothing(_request: PermissionRequest) -> None:
    """Keep no intent: a call of a hook is recorded with the turn that it belongs to."""


def _now(waits: Coroutine[Any, Any, Answered]) -> Answered:
    """Return what a coroutine returns that waits for nothing."""
    try:
        waits.send(None)
    except StopIteration as done:
        answer: Answered = done.value
        return answer
    raise AssertionError("the gate asks nobody here")
