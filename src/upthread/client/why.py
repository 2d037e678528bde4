"""Why: the last decision on a role, and the one that would be taken now. Changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from upthread.agents.registry import TAKING_SESSIONS
from upthread.client.parts import ProjectParts
from upthread.client.preparing import Preparing
from upthread.core.cut_off import CutOffTurn
from upthread.core.events import TurnIntended
from upthread.core.handshake import HandshakeInputs, decide
from upthread.core.roles import Role
from upthread.core.states import Standing
from upthread.core.types import Decision, JsonValue
from upthread.runtime.conversation import is_of_sub_agent
from upthread.runtime.gathering import Subject, gathered
from upthread.runtime.overview import RoleView, record_facts
from upthread.runtime.publishing import continued_roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The last decision and the one that would be taken now. `last` is None before the first.

    `standing` is how the role stands meanwhile. `inside` is what the hooks in `inside_agent` would
    decide on a call of its own, None where no hook goes on with the role there. `cut_off` is what
    is known of a last turn that stopped before its end.
    """

    address: str
    standing: Standing
    last: Decision | None
    now: Decision
    inside_agent: str = ""
    inside: Decision | None = None
    cut_off: CutOffTurn | None = None


class Whys:
    """`await up.why(address)`."""

    def __init__(
        self,
        parts: ProjectParts,
        *,
        preparing: Preparing,
        role: Callable[[str], Awaitable[RoleView]],
    ) -> None:
        self._store = parts.store
        self._system = parts.system
        self._settings = parts.settings
        self._preparing = preparing
        self._role = role

    async def __call__(self, address: str, *, agent: str | None = None) -> Why:
        """Return the last decision and what would be decided now. Raises NotFoundError."""
        view = await self._role(address)
        inputs = await self._system.in_thread(lambda: self._inputs(view, agent))
        inside = await self._system.in_thread(lambda: self._inputs_inside(view))
        intended = _intended(view)
        return Why(
            address=view.conversation.key.address,
            standing=view.standing,
            last=_decision(intended) if intended else None,
            now=decide(inputs),
            inside_agent=inside.agent if inside else "",
            inside=decide(inside) if inside else None,
            cut_off=view.cut_off,
        )

    def _inputs_inside(self, view: RoleView) -> HandshakeInputs | None:
        """Return what a call by the agent's own tool would be decided on. Blocking.

        None where nobody has set hooks up in the agent that the role worked with last, and while
        somebody works with it: such a call gets a conversation beside it.
        """
        agent = view.chain[-1].agent if view.chain else ""
        served = {each.name: each for each in continued_roles(self._settings)}
        role = served.get(view.conversation.key.role)
        if role is None or view.holder is not None or not self._preparing.has_hooks(agent):
            return None
        facts = record_facts(view, other_host=self._preparing.other_host(view.link))
        known = facts.inputs(
            role=role,
            agent=agent,
            depth_max=self._settings.depth_max,
            condition_now=self._preparing.condition(view.conversation.key.workstream, role),
        )
        known = replace(known, takes_no_session=agent not in TAKING_SESSIONS)
        return gathered(self._store, known, self._subject(view, role))

    def _inputs(self, view: RoleView, agent: str | None) -> HandshakeInputs:
        """Return what a prompt that came now would be decided on. Blocking."""
        key = view.conversation.key
        role = self._settings.role(key.role)
        current = view.link.agent if view.link else None
        facts = record_facts(view, other_host=self._preparing.other_host(view.link))
        known = facts.inputs(
            role=role,
            agent=agent or role.agent or current or self._settings.agent or "",
            callers=self._preparing.callers,
            depth_max=self._settings.depth_max,
            opens_only_within=self._opens_only_within(view),
            condition_now=self._preparing.condition(key.workstream, role),
            holder=view.holder.in_words() if view.holder else None,
        )
        return gathered(self._store, known, self._subject(view, role))

    def _opens_only_within(self, view: RoleView) -> bool:
        if view.link is None or self._preparing.opens_sub_agents(view.link.agent):
            return False
        return is_of_sub_agent(self._store, view.link)

    def _subject(self, view: RoleView, role: Role) -> Subject:
        return Subject(
            conversation=view.conversation,
            link=view.link,
            role=role,
            working_directory=self._preparing.place_if_there(view.conversation.key.workstream),
            settings=self._preparing.freshness,
            now_ms=self._system.now_ms(),
        )


def _intended(view: RoleView) -> TurnIntended | None:
    return view.last_turn.intended if view.last_turn else None


def _decision(intended: TurnIntended) -> Decision:
    return Decision(
        decision=intended.decision,
        reasons=intended.reasons,
        inputs=cast("Mapping[str, JsonValue]", intended.inputs or {}),
    )
