"""The gate: where an agent asks before it acts, and what stands there beside the permissions.

An outward action is kept, synced, before it is allowed. In a turn that is gone on with, one that
was done already, or may have been, is held back: the turn parks for a person, who decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from upthread.agents.base import PermissionAnswer, PermissionRequest
from upthread.core.effects import Effect, must_hold_back
from upthread.core.events import TurnParked
from upthread.core.foreseen import Foreseen, foreseen
from upthread.core.redaction.redactor import Redactor
from upthread.core.turn import HELD_BACK
from upthread.runtime.permissions import NOBODY, PermissionPolicy

Keep: TypeAlias = Callable[[PermissionRequest], Awaitable[None]]

ANSWERED_BY_UPTHREAD = "upthread: done already, or may have been"
NEEDS_PERMISSION = "permission"


class Gate:
    """Answers an agent's requests during one turn; `parked` says what no rule could answer.

    Known effects are as they were recorded, so a request is compared as it would be: without what
    `redactor` takes for a secret.
    """

    def __init__(
        self,
        policy: PermissionPolicy,
        *,
        outward_patterns: Sequence[str],
        redactor: Redactor | None = None,
    ) -> None:
        self.parked: TurnParked | None = None
        self._policy = policy
        self._patterns = tuple(outward_patterns)
        self._redactor = redactor
        self._known: tuple[Effect, ...] = ()
        self._keep: Keep | None = None

    def expect(self, *, known: tuple[Effect, ...], keep: Keep) -> None:
        """Before a prompt leaves: what must not be done again, and how an intent is kept."""
        self.parked = None
        self._known = known
        self._keep = keep

    async def answer(self, request: PermissionRequest) -> PermissionAnswer:
        """Return the answer and who gave it; None cancels the turn, which then parks."""
        will_happen = self._as_recorded(request)
        is_outward = will_happen.is_outward(self._patterns)
        effect = must_hold_back(will_happen.digests, self._known) if is_outward else None
        if effect is not None:
            self.parked = TurnParked(reason=HELD_BACK, detail=effect.in_words)
            return PermissionAnswer(option_id=None, answered_by=ANSWERED_BY_UPTHREAD)
        answer = await self._policy.answer(request)
        if answer.answered_by == NOBODY:
            detail = f"{request.title} ({request.tool_kind}): nobody was there to allow it"
            self.parked = TurnParked(reason=NEEDS_PERMISSION, detail=detail)
        elif self._keep and is_outward:
            await self._keep(request)
        return answer

    def _as_recorded(self, request: PermissionRequest) -> Foreseen:
        will_happen = request.foreseen
        if self._redactor is None:
            return will_happen
        redactor = self._redactor
        return foreseen(
            replace(
                told,
                title=redactor.redact(told.title or ""),
                arguments=redactor.redact_json(told.arguments),
            )
            for told in will_happen.tellings
        )
