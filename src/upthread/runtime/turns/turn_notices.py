"""What a turn's listener is told once its session is attached."""

from __future__ import annotations

from upthread.agents.base import Capabilities
from upthread.core.decision.model import freshness_in, price_in
from upthread.core.roles.limits import unheld_in_words
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.progress import Notice, TurnStarted


def notify_started(live: LiveTurn, *, recognition: str = "") -> None:
    """Tell what was decided, now that the session is known."""
    intended = live.log.intended
    live.request.listener.started(
        TurnStarted(
            conversation=live.conversation,
            turn_id=live.log.turn_id,
            decision=intended.decision,
            reasons=intended.reasons,
            agent=live.request.claim.agent,
            upstream_session_id=live.require_link().upstream_session_id,
            turn_number=live.turn_number,
            recognition=recognition,
            price=price_in(intended.inputs),
            freshness=freshness_in(intended.inputs),
        )
    )


def notify_version(live: LiveTurn, agent: Capabilities) -> None:
    """Tell of an agent in another version than was tested.

    Not again while the conversation goes on in the version that was told.
    """
    tested, version = live.request.tested(agent.calls_itself), agent.version
    text = tested.warning(version) if tested else ""
    was = live.inputs.surroundings if live.inputs else None
    if tested is None or not text or (was and was.agent_version == version):
        return
    about = {
        "agent": live.request.claim.agent,
        "version": version,
        "tested_with": tested.version,
    }
    live.request.listener.notice(Notice(kind="agent_version", text=text, about=about))


def notify_limits(live: LiveTurn, agent: Capabilities) -> None:
    """Tell what of the role's limits the agent may pass by."""
    role, name = live.request.claim.role, live.request.claim.agent
    unheld = unheld_in_words(
        role.limits, agent=name, can_hold=agent.can_hold, is_sandboxed=agent.has_sandbox
    )
    if unheld:
        text = f"of the limits of {role.name} not all hold: {unheld}"
        about = {"agent": name, "role": role.name}
        live.request.listener.notice(Notice(kind="role_limits", text=text, about=about))
