"""The agents' own interfaces: the command that opens a session, and the adapter of an agent.

A view of a workstream needs the command of each role, so no adapter is loaded if the agent's row
already has the command.
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
    """Return the agent's own command for a link's session, None if the agent has no such command.

    None also if the configuration no longer names the agent. Blocking.
    """
    try:
        return _command(parts, link, link.upstream_session_id)
    except UsageError:
        return None


def own_interface_of(parts: ProjectParts, link: Link) -> OwnInterface:
    """Return the command for a link's session, or the reason why there is no command. Blocking."""
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
    """Return the prefix that sets a session's profile, empty if the session is here as well.

    For example `env CODEX_HOME=/home/ada/work`.
    """
    # Not the configured environment, because a person starts the agent from the shell.
    where = agent_environment(parts.environment)
    profile = last_attached(parts.store, link).agent_profile
    without = stored.profile_without(where, link.upstream_session_id, profile)
    return ("env", profile) if without else ()


def adapter_for(settings: Settings, agent: str) -> AgentAdapter:
    """Return the adapter for an agent's name. Raises UsageError for an unknown name."""
    configured = settings.agents.get(agent)
    # Without a command, the configuration means the known agent of this name.
    return registry.adapter_for(agent, configured.command if configured else ())


def opens_sub_agents(settings: Settings, agent: str) -> bool:
    """Return whether an agent, with its configured command, can open a sub-agent's session."""
    configured = settings.agents.get(agent)
    # A configured command speaks ACP, even under the name of a known agent.
    is_acp = bool(configured and configured.command)
    return registry.opens_sub_agents(agent, kind=ACP if is_acp else None)


def _reached_from_main(link: Link) -> str:
    """Return how a person reaches a sub-agent from its main session."""
    row = AGENTS.get(link.agent)
    return row.reached_from_main.format(session=link.upstream_session_id) if row else ""
