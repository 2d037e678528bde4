"""Permissions: who or what answers when an agent asks before it acts, and the gate of one turn.

The agent's own settings come first; a request reaches us only when they ask. Then a configured rule
answers, the strictest for what will happen (core/shell/expected_call.py), else a person does, else
nobody: the request is cancelled and the turn parks. What the role's file says
(core/roles/limits.py) is one more rule, of which the stricter counts: it allows nothing. There is
no way to say yes to everything, and what a rule allows to change is the working tree: what lies
beyond it may be what the person's own programs run.

A call that the role may not make is refused, and the agent continues without it, whether or not it
would have asked. A call that is outward, or not known to be repeatable, is recorded, synced, before
it runs. While an action of the workstream is in doubt, only repeatable calls run; for any other one
the turn parks for a person. After the person said that the action was done, its repetition is
refused, and the agent continues without it.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from upthread.agents.base import (
    NOBODY,
    CallAnswer,
    PermissionAnswer,
    PermissionRequest,
    nobody_answers,
)
from upthread.boundary import files
from upthread.core.events import TurnParked
from upthread.core.redaction.redactor import Redactor
from upthread.core.roles.limits import NO_LIMITS, LimitedCall, RoleLimits, limited
from upthread.core.runs.stops import NOT_OFFERED
from upthread.core.shell.call_commands import CHANGING, STRICTNESS, Rule
from upthread.core.shell.expected_call import Foreseen, called_with, foreseen, judged, places_of
from upthread.core.text import one_line
from upthread.core.turns.effects import TITLE_CHARACTERS_MAX, Effect, Settlement, must_hold_back
from upthread.core.turns.turn import HELD_BACK

AskPerson: TypeAlias = Callable[[PermissionRequest], Awaitable[PermissionAnswer]]
Keep: TypeAlias = Callable[[PermissionRequest], Awaitable[None]]

_ALLOWS = ("allow_once",)
"""A rule is about one call. What holds for ever the agent would not ask about again."""
_REJECTS = ("reject_once", "reject_always")

_YES = re.compile(r"allow|accept|approve|grant|permit|proceed|\byes\b", re.IGNORECASE)
_NO = re.compile(
    r"reject|den(?:y|ied)|decline|cancel|refuse|abort|disallow|\b(?:no|not|dont|don't|never)\b",
    re.IGNORECASE,
)
"""What ids of options are called; see `plain_options`."""

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

    `rules` are by tool kind (ACP's), `ask_person` is None where there is no person to ask. `tree`
    is the directory worked in. To change what is outside of it, or git's own files in it, is asked
    about whatever the rules allow; None where nothing is known of a tree. `limits` are the role's.
    Known effects are as they were recorded, so a request is compared as it would be: without what
    `redactor` takes for a secret.
    """

    def __init__(
        self,
        *,
        rules: Mapping[str, Rule] | None = None,
        ask_person: AskPerson | None = None,
        tree: str | None = None,
        limits: RoleLimits = NO_LIMITS,
        outward_patterns: Sequence[str] = (),
        redactor: Redactor | None = None,
    ) -> None:
        self.parked: TurnParked | None = None
        self.was_dismissed = False
        """Whether a person ended the turn instead of answering."""
        self._rules = rules or {}
        self._ask_person = ask_person
        self._tree = tree
        self._limits = limits
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
        word, limit = self._limited(request)
        # First: what the role may never do is no question to a person, done before or not.
        if word == "deny":
            why = _NOT_THE_ROLES.format(limit)
            return CallAnswer(answered_by=f"role {limit}", why=why, ends_turn=False)
        refused, counts = self.refused(request)
        if refused:
            return refused
        answer = await self._asked(request) if word == "ask" else None
        if counts and (not answer or answer.runs):
            await self._keep_once(request)
        return answer

    def refused(self, request: PermissionRequest) -> tuple[CallAnswer | None, bool]:
        """Return why a call must not run that may have been done, and whether it counts at all."""
        effect, counts = self._judged(request)
        if not effect:
            return None, counts
        # Refused, and not parked: a person has looked already, and the agent can go on without it.
        if effect.settled is Settlement.DONE:
            why = _WAS_DONE
            return CallAnswer(answered_by=ANSWERED_BY_UPTHREAD, why=why, ends_turn=False), counts
        self._park_held_back(effect, request)
        return CallAnswer(answered_by=ANSWERED_BY_UPTHREAD, why=_HELD_BACK), counts

    async def _asked(self, request: PermissionRequest) -> CallAnswer:
        """Ask a person what the role's file says is to be asked, whatever the agent does."""
        request = replace(request, options=_OPTIONS)
        given = await self._ask(request)
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
        if effect:
            is_refused = effect.settled is Settlement.DONE
            option_id = _option_of(request, _REJECTS[:1]) if is_refused else None
            # Nobody has settled it, or no refusal is offered: it can only be stopped (ADR 136).
            if option_id is None:
                self._park_held_back(effect, request)
            return PermissionAnswer(option_id=option_id, answered_by=ANSWERED_BY_UPTHREAD)
        answer = await self._answered(request)
        if answer.answered_by == NOBODY:
            self._park_unallowed(request)
        elif counts:
            await self._keep_once(request)
        self.was_dismissed |= answer.option_id is None
        return answer

    def _park_held_back(self, effect: Effect, request: PermissionRequest) -> None:
        asked = " ".join(self._as_recorded(request).title.split())
        held = _IN_DOUBT.format(asked[:TITLE_CHARACTERS_MAX], effect.title_in_words)
        is_same = asked == effect.title_in_words
        detail = effect.in_words if is_same else f"{held} ({effect.outcome_in_words})"
        self.parked = TurnParked(reason=HELD_BACK, detail=detail)

    def _park_unallowed(self, request: PermissionRequest) -> None:
        because = "nobody was there to allow it"
        if _option_of(request, _ALLOWS) is None:
            # No rule of the person's could allow it.
            offered = ", ".join(one_line(kind) for _, kind in request.options)
            because = f"{NOT_OFFERED}{offered or 'none'}"
        detail = f"{request.title} ({request.tool_kind}): {because}"
        self.parked = TurnParked(reason=NEEDS_PERMISSION, detail=detail)

    def _judged(self, request: PermissionRequest) -> tuple[Effect | None, bool]:
        """Return the effect because of which a call must not run, and whether the call counts."""
        will_happen = self._as_recorded(request)
        actions = will_happen.actions(self._patterns)
        # What may run twice, and changes files of the tree alone.
        places = request.foreseen.changed_if_repeatable(request.tool)
        is_safe = places is not None and not self._leads_out(places)
        effect = must_hold_back(will_happen, self._known, actions=actions, is_repeatable=is_safe)
        return effect, bool(actions) or not is_safe

    async def _keep_once(self, request: PermissionRequest) -> None:
        """Keep an intent. A call that is held and asked about as well is kept once."""
        # Without an id two calls cannot be told apart: each is kept.
        if not self._keep or (request.call_id and request.call_id in self._kept):
            return
        self._kept.add(request.call_id or "")
        await self._keep(request)

    def _as_recorded(self, request: PermissionRequest) -> Foreseen:
        will_happen = request.foreseen
        if not self._redactor:
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

    # --- by the rules, the role and a person ---------------------------------------------------

    async def _answered(self, request: PermissionRequest) -> PermissionAnswer:
        """Return the answer and who gave it; `answered_by` is NOBODY when nobody could."""
        rule, in_words = judged(request.foreseen.kinds, self._rules)
        said_by = "rule"
        # A rule that lets edit files let an agent write the person's own configuration (ADR 62).
        is_changing = self._tree is not None and bool(request.foreseen.kinds & CHANGING)
        if rule == "allow" and is_changing and self._leads_out(places_of(request.foreseen)):
            rule = "ask"
        word, limit = self._limited(request)
        # A role's file only tightens: it may come with a repository (ADR 80).
        if STRICTNESS[word] > STRICTNESS[rule]:
            rule, in_words, said_by = word, limit, "role"
        if rule == "ask" and self._limits.asks_nobody:
            rule, in_words, said_by = "deny", "asks nobody", "role"
        kinds = _REJECTS if rule == "deny" else _ALLOWS
        option_id = None if rule == "ask" else _option_of(request, kinds)
        # Denied without an option that says no, the request is cancelled, as ACP has it (ADR 62).
        if rule == "deny" or option_id is not None:
            return PermissionAnswer(option_id=option_id, answered_by=f"{said_by} {in_words}")
        given = self._allowed.get(request.call_id) if request.call_id else None
        if given:  # a person was asked about it when it was held
            return replace(given, option_id=_option_of(request, _ALLOWS))
        return await self._ask(request)

    async def _ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Return a person's answer; `answered_by` is NOBODY where there is none to ask."""
        if not self._ask_person:
            return await nobody_answers(request)
        return await self._ask_person(plain_options(request))

    def _limited(self, request: PermissionRequest) -> tuple[Rule, str]:
        """Return what the role's limits say of a call, and which of them. Looks at links."""
        if not self._limits.are_any:
            return "allow", ""
        call = self._as_limited(request)
        word, limit = limited(self._limits, call, is_sandboxed=request.is_sandboxed)
        is_denied = word == "ask" and self._limits.asks_nobody
        return ("deny", f"{limit}, and it asks nobody") if is_denied else (word, limit)

    def _as_limited(self, request: PermissionRequest) -> LimitedCall:
        will_happen = request.foreseen
        known = called_with(
            will_happen, tool=request.tool, reads_by_commands=request.reads_by_commands
        )
        tree = self._tree or ""
        places = (name for place in known.places for name in files.names_from(tree, place))
        said = places_of(will_happen)
        return LimitedCall(
            tool=request.tool,
            kinds=will_happen.kinds,
            called_with=(*known.words, *places),
            only_reads=known.only_reads,
            is_beyond=any(files.is_beyond(tree, place) for place in (*said, *known.places)),
        )

    def _leads_out(self, places: Sequence[str]) -> bool:
        """Return whether a path is not in the tree, or is git's own. Without a tree each one is.

        Looks at links.
        """
        if self._tree is None:
            return bool(places)
        return any(files.is_beyond(self._tree, place) for place in places)


def _option_of(request: PermissionRequest, kinds: Sequence[str]) -> str | None:
    """Return the first option of the first of these kinds that the agent offers, None without."""
    # Reversed, so that of two options of one kind the first stays.
    offered = {kind: option_id for option_id, kind in reversed(plain_options(request).options)}
    return next((offered[kind] for kind in kinds if offered.get(kind)), None)


def plain_options(request: PermissionRequest) -> PermissionRequest:
    """Return the request without the options that say two things.

    What an option does is the agent's word. One id offered under several kinds, or a kind that the
    id contradicts, is none that an answer could rely on: a no must never select a yes.
    """
    kinds: dict[str, set[str]] = {}
    for option_id, kind in request.options:
        kinds.setdefault(option_id, set()).add(kind)
    plain = tuple(
        (option_id, kind)
        for option_id, kind in request.options
        if len(kinds[option_id]) == 1 and not _contradicts(option_id, kind)
    )
    return replace(request, options=plain)


def _contradicts(option_id: str, kind: str) -> bool:
    says_yes = _YES.search(option_id) is not None
    says_no = _NO.search(option_id) is not None
    if kind.startswith("reject"):
        return says_yes and not says_no
    return kind.startswith("allow") and says_no and not says_yes
