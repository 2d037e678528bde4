"""How sessions are opened in their agents' own interfaces, and how their agents are configured.

A look asks this for each role, so it loads no adapter where the agent's row says it all.
"""

from __future__ import annotations

from upthread.agent_stores.homes import agent_environment
from upthread.agents import registry, stored
from upthread.agents.base import AgentAdapter
from upthread.client.parts import ProjectParts
from upthread.config import Settings
from upthread.core.agents import ACP, AGENTS
from upthread.core.sessions import MainSession, OwnInterface, of_link
from upthread.core.types import Link, UpstreamSessionId
from upthread.errors import UsageError
from upthread.runtime.record.turn_views import last_attached, main_session_of


def command_of(parts: ProjectParts, link: Link) -> tuple[str, ...] | None:
    """Return the agent's own command that opens a link's session, None where there is none.

    None also for an agent that the configuration no longer names. Blocking.
    """
    try:
        return _command(parts, link, link.upstream_session_id)
    except UsageError:
        return None


def own_interface_of(parts: ProjectParts, link: Link) -> OwnInterface:
    """Return how a link's session is opened, or why it is not. Blocking."""
    try:
        command = _command(parts, link, link.upstream_session_id)
    except UsageError:
        return of_link(link, command=None, is_configured=False)
    if opens_sub_agents(parts.settings, link.agent):
        return of_link(link, command=command)
    main = UpstreamSessionId(main_session_of(parts.store, link))
    within = MainSession(
        upstream_session_id=main,
        command=_command(parts, link, main),
        there=_reached_from_main(link),
    )
    return of_link(link, command=command, main=within if main else None)


def _command(parts: ProjectParts, link: Link, session: UpstreamSessionId) -> tuple[str, ...] | None:
    configured = parts.settings.agents.get(link.agent)
    if configured is None or not configured.command:
        command = registry.resume_command(link.agent, session)
    else:
        command = adapter_for(parts.settings, link.agent).resume_command(session)
    return (*_words_before(parts, link), *command) if command else None


def _words_before(parts: ProjectParts, link: Link) -> tuple[str, ...]:
    """Return what sets a session's profile, where only that one has it."""
    # Not the configured environment: a person starts the agent from the shell.
    where = agent_environment(parts.environment)
    profile = last_attached(parts.store, link).agent_profile
    without = stored.profile_without(where, link.upstream_session_id, profile)
    return ("env", profile) if without else ()


def adapter_for(settings: Settings, agent: str) -> AgentAdapter:
    """Return the adapter for an agent's name; raises UsageError for one nobody knows."""
    configured = settings.agents.get(agent)
    # Configured without a command, it is the agent that is known by this name.
    return registry.adapter_for(agent, configured.command if configured else ())


def opens_sub_agents(settings: Settings, agent: str) -> bool:
    """Return whether an agent opens a sub-agent's session from outside, as it is driven."""
    configured = settings.agents.get(agent)
    # A command of a person's own speaks ACP, whatever the agent of that name does otherwise.
    is_acp = bool(configured and configured.command)
    return registry.opens_sub_agents(agent, kind=ACP if is_acp else None)


def _reached_from_main(link: Link) -> str:
    """Return how a sub-agent is reached in the main session that it was started in."""
    row = AGENTS.get(link.agent)
    return row.reached_from_main.format(session=link.upstream_session_id) if row else ""
