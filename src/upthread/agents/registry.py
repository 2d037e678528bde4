"""The agents by the name a person types: what to start, where it is, what was seen of it.

Look-ups in the rows of `core.agents`; how each agent behaves is its folder's affair. A part of a
folder is loaded when it is first asked for: whoever only lists, or looks at what is stored, must
not pay for a protocol. The rehearsal agent is here under its name and never among the installed
ones: it is used where somebody asked for it, never implicitly.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from upthread.boundary import programs
from upthread.boundary.files import NOWHERE
from upthread.core.agents import ACP, AGENTS, NATIVE, Agent, Way, other_major
from upthread.core.names import did_you_mean
from upthread.errors import UpthreadError, UsageError

if TYPE_CHECKING:
    from upthread.agent_stores.reader import Reader
    from upthread.agents.base import AgentAdapter

REHEARSAL = "rehearsal"
ACP_PREFIX = "acp:"
VERSION_TIMEOUT_S = 10.0
VERSION_CHARACTERS_MAX = 100


_REHEARSAL_ROW = Agent(
    name=REHEARSAL,
    # Isolated, and by our own interpreter: no clone's `upthread.py` is run (ADR 59).
    ways=(Way(kind=ACP, command=programs.own_module("upthread.agents.rehearsal")),),
    how_to_install="it comes with upthread",
)

AGENTS_AND_REHEARSAL = {REHEARSAL: _REHEARSAL_ROW, **AGENTS}
"""Every agent known by name, the rehearsal agent first."""

_VERSION = re.compile(r"\d+(?:\.\d+)+")


def adapter_for(agent: str, command: Sequence[str] = ()) -> AgentAdapter:
    """Return the adapter of an agent: by its name, or `acp:COMMAND LINE` for any other.

    A `command` is one that speaks ACP, whatever is known by the name.

    One known by its name is driven in the first of its ways that this machine has. A command line
    is split as a shell would, and no shell ever sees it. Raises UsageError for an unknown name.
    Nothing is started, and the command need not exist yet.
    """
    way = Way(kind=ACP, command=tuple(command)) if command else _way_of(agent)
    own = part_of(agent, "adapter") if way.kind == NATIVE else None
    if own is not None:
        made = cast("Callable[..., AgentAdapter]", own.ADAPTER)
        return made(command=way.command)
    # Whoever only looks at what is stored must not pay for a protocol.
    from upthread.agents.acp import AcpAdapter  # noqa: PLC0415

    return AcpAdapter(agent=agent, command=way.command)


def require_known(agent: str, command: Sequence[str] = ()) -> None:
    """Raise the UsageError of `adapter_for`; no adapter is loaded."""
    if not command:
        _way_of(agent)


def _way_of(agent: str) -> Way:
    if agent.startswith(ACP_PREFIX):
        return Way(kind=ACP, command=_words(agent))
    entry = AGENTS_AND_REHEARSAL.get(agent)
    if entry is None:
        names = ", ".join(AGENTS_AND_REHEARSAL)
        raise UsageError(
            f"there is no agent {agent!r}{did_you_mean(agent, AGENTS_AND_REHEARSAL)}",
            hint=f'known: {names}, and acp:"COMMAND" for any that speaks ACP',
        )
    # None is here: the error of starting the first names the program that is missing.
    return way_here(entry) or entry.ways[0]


def resume_command(
    agent: str, session_id: str, command: Sequence[str] = ()
) -> tuple[str, ...] | None:
    """Return what opens a session in its agent's own interface, None where nothing does.

    A `command` is as `adapter_for` has it, and the errors are; no adapter is loaded.
    """
    entry = AGENTS_AND_REHEARSAL.get(agent)
    way = Way(kind=ACP, command=tuple(command)) if command else _way_of(agent)
    if entry is None or command:
        from upthread.agents.acp.wire import quirk_for  # noqa: PLC0415  # as above

        entry = AGENTS.get(quirk_for(agent, *way.command).name)
    program = way.command[:1] if way.kind == NATIVE else ()
    return entry.resume_command(session_id, program) if entry else None


def agents_on_path(search_path: str | None = None) -> tuple[str, ...]:
    """Return the names of the agents on this machine, in the order of AGENTS; starts nothing.

    On this machine is what is on PATH; a `search_path` is looked through in its place.
    """
    return tuple(
        name for name, entry in AGENTS_AND_REHEARSAL.items() if _installed(entry, search_path)
    )


def seen_way_here(agent: str) -> Way | None:
    """Return what this release was tested with of an agent, driven as it would be here."""
    entry = AGENTS_AND_REHEARSAL.get(agent)
    return _installed(entry) if entry else None


def opens_sub_agents(agent: str, *, kind: str | None = None) -> bool:
    """Return whether a sub-agent's session can be gone on with, as far as this release has seen.

    `kind` is how it is driven, None as it would be here. Where nobody has looked, the agent itself
    is asked: a session it does not open is replaced.
    """
    entry = AGENTS_AND_REHEARSAL.get(agent)
    if kind is None and entry is not None:
        kind = (way_here(entry) or entry.ways[0]).kind
    # No row is a yes: a session that turns out not to open is replaced, and the reason shown.
    row = seen_way(agent, kind or "")
    return row is None or "open_sub_agents" in row.can


def seen_way_called(name: str) -> Way | None:
    """Return what this release was tested with of the agent that calls itself so over ACP."""
    from upthread.agents.acp.wire import quirk_for  # noqa: PLC0415  # as above

    return seen_way(quirk_for(name).name, ACP)


def _installed(entry: Agent, search_path: str | None = None) -> Way | None:
    """The rehearsal agent counts as nowhere: it is used only where somebody asked for it."""
    return None if entry.name == REHEARSAL else way_here(entry, search_path)


def way_here(entry: Agent, search_path: str | None = None) -> Way | None:
    """Return the first way of driving an agent that this machine has, None without one."""
    here = (_found(entry, way, search_path) for way in entry.ways)
    return next((way for way in here if way is not None), None)


def _found(entry: Agent, way: Way, search_path: str | None) -> Way | None:
    if way.kind != NATIVE:
        return way if find_program(way.command[0], search_path) else None
    program = find_agent(entry, search_path)
    return replace(way, command=(program, *way.command[1:])) if program else None


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


# --- what is on this machine ---------------------------------------------------------------------


def part_of(agent: str, part: str) -> ModuleType | None:
    """Return a part of an agent's folder, such as `adapter`; None for an agent without a folder."""
    row = AGENTS.get(agent)
    if row is None or not row.folder:
        return None
    return import_module(f"upthread.agents.{row.folder}.{part}")


def reader_of(agent: str) -> Reader:
    """Return the reader of an agent's own store, for an agent that has one."""
    return cast("Reader", part_of(agent, "reader"))


def find_program(name: str, search_path: str | None = None) -> str | None:
    """Return where a program is on PATH, or on `search_path`; None where only in a working tree."""
    path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    home = os.environ.get("HOME", "")
    return programs.absolute_program(name, {"PATH": path, "HOME": home}, outside=(os.curdir,))


def find_agent(agent: Agent, search_path: str | None = None) -> str | None:
    """Return an agent's program where it is on PATH, else the path of the one a package brings.

    None where there is neither. The wheels of `claude-agent-sdk` hold a whole CLI, so that package
    alone is enough; it is found and never imported, which would cost a second.
    """
    if find_program(agent.program, search_path):
        return agent.program
    package = find_spec(agent.bundled_in) if agent.bundled_in else None
    if package is None or package.origin is None:
        return None
    bundled = Path(package.origin).parent / "_bundled" / agent.program
    return str(bundled) if os.access(bundled, os.X_OK) else None


class InstalledAgent(Struct, frozen=True, kw_only=True):
    """An agent found here. `version` is the first line it prints, empty when it gave none."""

    agent: str
    way: Way
    path: str
    version: str


async def installed_agents() -> tuple[InstalledAgent, ...]:
    """Return the agents on this machine in the order of AGENTS, the rehearsal agent left out.

    Each is asked for its version at the same time, at most VERSION_TIMEOUT_S seconds in all.
    """
    ways = {
        name: way
        for name, entry in AGENTS_AND_REHEARSAL.items()
        if (way := _installed(entry)) is not None
    }
    paths = {agent: find_program(way.command[0]) or "" for agent, way in ways.items()}
    versions: dict[str, str] = {}
    import anyio  # noqa: PLC0415  # who only looks a name up must not load an event loop

    async def ask(agent: str, path: str) -> None:
        versions[agent] = await _version_of(path)

    async with anyio.create_task_group() as tasks:
        for agent, path in paths.items():
            tasks.start_soon(ask, agent, path)
    return tuple(
        InstalledAgent(agent=agent, way=way, path=paths[agent], version=versions[agent])
        for agent, way in ways.items()
    )


async def end_process_group(pid: int, ticks: int) -> bool:
    """End the processes of an agent that a dead holder left behind; see `_process`."""
    from upthread.agents import _process  # noqa: PLC0415  # as above

    return await _process.end_process_group(pid, ticks)


async def version_here(agent: str) -> str:
    """Return the version of an agent on this machine, empty where it is not here or says none."""
    entry = AGENTS_AND_REHEARSAL.get(agent)
    way = _installed(entry) if entry else None
    path = find_program(way.command[0]) if way else None
    return version_in(await _version_of(path)) if path else ""


async def _version_of(path: str) -> str:
    import anyio  # noqa: PLC0415  # as above

    from upthread.agents._process import (  # noqa: PLC0415  # as above
        ChildStart,
        remember,
        remembered,
        started_child,
        whole_command,
    )

    start = ChildStart(
        command=(path, "--version"),
        working_directory=NOWHERE,  # where agents find no settings of a project
        stderr_path=None,
        redactor=None,
    )
    line: bytes | None = None
    try:
        command = whole_command(start)
        known = remembered(command)
        if known is not None:
            return known
        async with started_child(start) as child:
            with anyio.move_on_after(VERSION_TIMEOUT_S):
                line = await child.read_line()
    except UpthreadError:
        return ""  # it is on PATH and cannot be run: installed, of no known version
    said = (line or b"").decode("utf-8", "replace").strip()[:VERSION_CHARACTERS_MAX]
    if said:
        remember(command, said)
    return said


# --- what this release was tested with -----------------------------------------------------------


def seen_way(agent: str, kind: str) -> Way | None:
    """Return a way of driving an agent, None where this release was tested with none."""
    row = AGENTS.get(agent)
    return next((way for way in row.ways if way.kind == kind), None) if row else None


def difference(way: Way, version: str) -> str:
    """Return `newer`, `older`, or empty for the tested version and for one that cannot be read."""
    ours, theirs = _numbers(way.version), _numbers(version)
    if not ours or not theirs or ours == theirs:
        return ""
    # By numbers: as texts 2.10 would be older than 2.9.
    return "newer" if theirs > ours else "older"


def version_warning(agent: str, way: Way, version: str) -> str:
    """Return the line that names both versions, empty where they do not differ."""
    how = difference(way, version)
    if not how:
        return ""
    # Who speaks ACP to us is driven, whatever its version.
    known = other_major(agent, version_in(version)) if way.kind == NATIVE else None
    if known is not None:
        return (
            f"{agent} {version_in(version)} is of another major version than {way.version}, "
            f"which this upthread was tested with (not tried on the real {agent} "
            f"{known.major}): {known.works}; {known.works_not}"
        )
    return (
        f"{agent} {version_in(version)} is {how} than {way.version}, which this "
        "upthread was tested with; "
        f"try what it does: upthread doctor --probe {shlex.quote(agent)}"
    )


def version_in(said: str) -> str:
    """Return the number in what an agent says its version is; empty where there is none."""
    found = _VERSION.search(said)
    return found[0] if found else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(piece) for piece in version_in(version).split(".") if piece)
