"""Permissions: who or what answers when an agent asks before it acts.

The agent's own settings come first; a request reaches us only when they ask. Then a configured rule
answers, the strictest for what will happen (core/shell/expected_call.py), else a person does, else
nobody: the request is cancelled and the turn parks. What the role's file says
(core/roles/limits.py) is one more rule, of which the stricter counts: it allows nothing. There is
no way to say yes to everything, and what a rule allows to change is the working tree: what lies
beyond it may be what the person's own programs run.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct, field, structs

from upthread.agents.base import PermissionAnswer, PermissionRequest, nobody_answers
from upthread.boundary import files
from upthread.core.roles.calls import called_with
from upthread.core.roles.limits import NO_LIMITS, LimitedCall, RoleLimits, limited
from upthread.core.shell.call_commands import CHANGING, STRICTNESS, Rule
from upthread.core.shell.expected_call import judged, places_of

PermissionRule: TypeAlias = Rule
AskPerson: TypeAlias = Callable[[PermissionRequest], Awaitable[PermissionAnswer]]

_ALLOWS: Final = ("allow_once",)
"""A rule is about one call. What holds for ever the agent would not ask about again."""
_REJECTS: Final = ("reject_once", "reject_always")

_YES: Final = re.compile(r"allow|accept|approve|grant|permit|proceed|\byes\b", re.IGNORECASE)
_NO: Final = re.compile(
    r"reject|den(?:y|ied)|decline|cancel|refuse|abort|disallow|\b(?:no|not|dont|don't|never)\b",
    re.IGNORECASE,
)
"""What ids of options are called; see `plain_options`."""


class PermissionPolicy(Struct, frozen=True, kw_only=True):
    """Rules by tool kind (ACP's), and a person to ask, None where there is none.

    `tree` is the directory worked in. To change what is outside of it, or git's own files in it,
    is asked about whatever the rules allow; None where nothing is known of a tree. `limits` are the
    role's.
    """

    rules: Mapping[str, PermissionRule] = field(default_factory=dict[str, PermissionRule])
    ask_person: AskPerson | None = None
    tree: str | None = None
    limits: RoleLimits = NO_LIMITS

    async def answer(self, request: PermissionRequest) -> PermissionAnswer:
        """Return the answer and who gave it; `answered_by` is NOBODY when nobody could."""
        rule, in_words = judged(request.foreseen.kinds, self.rules)
        said_by = "rule"
        # A rule that lets edit files let an agent write the person's own configuration (ADR 62).
        if rule == "allow" and self._reaches_out(request):
            rule = "ask"
        word, limit = self.limited(request)
        # A role's file only tightens: it may come with a repository (ADR 80).
        if STRICTNESS[word] > STRICTNESS[rule]:
            rule, in_words, said_by = word, limit, "role"
        if rule == "ask" and self.limits.asks_nobody:
            rule, in_words, said_by = "deny", "asks nobody", "role"
        kinds = _REJECTS if rule == "deny" else _ALLOWS
        option_id = None if rule == "ask" else _option_of(request, kinds)
        # Denied without an option that says no, the request is cancelled, as ACP has it (ADR 62).
        if rule == "deny" or option_id is not None:
            return PermissionAnswer(option_id=option_id, answered_by=f"{said_by} {in_words}")
        return await self.asked(request)

    async def asked(self, request: PermissionRequest) -> PermissionAnswer:
        """Return a person's answer; `answered_by` is NOBODY where there is none to ask."""
        if self.ask_person is None:
            return await nobody_answers(request)
        return await self.ask_person(plain_options(request))

    def limited(self, request: PermissionRequest) -> tuple[Rule, str]:
        """Return what the role's limits say of a call, and which of them. Looks at links."""
        if not self.limits.are_any:
            return "allow", ""
        call = self._as_limited(request)
        word, limit = limited(self.limits, call, is_sandboxed=request.is_sandboxed)
        is_denied = word == "ask" and self.limits.asks_nobody
        return ("deny", f"{limit}, and it asks nobody") if is_denied else (word, limit)

    def _as_limited(self, request: PermissionRequest) -> LimitedCall:
        will_happen = request.foreseen
        known = called_with(
            will_happen, tool=request.tool, reads_by_commands=request.reads_by_commands
        )
        tree = self.tree or ""
        places = (name for place in known.places for name in files.names_from(tree, place))
        said = places_of(will_happen)
        return LimitedCall(
            tool=request.tool,
            kinds=will_happen.kinds,
            called_with=(*known.words, *places),
            only_reads=known.only_reads,
            is_beyond=any(files.is_beyond(tree, place) for place in (*said, *known.places)),
        )

    def _reaches_out(self, request: PermissionRequest) -> bool:
        """Return whether something is changed that is no file of the tree's. Looks at links."""
        will_happen = request.foreseen
        is_changing = self.tree is not None and bool(will_happen.kinds & CHANGING)
        return is_changing and self.leads_out(places_of(will_happen))

    def leads_out(self, places: Sequence[str]) -> bool:
        """Return whether a path is not in the tree, or is git's own. Without a tree each one is."""
        if self.tree is None:
            return bool(places)
        return any(files.is_beyond(self.tree, place) for place in places)


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
    return structs.replace(request, options=plain)


def _contradicts(option_id: str, kind: str) -> bool:
    says_yes = _YES.search(option_id) is not None
    says_no = _NO.search(option_id) is not None
    if kind.startswith("reject"):
        return says_yes and not says_no
    return kind.startswith("allow") and says_no and not says_yes
