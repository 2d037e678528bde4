"""How the hooks of each agent are: set up, alive, trusted, and when they were last heard from.

`agents` and `doctor` say the same of them, from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio.to_thread

from upthread.agents.registry import find_agent
from upthread.core.agents import AGENTS
from upthread.runtime.bindings import heard
from upthread.runtime.bindings.places import hooks_directory
from upthread.surfaces.cli.setup import launcher
from upthread.surfaces.cli.setup.changes import Installed
from upthread.surfaces.cli.setup.target import Trust
from upthread.surfaces.cli.setup.verb import TARGETS
from upthread.surfaces.cli.terminal.neutral import command
from upthread.surfaces.cli.terminal.times import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class HookState:
    """How one agent's hooks are; the names are the JSON keys.

    `is_alive` and `is_trusted` are None for one that is not set up; `is_trusted` also where the
    agent asks for no trust or could not be asked. `fault` and `cure` are empty when nothing is
    wrong.
    """

    agent: str
    is_installed: bool
    is_set_up: bool
    is_alive: bool | None
    is_trusted: bool | None
    last_heard_at_ms: int | None
    fault: str
    cure: str

    @property
    def words(self) -> str:
        """The state in a few words."""
        if not self.is_set_up:
            return "not set up"
        said = ["set up", "alive" if self.is_alive else "not alive"]
        if self.is_trusted is not None:
            said.append("trusted" if self.is_trusted else "not trusted")
        at = self.last_heard_at_ms
        said.append("never heard from" if at is None else f"last heard from {moment(at)}")
        return ", ".join(said)


async def hook_states(home: Path, working_directory: str) -> tuple[HookState, ...]:
    """Return how the hooks of each agent are that can be set up; those set up are really asked."""
    found = await anyio.to_thread.run_sync(partial(_alive, home))
    return tuple([await _state(agent, home, working_directory, found) for agent in TARGETS])


def _alive(home: Path) -> tuple[frozenset[str], launcher.Alive | None]:
    """Return the agents that are set up and, if there are any, whether their launcher is alive."""
    agents = frozenset(Installed(home).agents())
    return agents, launcher.probe(home) if agents else None


async def _state(
    agent: str,
    home: Path,
    working_directory: str,
    found: tuple[frozenset[str], launcher.Alive | None],
) -> HookState:
    set_up, alive = found
    is_set_up = agent in set_up and alive is not None
    fault, cure = "", ""
    if is_set_up and alive is not None and alive.fault:
        fault, cure = alive.fault, command("upthread", "setup", agent)
    asked = TARGETS[agent].trust
    trust = await asked(working_directory) if is_set_up and asked else Trust()
    return HookState(
        agent=agent,
        is_installed=_is_installed(agent),
        is_set_up=is_set_up,
        is_alive=not fault if is_set_up else None,
        is_trusted=trust.is_given,
        last_heard_at_ms=heard.at_ms(hooks_directory(str(home)), TARGETS[agent].name),
        fault=fault or trust.fault,
        cure=cure or trust.cure,
    )


def _is_installed(agent: str) -> bool:
    return find_agent(AGENTS[TARGETS[agent].name]) is not None
