"""Why: the last decision on a role, and the one that would be taken now. Changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, cast

from msgspec import Struct, structs

from upthread.client.delegation_setup import Preparing, opens_sub_agents
from upthread.client.parts import ProjectParts
from upthread.core.agents import AGENTS
from upthread.core.decision.freshness import Reading
from upthread.core.decision.handshake import HandshakeInputs, decide
from upthread.core.decision.model import RecordFacts
from upthread.core.decision.rollover import is_refused_for_good
from upthread.core.decision.rules import CANNOT_RESUME
from upthread.core.decision.words import FRAMEWORK
from upthread.core.events import TurnIntended
from upthread.core.roles.role import Role
from upthread.core.runs.stops import NEW_REFUSED
from upthread.core.states import Standing, State
from upthread.core.text import visible_line
from upthread.core.turns.agent_history import NOTHING_LACKED, Lacked
from upthread.core.types import Decision, JsonValue, Link, Outcome
from upthread.errors import StoreError
from upthread.runtime.record.turn_views import (
    CutOffTurn,
    last_attached,
    main_session_of,
    reading_in,
    refusals_in_row,
)
from upthread.runtime.record.workstream_views import RoleView
from upthread.runtime.turns.beginning import RESUMING, Subject, gathered

_OTHER_WORDS: Final = "(other words)"

A_NEW_ONE: Final = "a new one takes its place, with a replay"


class Why(Struct, frozen=True, kw_only=True):
    """The last decision and the one that would be taken now. `last` is None before the first.

    `standing` is how the role stands meanwhile. `inside` is what the hooks in `inside_agent` would
    decide on a call of its own, None where no hook goes on with the role there. `cut_off` is what
    is known of a last turn that stopped before its end, `reading` how much of what the
    session read is known, None without a session.
    """

    address: str
    standing: Standing
    last: Decision | None
    now: Decision
    inside_agent: str = ""
    inside: Decision | None = None
    cut_off: CutOffTurn | None = None
    reading: Reading | None = None


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
        intended = view.last_turn.intended if view.last_turn else None
        is_a_role = view.conversation.key.role in self._settings.roles
        if intended is not None and intended.decision == FRAMEWORK and not is_a_role:
            return Why(
                address=view.conversation.key.address,
                standing=view.standing,
                last=_decision(intended),
                now=Decision(decision=FRAMEWORK, reasons=(FRAMEWORK,)),
            )
        inputs = await self._system.in_thread(lambda: self.inputs_now(view, agent))
        inside = await self._system.in_thread(lambda: self._inputs_inside(view))
        return Why(
            address=view.conversation.key.address,
            standing=view.standing,
            last=_decision(intended) if intended else None,
            now=await self._system.in_thread(lambda: self._decided_now(view, inputs)),
            inside_agent=inside.agent if inside else "",
            inside=decide(inside) if inside else None,
            cut_off=view.cut_off,
            reading=await self._system.in_thread(
                lambda: reading_in(self._store, view.link) if view.link else None
            ),
        )

    def _decided_now(self, view: RoleView, inputs: HandshakeInputs) -> Decision:
        """Return what is decided now, and what follows if the agent refuses again. Blocking."""
        decision, turn = decide(inputs), view.last_turn
        if turn is None or decision.hint or decision.decision not in RESUMING:
            return decision
        if turn.intended is not None and CANNOT_RESUME in turn.intended.reasons:
            hint = f"if its agent still opens no session, {A_NEW_ONE}"
            return structs.replace(decision, hint=hint)
        if doubt := self._may_be_gone(view):
            return structs.replace(decision, hint=doubt)
        conversation_id, refused = view.conversation.conversation_id, "the agent refuses again"
        row = refusals_in_row(self._store, conversation_id)
        if not row and turn.parked is not None:
            refused = "--continue is refused"
            row = refusals_in_row(self._store, conversation_id, turn_id=view.last_turn_id)
        words = row[0].partition(NEW_REFUSED)[0] if row else ""
        if not is_refused_for_good(row, words, is_slow=turn.stopped_by[0] == Outcome.TIMED_OUT):
            return decision
        alike = "" if is_refused_for_good(row, _OTHER_WORDS) else " in the same words"
        hint = f"if {refused}{alike}, upthread asks the agent for a new session"
        return structs.replace(decision, hint=hint)

    def _may_be_gone(self, view: RoleView) -> str:
        """Return why the agent may not open the session; empty where nothing says so. Blocking."""
        link = view.link
        if link is None:
            return ""
        agent, own = link.agent, self._preparing.own_sessions
        place = self._preparing.place_if_there(view.conversation.key.workstream)
        last, here = last_attached(self._store, link), own.profile(agent, agent, {})
        if pid := own.writer(agent, link.upstream_session_id):
            return f"it is open in another {agent}, process {pid}: leave it there first"
        doubt, lacked = "", self._lacked(view)
        if place != link.working_directory:
            was = visible_line(link.working_directory)
            doubt = f"the session was opened in {was}: if {agent} does not find it from here"
        elif last.agent_profile not in {"", here} and not last.chose_profile:
            was = last.agent_profile
            there = f"in {here}" if here else "here"
            doubt = f"the session was in {was}: if {agent} does not find it {there}"
        elif lacked.gone or (own.is_read(agent) and not (lacked.fault or self._has_file(link))):
            doubt = f"{agent} may have lost the session: if it does not open it"
        return doubt and f"{doubt}, {A_NEW_ONE}"

    def _has_file(self, link: Link) -> bool:
        try:
            return bool(self._preparing.own_sessions.stamp(link.agent, link.upstream_session_id))
        except StoreError:
            return True  # the decision itself names what cannot be read

    def _inputs_inside(self, view: RoleView) -> HandshakeInputs | None:
        """Return what a call by the agent's own tool would be decided on. Blocking.

        None where nobody has set hooks up in the agent that the role worked with last, and while
        somebody works with it: such a call gets a conversation beside it.
        """
        agent = view.chain[-1].agent if view.chain else ""
        role = self._settings.continued_roles.get(view.conversation.key.role)
        if role is None or view.holder is not None or not self._preparing.has_hooks(agent):
            return None
        known = self._known(view, role, agent)
        row = AGENTS.get(agent)
        known = structs.replace(
            known,
            takes_no_session=row is None or not row.takes_sessions,
            other_profile=self._lacked(view).other_profile,
        )
        return self._gathered(view, role, known)

    def inputs_now(self, view: RoleView, agent: str | None = None) -> HandshakeInputs:
        """Return what a prompt that came now would be decided on. Blocking."""
        role = self._settings.role(view.conversation.key.role)
        current = view.chain[-1].agent if view.chain else None
        agent = agent or role.agent or current or self._settings.agent or ""
        role = self._settings.role(role.name, agent)
        known = structs.replace(
            self._known(view, role, agent),
            callers=self._preparing.callers,
            opens_only_within=self._opens_only_within(view),
            holder=view.holder.in_words() if view.holder else None,
            **self._lacked(view).as_inputs,
        )
        return self._gathered(view, role, known)

    async def lacked(self, view: RoleView) -> Lacked:
        """Return what the record lacks of a role's session, as its agent has stored it."""
        return await self._system.in_thread(lambda: self._lacked(view))

    def _lacked(self, view: RoleView) -> Lacked:
        if view.holder is not None or view.standing.state is State.RUNNING:
            # Whoever is at it records it.
            return NOTHING_LACKED
        return self._preparing.lacked(view.conversation.key.role, view.link, view.last_turn)

    def _opens_only_within(self, view: RoleView) -> bool:
        if view.link is None or opens_sub_agents(self._settings, view.link.agent):
            return False
        return bool(main_session_of(self._store, view.link))

    def _known(self, view: RoleView, role: Role, agent: str) -> HandshakeInputs:
        """Return what the record says before a prompt to `role` through `agent`. Blocking."""
        facts = RecordFacts(
            conversation_id=view.conversation.conversation_id,
            turns=view.turns,
            link=view.link,
            last=view.last_turn,
            other_host=self._preparing.other_host(view.link),
        )
        return facts.inputs(
            continuity=role.continuity,
            agent=agent,
            depth_max=self._settings.depth_max,
            condition_now=self._preparing.condition(view.conversation.key.workstream, role),
        )

    def _gathered(self, view: RoleView, role: Role, known: HandshakeInputs) -> HandshakeInputs:
        subject = Subject(
            conversation=view.conversation,
            link=view.link,
            role=role,
            agent=known.agent,
            working_directory=self._preparing.place_if_there(view.conversation.key.workstream),
            settings=self._settings,
            now_ms=self._system.now_ms(),
        )
        return gathered(self._store, known, subject)


def _decision(intended: TurnIntended) -> Decision:
    return Decision(
        decision=intended.decision,
        reasons=intended.reasons,
        inputs=cast("Mapping[str, JsonValue]", intended.inputs or {}),
    )
