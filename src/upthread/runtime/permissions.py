"""Permissions: who or what answers when an agent asks before it acts.

The agent's own settings come first; a request reaches us only when they ask. Then a configured rule
for the kind of tool answers, else a person does, else nobody: the request is cancelled and the turn
parks. There is no way to say yes to everything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from upthread.agents.base import PermissionAnswer, PermissionRequest

PermissionRule: TypeAlias = Literal["allow", "deny", "ask"]
AskPerson: TypeAlias = Callable[[PermissionRequest], Awaitable[PermissionAnswer]]

NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionPolicy:
    """Rules by tool kind (ACP's), and a person to ask, None where there is none."""

    rules: Mapping[str, PermissionRule] = field(default_factory=dict[str, PermissionRule])
    ask_person: AskPerson | None = None

    async def answer(self, request: PermissionRequest) -> PermissionAnswer:
        """Return the answer and who gave it; `answered_by` is NOBODY when nobody could."""
        rule = self.rules.get(request.tool_kind, "ask")
        if rule == "allow":
            return _choose(request, "allow", f"rule {request.tool_kind}=allow")
        if rule == "deny":
            return _choose(request, "reject", f"rule {request.tool_kind}=deny")
        if self.ask_person is None:
            return PermissionAnswer(option_id=None, answered_by=NOBODY)
        return await self.ask_person(request)


def _choose(request: PermissionRequest, verb: str, answered_by: str) -> PermissionAnswer:
    """Prefer the option that holds once; None, which cancels, when the agent offers no such one."""
    kinds = {kind: option_id for option_id, kind in reversed(request.options)}
    option_id = kinds.get(f"{verb}_once") or kinds.get(f"{verb}_always")
    return PermissionAnswer(option_id=option_id, answered_by=answered_by)
