"""Attaching: carries a decision out on a running agent, exactly as decided.

A session that was to be resumed is resumed or loaded; a new one is only ever made when a new one
was decided. What fails is raised, and the turn decides again with what is then known.
"""

from __future__ import annotations

from msgspec import Struct

from upthread.agents.base import AgentConnection
from upthread.core.events import AgentEvent
from upthread.core.names import shown
from upthread.core.quotas import require_session
from upthread.core.turns.prompt import NEW_SESSION_DECISIONS
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import UpstreamError


class Attached(Struct, frozen=True, kw_only=True):
    """An attached session. `history` is what `load` replayed, None after new or resume."""

    upstream_session_id: UpstreamSessionId
    how: str
    history: tuple[AgentEvent, ...] | None = None


async def attach(
    connection: AgentConnection, *, decision: str, current: UpstreamSessionId | None
) -> Attached:
    """Attach as decided; `resume` is preferred to `load`, which has to replay it all."""
    if decision in NEW_SESSION_DECISIONS:
        # Refused where it enters, before it is stored, shown and handed back to the agent (ADR 63).
        made = require_session(await connection.new_session())
        return Attached(upstream_session_id=made, how="new")
    # Without an open link the rules decide for a new session: `none_yet` or `no_session`.
    assert current is not None
    if connection.capabilities.can_resume:
        await connection.resume_session(current)
        return Attached(upstream_session_id=current, how="resumed")
    return await _load(connection, current=current)


async def attach_with_history(
    connection: AgentConnection, *, current: UpstreamSessionId
) -> Attached:
    """Attach and read the history back, as recovery needs it; None from an agent that cannot."""
    # An agent with neither is left to `_load`, which says so. Of one that only resumes
    # nobody can tell whether it got its prompt: the turn parks until a person says to go on.
    if connection.capabilities.can_load or not connection.capabilities.can_resume:
        return await _load(connection, current=current)
    await connection.resume_session(current)
    return Attached(upstream_session_id=current, how="resumed")


async def _load(connection: AgentConnection, *, current: UpstreamSessionId) -> Attached:
    if not connection.capabilities.can_load:
        agent = connection.capabilities.agent
        # Never a new session in its place: the agent would have forgotten all, and nobody be told.
        raise UpstreamError(
            f"{agent} can neither resume nor load the session {current}",
            outcome=Outcome.UNKNOWN,
            hint="begin the prompt with `fresh:` to start a new session from a briefing",
            upstream_session_id=current,
        )
    history = await connection.load_session(current)
    return Attached(upstream_session_id=current, how="loaded", history=history)


def held_elsewhere(session: UpstreamSessionId, named_as: str, holder: str = "") -> UpstreamError:
    """Return the error for an agent that names a session which another conversation holds."""
    return UpstreamError(
        f"the agent named {shown(session)} as {named_as}, and {holder or 'another conversation'} "
        "holds that session",
        outcome=Outcome.UNKNOWN,
        hint="it was not used: one upstream session has one conversation",
        upstream_session_id=session,
    )
