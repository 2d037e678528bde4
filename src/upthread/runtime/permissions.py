"""Permissions: who or what answers when an agent asks before it acts.

The agent's own settings come first; a request reaches us only when they ask. Then a configured rule
answers, the strictest for what will happen (core/foreseen.py), else a person does, else nobody: the
request is cancelled and the turn parks. There is no way to say yes to everything, and what a rule
allows to change is the working tree: what lies beyond it may be what the person's own programs run.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from upthread.agents.base import PermissionAnswer, PermissionRequest
from upthread.boundary import files
from upthread.core.foreseen import CHANGING, Rule, judged, places_of

PermissionRule: TypeAlias = Rule
AskPerson: TypeAlias = Callable[[PermissionRequest], Awaitable[PermissionAnswer]]

NOBODY = "nobody"

_ALLOWS: Final = ("allow_once",)
"""A rule is about one call. What holds for ever the agent would not ask about again."""
_REJECTS: Final = ("reject_once", "reject_always")

_YES: Final = re.compile(r"allow|accept|approve|grant|permit|proceed|\byes\b", re.IGNORECASE)
_NO: Final = re.compile(
    r"reject|den(?:y|ied)|decline|cancel|refuse|abort|disallow|\b(?:no|not|dont|don't|never)\b",
    re.IGNORECASE,
)
"""What ids of options are called; see `plain_options`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionPolicy:
    """Rules by tool kind (ACP's), and a person to ask, None where there is none.

    `tree` is the directory worked in. To change what is outside of it, or git's own files in it,
    is asked about whatever the rules allow; None where nothing is known of a tree.
    """

    rules: Mapping[str, PermissionRule] = field(default_factory=dict[str, PermissionRule])
    ask_person: AskPerson | None = None
    tree: str | None = None

    async def answer(self, request: PermissionRequest) -> PermissionAnswer:
        """Return the answer and who gave it; `answered_by` is NOBODY when nobody could."""
        rule, in_words = judged(request.foreseen.kinds, self.rules)
        if rule == "allow" and self._reaches_out(request):
            rule = "ask"
        kinds = _REJECTS if rule == "deny" else _ALLOWS
        option_id = None if rule == "ask" else _option_of(request, kinds)
        if rule == "deny" or option_id is not None:
            return PermissionAnswer(option_id=option_id, answered_by=f"rule {in_words}")
        if self.ask_person is None:
            return PermissionAnswer(option_id=None, answered_by=NOBODY)
        return await self.ask_person(plain_options(request))

    def _reaches_out(self, request: PermissionRequest) -> bool:
        """Return whether something is changed that is no file of the tree's. Looks at links."""
        will_happen = request.foreseen
        if self.tree is None or not will_happen.kinds & CHANGING:
            return False
        return any(files.is_beyond(self.tree, place) for place in places_of(will_happen))


def _option_of(request: PermissionRequest, kinds: Sequence[str]) -> str | None:
    """Return the first option of the first of these kinds that the agent offers, None without."""
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
