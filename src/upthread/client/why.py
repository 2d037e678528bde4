"""Why: the last decision on a role, and the one that would be taken now. Changes nothing."""

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from upthread.agents import registry
from upthread.client.parts import ProjectParts
from upthread.core.agents import AGENTS
from upthread.core.decision.freshness import Reading, change_lines
from upthread.core.decision.handshake import decide
from upthread.core.decision.model import HandshakeInputs, recorded_inputs
from upthread.core.decision.rollover import is_refused_for_good
from upthread.core.decision.rules import CANNOT_RESUME
from upthread.core.decision.words import FRAMEWORK
from upthread.core.events import TurnIntended
from upthread.core.roles.role import Role
from upthread.core.runs.stops import NEW_REFUSED
from upthread.core.states import Standing, State
from upthread.core.text import visible_line
from upthread.core.turns.agent_history import NOTHING_LACKED, Lacked
from upthread.core.turns.turn import TurnView
from upthread.core.types import Decision, JsonValue, Link, Outcome
from upthread.errors import StoreError, UsageError
from upthread.runtime.record.turn_views import (
    CutOffTurn,
    last_attached,
    main_session_of,
    reading_in,
    refusals_in_row,
)
from upthread.runtime.record.workstream_views import RoleView
from upthread.runtime.turns.beginning import RESUMING, Subject, gathered
from upthread.runtime.turns.delegation import OwnSessions

A_NEW_ONE = "a new one takes its place, with a replay"


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


def why(parts: ProjectParts, view: RoleView, agent: str | None) -> Why:
    """Return the last decision on a role and what would be decided now. Blocking."""
    intended = view.last_turn.intended if view.last_turn else None
    is_a_role = view.conversation.key.role in parts.settings.roles
    known = Why(
        address=view.conversation.address,
        standing=view.standing,
        last=_decision(intended) if intended else None,
        now=Decision(decision=FRAMEWORK, reasons=(FRAMEWORK,)),
    )
    if intended is not None and intended.decision == FRAMEWORK and not is_a_role:
        return known
    inputs = inputs_now(parts, view, agent)
    now = decide(inputs)
    if view.last_turn and not now.hint and now.decision in RESUMING:
        hint = _if_refused(parts, view, view.last_turn, inputs.agent)
        now = replace(now, hint=hint)
    inside = _inputs_inside(parts, view)
    return replace(
        known,
        now=now,
        inside_agent=inside.agent if inside else "",
        inside=decide(inside) if inside else None,
        cut_off=view.cut_off,
        reading=reading_in(parts.store, view.link) if view.link else None,
    )


def _if_refused(parts: ProjectParts, view: RoleView, turn: TurnView, agent: str) -> str:
    """Return what follows if the agent refuses again; empty where nothing is known of it."""
    try:
        registry.require_known(agent, parts.settings.of_agent(agent).command)
    except UsageError as error:
        return f"nothing would be sent without another --agent: {error.message}"
    if turn.intended is not None and CANNOT_RESUME in turn.intended.reasons:
        return f"if its agent still opens no session, {A_NEW_ONE}"
    if doubt := _may_be_gone(parts, view):
        return doubt
    conversation_id, refused = view.conversation.conversation_id, "the agent refuses again"
    row = refusals_in_row(parts.store, conversation_id)
    if not row and turn.parked is not None:
        refused = "--continue is refused"
        row = refusals_in_row(parts.store, conversation_id, turn_id=view.last_turn_id)
    words = row[0].partition(NEW_REFUSED)[0] if row else ""
    # A new session that came too late says nothing of the words for the old one.
    is_slow = turn.stopped_by[0] == Outcome.TIMED_OUT and words in row[:1]
    if not is_refused_for_good(row, words, is_slow=is_slow):
        return ""
    alike = "" if is_refused_for_good(row, "(other words)") else " in the same words"
    return f"if {refused}{alike}, upthread asks the agent for a new session"


def _may_be_gone(parts: ProjectParts, view: RoleView) -> str:
    """Return why the agent may not open the session; empty where nothing says so."""
    link = view.link
    if link is None:
        return ""
    agent, own = link.agent, parts.own_sessions
    place = parts.place_if_there(view.conversation.key.workstream)
    last, here = last_attached(parts.store, link), own.profile(agent, agent, {})
    if pid := own.writer(agent, link.upstream_session_id):
        return f"it is open in another {agent}, process {pid}: leave it there first"
    doubt, missing = "", lacked_now(parts, view)
    if place != link.working_directory:
        was = visible_line(link.working_directory)
        doubt = f"the session was opened in {was}: if {agent} does not find it from here"
    elif last.agent_profile not in {"", here} and not last.chose_profile:
        was = last.agent_profile
        there = f"in {here}" if here else "here"
        doubt = f"the session was in {was}: if {agent} does not find it {there}"
    elif missing.gone or (own.is_read(agent) and not (missing.fault or _has_file(own, link))):
        doubt = f"{agent} may have lost the session: if it does not open it"
    return doubt and f"{doubt}, {A_NEW_ONE}"


def _has_file(own: OwnSessions, link: Link) -> bool:
    try:
        return bool(own.stamp(link.agent, link.upstream_session_id))
    except StoreError:
        return True  # the decision itself names what cannot be read


def _inputs_inside(parts: ProjectParts, view: RoleView) -> HandshakeInputs | None:
    """Return what a call by the agent's own tool would be decided on.

    None where nobody has set hooks up in the agent that the role worked with last, and while
    somebody works with it: such a call gets a conversation beside it.
    """
    agent = view.chain[-1].agent if view.chain else ""
    role = parts.settings.continued_roles.get(view.conversation.key.role)
    if role is None or view.holder is not None or not parts.has_hooks(agent):
        return None
    row = AGENTS.get(agent)
    return _gathered(
        parts,
        view,
        role,
        agent,
        takes_no_session=row is None or not row.takes_sessions,
        other_profile=lacked_now(parts, view).other_profile,
    )


def inputs_now(parts: ProjectParts, view: RoleView, agent: str | None = None) -> HandshakeInputs:
    """Return what a prompt that came now would be decided on. Blocking."""
    role = parts.settings.role(view.conversation.key.role)
    current = view.chain[-1].agent if view.chain else None
    agent = agent or role.agent or current or parts.settings.agent or ""
    link, opens_sub_agents = view.link, parts.opens_sub_agents
    return _gathered(
        parts,
        view,
        parts.settings.role(role.name, agent),
        agent,
        callers=parts.callers,
        opens_only_within=link is not None
        and not opens_sub_agents(link.agent)
        and bool(main_session_of(parts.store, link)),
        holder=view.holder.in_words() if view.holder else None,
        **lacked_now(parts, view).as_inputs,
    )


def changes_now(parts: ProjectParts, view: RoleView) -> tuple[str, ...] | None:
    """Return what has changed around a role's session, as a prompt that came now would find it.

    None where there is no session, or the role is nobody's to tell. Blocking.
    """
    if view.conversation.key.role not in parts.settings.roles:
        return None
    inputs = inputs_now(parts, view)
    return change_lines(inputs.freshness) if inputs.surroundings else None


def lacked_now(parts: ProjectParts, view: RoleView) -> Lacked:
    """Return what the record lacks of a role's session, as its agent has stored it. Blocking."""
    if view.holder is not None or view.standing.state is State.RUNNING:
        # Whoever is at it records it.
        return NOTHING_LACKED
    return parts.lacked(view.conversation.key.role, view.link, view.last_turn)


def _gathered(
    parts: ProjectParts, view: RoleView, role: Role, agent: str, **known: Any
) -> HandshakeInputs:
    """Return the inputs of a prompt to `role` through `agent`, with what is `known` beside."""
    workstream = view.conversation.key.workstream
    inputs = recorded_inputs(
        view.conversation.conversation_id,
        view.link,
        view.last_turn,
        turns=view.turns,
        other_host=parts.other_host(view.link),
        continuity=role.continuity,
        agent=agent,
        depth_max=parts.settings.depth_max,
        condition_now=parts.condition(workstream, role),
        **known,
    )
    subject = Subject(
        conversation=view.conversation,
        link=view.link,
        role=role,
        agent=agent,
        working_directory=parts.place_if_there(workstream),
        settings=parts.settings,
        now_ms=parts.system.now_ms(),
    )
    return gathered(parts.store, inputs, subject)


def _decision(intended: TurnIntended) -> Decision:
    return Decision(
        decision=intended.decision,
        reasons=intended.reasons,
        inputs=cast("Mapping[str, JsonValue]", intended.inputs or {}),
    )
