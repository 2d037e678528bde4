"""The gate: where an agent asks before it acts, and what stands there beside the permissions.

What the role may not do is refused, and the agent goes on without it; it does not matter whether
it would have asked. An outward action is kept, synced, before it is allowed. In a turn that is gone
on with, one that was done already, or may have been, is held back: the turn parks for a person, who
decides. Once they have said that it was done, it is refused, and the agent goes on without it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from msgspec import structs

from upthread.agents.base import CallAnswer, PermissionAnswer, PermissionRequest
from upthread.boundary import files
from upthread.core.events import TurnParked
from upthread.core.outward.actions import Action
from upthread.core.outward.hidden_repeats import Read, run_by, why_may_repeat
from upthread.core.redaction.redactor import Redactor
from upthread.core.shell.expected_call import Foreseen, foreseen
from upthread.core.turns.effects import Effect, Settlement, must_hold_back, that_hold
from upthread.core.turns.turn import HELD_BACK
from upthread.runtime.permissions.policy import NOBODY, PermissionPolicy

Keep: TypeAlias = Callable[[PermissionRequest], Awaitable[None]]

ANSWERED_BY_UPTHREAD = "upthread: done already, or may have been"
NEEDS_PERMISSION = "permission"

_HELD_BACK = "this may have been done already; it is held back until a person has looked"
_MAY_REPEAT = "may repeat `{}`"
_WAS_DONE = "a person has looked: this was done already; do not do it again, and go on"
_NOT_THE_ROLES = "the role's file does not allow this ({}); do not try it again"
_SAID_NO = "this was not permitted; do not try it again"
_NOBODY_SAID = "nobody was there to permit this"

_ALLOW, _REJECT = "allow", "reject"
_OPTIONS = ((_ALLOW, "allow_once"), (_REJECT, "reject_once"))
"""What a person is offered of a call that the agent does not ask about."""

FILE_BYTES_MAX: Final = 256 * 1024
"""How much of a file is read: no script that somebody wrote by hand is longer."""


class Gate:
    """Answers an agent's requests during one turn; `parked` says what no rule could answer.

    Known effects are as they were recorded, so a request is compared as it would be: without what
    `redactor` takes for a secret. `look` gives a reader of the files that a call may run, anew for
    each call: what they mention may have it held as well.
    """

    def __init__(
        self,
        policy: PermissionPolicy,
        *,
        outward_patterns: Sequence[str],
        redactor: Redactor | None = None,
        look: Callable[[], Read] = lambda: lambda _path: None,
    ) -> None:
        self.parked: TurnParked | None = None
        self._policy = policy
        self._patterns = tuple(outward_patterns)
        self._redactor = redactor
        self._look = look
        self._known: tuple[Effect, ...] = ()
        self._keep: Keep | None = None
        self._kept: set[str] = set()
        self._allowed: dict[str, PermissionAnswer] = {}

    def expect(self, *, known: tuple[Effect, ...], keep: Keep) -> None:
        """Before a prompt leaves: what must not be done again, and how an intent is kept."""
        self.parked = None
        self._known = known
        self._keep = keep
        # A person's word was for one call of one prompt.
        self._allowed.clear()

    async def hold(self, request: PermissionRequest) -> CallAnswer | None:
        """Return what is answered of a call that is about to run, None to let it run.

        An outward one is kept, synced, before it does: also where the agent never asks.
        """
        word, limit = self._policy.limited(request)
        # First: what the role may never do is no question to a person, done before or not.
        if word == "deny":
            why = _NOT_THE_ROLES.format(limit)
            return CallAnswer(answered_by=f"role {limit}", why=why, ends_turn=False)
        actions, effect, why = self._judged(request)
        # Refused, and not parked: a person has looked already, and the agent can go on without it.
        if effect is not None and effect.settled is Settlement.DONE:
            said = "; ".join(filter(None, [why, _WAS_DONE]))
            return CallAnswer(answered_by=ANSWERED_BY_UPTHREAD, why=said, ends_turn=False)
        if effect is not None:
            self._park_held_back(effect, why)
            return CallAnswer(answered_by=ANSWERED_BY_UPTHREAD, why=_HELD_BACK)
        answer = await self._asked(request) if word == "ask" else None
        if answer is None or answer.runs:
            await self._keep_outward(request, actions)
        return answer

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
        return CallAnswer(answered_by=given.answered_by, why=_SAID_NO, ends_turn=not is_no)

    async def answer(self, request: PermissionRequest) -> PermissionAnswer:
        """Return the answer and who gave it; None cancels the turn, which then parks."""
        actions, effect, why = self._judged(request)
        if effect is not None:
            is_refused = effect.settled is Settlement.DONE
            option_id = _option(request, "reject_once") if is_refused else None
            # Nobody has settled it, or the agent offers
            # no refusal: it can only be stopped (ADR 87).
            if option_id is None:
                self._park_held_back(effect, why)
            return PermissionAnswer(option_id=option_id, answered_by=ANSWERED_BY_UPTHREAD)
        answer = await self._policy_for(request).answer(request)
        if answer.answered_by == NOBODY:
            self._park_unallowed(request)
        else:
            await self._keep_outward(request, actions)
        return answer

    def _policy_for(self, request: PermissionRequest) -> PermissionPolicy:
        """Who was asked about a call when it was held is not asked about it again."""
        given = self._allowed.get(request.call_id) if request.call_id else None
        if given is None:
            return self._policy

        async def as_before(asked: PermissionRequest) -> PermissionAnswer:
            return structs.replace(given, option_id=_option(asked, "allow_once"))

        return structs.replace(self._policy, ask_person=as_before)

    def _park_held_back(self, effect: Effect, why: str) -> None:
        self.parked = TurnParked(reason=HELD_BACK, detail=why or effect.in_words)

    def _park_unallowed(self, request: PermissionRequest) -> None:
        detail = f"{request.title} ({request.tool_kind}): nobody was there to allow it"
        self.parked = TurnParked(reason=NEEDS_PERMISSION, detail=detail)

    def _judged(self, request: PermissionRequest) -> tuple[tuple[Action, ...], Effect | None, str]:
        """Return a call's actions, the effect it may repeat, and in words why, empty if plainly."""
        will_happen = self._as_recorded(request)
        actions = will_happen.actions(self._patterns)
        effect = must_hold_back(actions, self._known)
        if effect is not None:
            return actions, effect, ""
        # Words that repeat nothing may still run what does: a script, a task (ADR 90).
        effect, why = self._looked_into(request.foreseen)
        return actions, effect, why

    def _looked_into(self, will_happen: Foreseen) -> tuple[Effect | None, str]:
        """Return what a call may repeat by something that its words do not tell."""
        read = self._look()
        for effect in that_hold(self._known):
            for line, directory in will_happen.lines:
                if why := why_may_repeat(line, effect.actions, read, directory):
                    said = f"{_MAY_REPEAT.format(effect.title_in_words)}: {why}"
                    return effect, self._redactor.redact(said) if self._redactor else said
        return None, ""

    async def _keep_outward(self, request: PermissionRequest, actions: Sequence[Action]) -> None:
        # What says by its words what it does needs no look into files (ADR 90).
        runs = () if actions else self._run_by(request.foreseen)
        if actions or runs:
            await self._keep_once(structs.replace(request, runs=runs))

    def _run_by(self, will_happen: Foreseen) -> tuple[str, ...]:
        """Return the outward commands that a call runs without saying so."""
        read = self._look()
        found = (each for line, where in will_happen.lines for each in run_by(line, read, where))
        return tuple(dict.fromkeys(found))

    async def _keep_once(self, request: PermissionRequest) -> None:
        """Keep an intent, but for a call that is about to run and was asked about, or will be."""
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


# --- what a held call may run ------------------------------------------------------------------


def reader_in(directory: str) -> Callable[[str], str | None]:
    """Return a reader of text by its path from a directory, wherever its links lead.

    It gives an empty text for a file of no text, None for what is no ordinary file. Each file is
    read once.
    """
    kept: dict[str, str | None] = {}

    def read(path: str) -> str | None:
        whole = os.path.normpath(os.path.join(directory, os.path.expanduser(path)))  # noqa: PTH118, PTH111
        if whole not in kept:
            kept[whole] = _text_of(whole)
        return kept[whole]

    return read


def _text_of(path: str) -> str | None:
    try:
        # Wherever it lies: what is read can only have a call be held, and lets none pass (ADR 90).
        content = files.read_start(path, FILE_BYTES_MAX)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return "" if b"\0" in content else content.decode("utf-8", "replace")
