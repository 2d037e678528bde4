"""The agents by the name a person types: what to start, and which of them are on this machine.

Data and look-ups. It knows agents by name and command only; how each one behaves is its adapter's
affair. The rehearsal agent is here under its name and never among the installed ones: it is used
where somebody asked for it, never implicitly.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from upthread.agents._process import ChildStart, started_child
from upthread.agents._process_group import end_process_group
from upthread.agents.base import AgentAdapter
from upthread.errors import UpthreadError, UsageError

__all__ = [
    "AGENTS",
    "AgentEntry",
    "InstalledAgent",
    "adapter_for",
    "agents_on_path",
    "command_of",
    "configured_adapter",
    "end_process_group",
    "installed_agents",
]

REHEARSAL: Final = "rehearsal"
ACP_PREFIX: Final = "acp:"
VERSION_TIMEOUT_S: Final = 10.0
VERSION_CHARACTERS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEntry:
    """One agent: its name, how it is spoken to, what starts it, where to get it."""

    agent: str
    kind: str
    command: tuple[str, ...]
    how_to_install: str


_ENTRIES: Final = (
    AgentEntry(
        agent=REHEARSAL,
        kind="acp",
        command=(sys.executable, "-I", "-m", "upthread.agents.rehearsal"),
        how_to_install="it comes with upthread",
    ),
    AgentEntry(
        agent="opencode",
        kind="acp",
        command=("opencode", "acp"),
        how_to_install="see opencode.ai",
    ),
    AgentEntry(
        agent="codex",
        kind="acp",
        command=("codex-acp",),
        how_to_install="install codex and @agentclientprotocol/codex-acp",
    ),
    AgentEntry(
        agent="claude-code",
        kind="acp",
        command=("claude-agent-acp",),
        how_to_install="install claude and @agentclientprotocol/claude-agent-acp",
    ),
    AgentEntry(
        agent="gemini",
        kind="acp",
        command=("gemini", "--acp"),
        how_to_install="install @google/gemini-cli",
    ),
)

AGENTS: Final = {entry.agent: entry for entry in _ENTRIES}
"""Every agent known by name."""


def adapter_for(agent: str) -> AgentAdapter:
    """Return the adapter of an agent: a name of AGENTS, or `acp:COMMAND LINE` for any other.

    The command line is split as a shell would, and no shell ever sees it. Raises UsageError for an
    unknown name. Nothing is started, and the command need not exist yet.
    """
    return configured_adapter(agent, command_of(agent), {})


def command_of(agent: str) -> tuple[str, ...]:
    """Return the words that start an agent; raises UsageError for an unknown name."""
    if agent.startswith(ACP_PREFIX):
        return tuple(_words(agent))
    entry = AGENTS.get(agent)
    if entry is None:
        raise UsageError(
            f"there is no agent {agent!r}",
            hint=f'known: {", ".join(AGENTS)}, and acp:"COMMAND" for any that speaks ACP',
        )
    return entry.command


def configured_adapter(
    agent: str, command: Sequence[str], environment: Mapping[str, str]
) -> AgentAdapter:
    """Return the adapter of an agent that the configuration names, by its command line."""
    # Whoever only looks at what is stored must not pay for a protocol.
    from upthread.agents.acp import AcpAdapter  # noqa: PLC0415

    return AcpAdapter(agent=agent, command=command, environment=environment)


def agents_on_path(search_path: str | None = None) -> tuple[str, ...]:
    """Return the names of the agents on PATH, in the order of AGENTS; starts nothing."""
    return tuple(entry.agent for entry in _ENTRIES if _path_of(entry, search_path))


def _path_of(entry: AgentEntry, search_path: str | None = None) -> str | None:
    """The rehearsal agent counts as nowhere: it is used only where somebody asked for it."""
    if entry.agent == REHEARSAL:
        return None
    return shutil.which(entry.command[0], path=search_path)


def _words(agent: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(agent.removeprefix(ACP_PREFIX)))
    except ValueError as error:
        raise UsageError(
            f"the command of {agent!r} cannot be split into words: {error}",
            hint='quote it once for your shell: acp:"my-agent --flag"',
        ) from error
    if not words:
        raise UsageError(f"{agent!r} names no command", hint='write acp:"my-agent --flag"')
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledAgent:
    """An agent found on PATH. `version` is the first line it prints, empty when it gave none."""

    agent: str
    path: str
    version: str


async def installed_agents() -> tuple[InstalledAgent, ...]:
    """Return the agents on PATH in the order of AGENTS, the rehearsal agent left out.

    Each is asked for its version at the same time, at most VERSION_TIMEOUT_S seconds in all.
    """
    paths = {entry.agent: path for entry in _ENTRIES if (path := _path_of(entry)) is not None}
    versions: dict[str, str] = {}

    async def ask(agent: str, path: str) -> None:
        versions[agent] = await _version_of(path)

    async with anyio.create_task_group() as tasks:
        for agent, path in paths.items():
            tasks.start_soon(ask, agent, path)
    return tuple(
        InstalledAgent(agent=agent, path=path, version=versions[agent])
        for agent, path in paths.items()
    )


async def _version_of(path: str) -> str:
    start = ChildStart(
        command=(path, "--version"),
        working_directory=tempfile.gettempdir(),
        stderr_path=None,
    )
    line: bytes | None = None
    try:
        async with started_child(start) as child:
            with anyio.move_on_after(VERSION_TIMEOUT_S):
                line = await child.read_line()
    except UpthreadError:
        return ""  # it is on PATH and cannot be run: installed, of no known version
    return (line or b"").decode("utf-8", "replace").strip()[:VERSION_CHARACTERS_MAX]
