"""The gate: answers an agent that asks before it acts, and holds back what may be done twice.

A call that the role may not make is refused, and the agent continues without it, whether or not it
would have asked. A call that is outward, or not known to be repeatable, is recorded, synced, before
it runs. While an action of the workstream is in doubt, only repeatable calls run; for any other one
the turn parks for a person. After the person said that the action was done, its repetition is
refused, and the agent continues without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import structs

from upthread.agents.base import NOBODY, CallAnswer, PermissionAnswer, PermissionRequest
from upthread.core.events import TurnParked
from upthread.core.redaction.redactor import Redactor
from upthread.core.shell.expected_call import Foreseen, foreseen
from upthread.core.turns.effects import TITLE_CHARACTERS_MAX, Effect, Settlement, must_hold_back
from upthread.core.turns.turn import HELD_BACK
from upthread.runtime.permissions.policy import PermissionPolicy

Keep: TypeAlias = Callable[[PermissionRequest], Awaitable[None]]

ANSWERED_BY_UPTHREAD = "upthread: done already, or may have been"
NEEDS_PERMISSION = "permission"

_HELD_BACK = "this may have been done already; it is held back until a person has looked"
_IN_DOUBT = "`{}` may do it again, and is held until a person has settled `{}`"
_WAS_DONE = "a person has looked: this was done already; do not do it again, and go on"
_NOT_THE_ROLES = "the role's file does not allow this ({}); do not try it again"
_SAID_NO = "this was not permitted; do not try it again"
_NOBODY_SAID = "nobody was there to permit this"

_ALLOW, _REJECT = "allow", "reject"
_OPTIONS = ((_ALLOW, "allow_once"), (_REJECT, "reject_once"))
"""What a person is offered of a call that the agent does not ask about."""


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
        self.was_dismissed = False
        """Whether a person ended the turn instead of answering."""
        self._policy = policy
        self._patterns = tuple(outward_patterns)
        self._redactor = redactor
        self._known: tuple[Effect, ...] = ()
        self._keep: Keep | None = None
        self._kept: set[str] = set()
        self._allowed: dict[str, PermissionAnswer] = {}

    def expect(self, *, known: tuple[Effect, ...], keep: Keep | None = None) -> None:
        """Before a prompt leaves: what must not be done again, and how an intent is kept."""
        self.parked = None
        self.was_dismissed = False
        self._known = known
        self._keep = keep
        # A person's word was for one call of one prompt.
        self._allowed.clear()

    async def hold(self, request: PermissionRequest) -> CallAnswer | None:
        """Return what is answered of a call that is about to run, None to let it run.

        One that counts is kept, synced, before it does: also where the agent never asks.
        """
        word, limit = self._policy.limited(request)
        # First: what the role may never do is no question to a person, done before or not.
        if word == "deny":
            why = _NOT_THE_ROLES.format(limit)
            return CallAnswer(answered_by=f"role {limit}", why=why, ends_turn=False)
        refused, counts = self.refused(request)
        if refused is not None:
            return refused
        answer = await self._asked(request) if word == "ask" else None
        if counts and (answer is None or answer.runs):
            await self._keep_once(request)
        return answer

    def refused(self, request: PermissionRequest) -> tuple[CallAnswer | None, bool]:
        """Return why a call must not run that may have been done, and whether it counts at all."""
        effect, counts = self._judged(request)
        if effect is None:
            return None, counts
        # Refused, and not parked: a person has looked already, and the agent can go on without it.
        if effect.settled is Settlement.DONE:
            why = _WAS_DONE
            return CallAnswer(answered_by=ANSWERED_BY_UPTHREAD, why=why, ends_turn=False), counts
        self._park_held_back(effect, request)
        return CallAnswer(answered_by=ANSWERED_BY_UPTHREAD, why=_HELD_BACK), counts

    async def _asked(self, request: PermissionRequest) -> CallAnswer:
        """Ask a person what the role's file says is to be asked, whatever the agent does."""
        given = await self._policy.asked(structs.replace(request, options=_OPTIONS))
        if given.answered_by == NOBODY:
            self._park_unallowed(request)
            return CallAnswer(answered_by=NOBODY, why=_NOBODY_SAID)
        if given.option_id == _ALLOW:
            # The agent may ask about it as well, under its own settings: one call is one question.
            self._allowed[request.call_id or ""] = given
            return CallAnswer(answered_by=given.answered_by, runs=True)
        is_no = given.option_id == _REJECT
        self.was_dismissed |= not is_no
        return CallAnswer(answered_by=given.answered_by, why=_SAID_NO, ends_turn=not is_no)

    async def answer(self, request: PermissionRequest) -> PermissionAnswer:
        """Return the answer and who gave it; None cancels the turn, which then parks."""
        effect, counts = self._judged(request)
        if effect is not None:
            is_refused = effect.settled is Settlement.DONE
            option_id = _option(request, "reject_once") if is_refused else None
            # Nobody has settled it, or no refusal is offered: it can only be stopped (ADR 136).
            if option_id is None:
                self._park_held_back(effect, request)
            return PermissionAnswer(option_id=option_id, answered_by=ANSWERED_BY_UPTHREAD)
        answer = await self._policy_for(request).answer(request)
        if answer.answered_by == NOBODY:
            self._park_unallowed(request)
        elif counts:
            await self._keep_once(request)
        self.was_dismissed |= answer.option_id is None
        return answer

    def _policy_for(self, request: PermissionRequest) -> PermissionPolicy:
        """Who was asked about a call when it was held is not asked about it again."""
        given = self._allowed.get(request.call_id) if request.call_id else None
        if given is None:
            return self._policy

        async def as_before(asked: PermissionRequest) -> PermissionAnswer:
            return structs.replace(given, option_id=_option(asked, "allow_once"))

        return structs.replace(self._policy, ask_person=as_before)

    def _park_held_back(self, effect: Effect, request: PermissionRequest) -> None:
        asked = " ".join(self._as_recorded(request).title.split())
        held = _IN_DOUBT.format(asked[:TITLE_CHARACTERS_MAX], effect.title_in_words)
        is_same = asked == effect.title_in_words
        detail = effect.in_words if is_same else f"{held} ({effect.outcome_in_words})"
        self.parked = TurnParked(reason=HELD_BACK, detail=detail)

    def _park_unallowed(self, request: PermissionRequest) -> None:
        detail = f"{request.title} ({request.tool_kind}): nobody was there to allow it"
        self.parked = TurnParked(reason=NEEDS_PERMISSION, detail=detail)

    def _judged(self, request: PermissionRequest) -> tuple[Effect | None, bool]:
        """Return the effect because of which a call must not run, and whether the call counts."""
        will_happen = self._as_recorded(request)
        actions = will_happen.actions(self._patterns)
        is_safe = self._is_repeatable(request)
        effect = must_hold_back(will_happen, self._known, actions=actions, is_repeatable=is_safe)
        return effect, bool(actions) or not is_safe

    def _is_repeatable(self, request: PermissionRequest) -> bool:
        """Return whether a call may run twice, and changes files of the tree alone."""
        places = request.foreseen.changed_if_repeatable(request.tool)
        return places is not None and not self._policy.leads_out(places)

    async def _keep_once(self, request: PermissionRequest) -> None:
        """Keep an intent. A call that is held and asked about as well is kept once."""
        # Without an id two calls cannot be told apart: each is kept.
        if self._keep is None or (request.call_id and request.call_id in self._kept):
            return
        self._kept.add(request.call_id or "")
        await self._keep(request)

    def _as_recorded(self, request: PermissionRequest) -> Foreseen:
        will_happen = request.foreseen
        if self._redactor is None:
            return will_happen
        redactor = self._redactor
        return foreseen(
            structs.replace(
                told,
                title=redactor.redact(told.title or ""),
                arguments=redactor.redact_json(told.arguments),
            )
            for told in will_happen.tellings
        )


def _option(request: PermissionRequest, kind: str) -> str | None:
    return next((option_id for option_id, offered in request.options if offered == kind), None)
