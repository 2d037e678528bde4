"""What `doctor` and `agents` say of hooks: in place, alive, trusted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct

from upthread.agents.registry import find_agent
from upthread.client.project import Project
from upthread.core.agents import AGENTS
from upthread.surfaces.cli.doctor.findings import Finding
from upthread.surfaces.cli.setup import launcher
from upthread.surfaces.cli.setup.changes import Installed, Trust, read_file
from upthread.surfaces.cli.setup.targets import TARGETS
from upthread.surfaces.cli.terminal.neutral import command

STORE = "hooks"

OLDER_FILES: Final = ("places", "projects", "runs")
"""Below upthread's home, in `hooks/`: what an earlier version kept there."""


def hook_findings(project: Project) -> Iterator[Finding]:
    """Yield what is wrong with hooks on this machine. Blocking."""
    home = Path(project.settings.home)
    yield from _installation(home)
    yield from _left_over(home)


def state_findings(states: tuple[HookState, ...]) -> list[Finding]:
    """Return what is wrong with the hooks of agents that are set up."""
    return [_finding(each.agent, "", each.fault, each.cure) for each in states if each.fault]


def _installation(home: Path) -> Iterator[Finding]:
    installed = Installed(home)
    for told in installed.outdated():
        what, _, cure = told.partition(": ")
        yield _finding("", "", what, cure)
    for agent in installed.agents():
        for path, expected in installed.expected(agent):
            content = read_file(path)
            if content == expected:
                continue
            what = "has been changed since" if content else "is gone"
            cure = f"if that was not you: {command('upthread', 'setup', agent)}"
            yield _finding(agent, str(path), f"what setup wrote {what}", cure)


def _left_over(home: Path) -> Iterator[Finding]:
    """Yield the files of hooks of an earlier version, which nothing reads any more."""
    for name in OLDER_FILES:
        path = home / "hooks" / name
        if path.exists():
            what = "files of an earlier version's hooks, which nothing reads any more"
            cure = "python -m tools.import_hook_files takes in what they hold; then delete them"
            yield _finding(name, str(path), what, cure)


def _finding(history: str, path: str, what: str, cure: str) -> Finding:
    return Finding(store=STORE, history=history, path=path, what=what, cure=cure)


class HookState(Struct, frozen=True, kw_only=True):
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
        return ", ".join(said)


async def hook_states(home: Path, working_directory: str) -> tuple[HookState, ...]:
    """Return how the hooks of each agent are that can be set up; those set up are really asked."""
    found = await anyio.to_thread.run_sync(partial(_alive, home))
    return tuple([await _state(agent, working_directory, found) for agent in TARGETS])


def _alive(home: Path) -> tuple[frozenset[str], launcher.Alive | None]:
    """Return the agents that are set up and, if there are any, whether their launcher is alive."""
    agents = frozenset(Installed(home).agents())
    return agents, launcher.probe(home) if agents else None


async def _state(
    agent: str,
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
        is_installed=find_agent(AGENTS[TARGETS[agent].name]) is not None,
        is_set_up=is_set_up,
        is_alive=not fault if is_set_up else None,
        is_trusted=trust.is_given,
        fault=fault or trust.fault,
        cure=cure or trust.cure,
    )
