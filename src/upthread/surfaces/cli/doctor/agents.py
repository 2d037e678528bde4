"""The agents that upthread knows, and how it drives each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct, to_builtins

from upthread import __version__
from upthread.agents.registry import (
    AGENTS_AND_REHEARSAL,
    REHEARSAL,
    InstalledAgent,
    find_program,
    installed_agents,
    seen_way,
)
from upthread.config import Settings
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.doctor.findings import HookState, hook_states
from upthread.surfaces.cli.setup.targets import TARGETS
from upthread.surfaces.cli.terminal.table import write_table

_OWN_CAN: Final = ("resume", "load", "list", "fork", "sub_agents")


class ListedAgent(Struct, frozen=True, kw_only=True):
    """One agent as it is listed; the names are the JSON keys.

    `tested_with` and `can` are None for one that this release was not tested with; `notice` is set
    for another version than that. `hooks` is None for one that `setup` does not know.
    """

    agent: str
    is_installed: bool
    version: str | None
    path: str | None
    driven_by: str
    command: tuple[str, ...]
    how_to_install: str
    is_configured: bool
    tested_with: str | None
    can: tuple[str, ...] | None
    notice: str | None
    hooks: HookState | None


def list_agents(call: Call) -> int:
    """List the agents that upthread knows, and those that the configuration adds."""
    settings = call.trusted_settings()
    found, states = anyio.run(_looked_up, settings)
    listed = [
        _known(name, found, states) for name in AGENTS_AND_REHEARSAL if name not in settings.agents
    ]
    listed += [_configured(name, each.command, states) for name, each in settings.agents.items()]
    output = call.output
    if output.is_json:
        shapes = [to_builtins(agent) for agent in listed]
        output.json({"default_agent": settings.agent, "agents": shapes})
        return 0
    head = ("AGENT", "HERE", "VERSION", "DRIVEN BY", "CAN", "COMMAND")
    write_table(output, head, [_row(agent) for agent in listed])
    for agent in listed:
        if agent.notice:
            output.note(agent.notice, "yellow")
    for agent in listed:
        if agent.hooks is not None:
            output.row((f"hooks {agent.hooks.agent}: ", "bold"), (agent.hooks.words, ""))
            if agent.hooks.fault:
                output.note(f"  {agent.hooks.fault}", "yellow")
                output.command("  ", agent.hooks.cure)
    for agent in listed:
        if not agent.is_installed:
            output.line(f"  to get {agent.agent}: {agent.how_to_install}", "dim")
    return 0


async def _looked_up(
    settings: Settings,
) -> tuple[Mapping[str, InstalledAgent], Mapping[str, HookState]]:
    """Return which agents are here, and how the hooks of each are; by its own name, both."""
    states = await hook_states(Path(settings.home), settings.working_directory)
    found = {each.agent: each for each in await installed_agents()}
    return found, {TARGETS[each.agent].name: each for each in states}


def _known(
    name: str, found: Mapping[str, InstalledAgent], states: Mapping[str, HookState]
) -> ListedAgent:
    entry, installed = AGENTS_AND_REHEARSAL[name], found.get(name)
    way = installed.way if installed else entry.ways[0]
    is_own = name == REHEARSAL
    row = seen_way(name, way.kind)
    version = __version__ if is_own else installed.version if installed else None
    return ListedAgent(
        agent=name,
        is_installed=is_own or installed is not None,
        version=version,
        path=installed.path if installed else None,
        driven_by=way.kind,
        command=way.command,
        how_to_install=entry.how_to_install,
        is_configured=False,
        tested_with=row.version if row else None,
        can=_OWN_CAN if is_own else row.can if row else None,
        notice=(row.warning(version or "") if row else "") or None,
        hooks=states.get(name),
    )


def _configured(
    name: str, command: tuple[str, ...], states: Mapping[str, HookState]
) -> ListedAgent:
    path = find_program(command[0]) if command else None
    return ListedAgent(
        agent=name,
        is_installed=path is not None,
        version=None,
        path=path,
        # A configured command always speaks ACP.
        driven_by="acp",
        command=command,
        how_to_install="its command is in the configuration, and not on PATH",
        is_configured=True,
        tested_with=None,
        can=None,
        notice=None,
        hooks=states.get(name),
    )


def _row(agent: ListedAgent) -> tuple[str, ...]:
    is_own = agent.agent == REHEARSAL
    return (
        agent.agent,
        "yes" if agent.is_installed else "no",
        agent.version or "",
        agent.driven_by.upper(),
        "?" if agent.can is None else " ".join(word.replace("_", "-") for word in agent.can),
        "built in, used only when named" if is_own else shlex.join(agent.command),
    )
