"""Whether an agent opens a repaired copy of its sessions: asked by itself, and sent no prompt."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from upthread.agent_stores.base import VendorHistory
from upthread.agent_stores.homes import home_of
from upthread.agent_stores.reader import RepairedCopy, keep
from upthread.agents.base import OpenRequest
from upthread.agents.registry import adapter_for, agents_on_path
from upthread.core.agents import AGENTS
from upthread.core.decision.words import RESUME
from upthread.core.types import UpstreamSessionId
from upthread.errors import UpstreamError
from upthread.runtime.turns.delivery import attach

_NEEDED: Final = ("config.toml",)
"""Codex opens a thread only where the thread's model provider is configured (0.171.0)."""


def can_be_asked(history: VendorHistory) -> bool:
    """Return whether its agent can be asked to open a session: not a sub-agent's."""
    return not history.parent_session_id and Path(history.directory).is_dir()


class OpeningResult(Struct, frozen=True, kw_only=True):
    """What an agent says of a copy: the sessions that it opens, and why it opens others not.

    Both are empty where it could not be asked: it is not on this machine, or the directories of the
    sessions are gone.
    """

    opens: tuple[str, ...] = ()
    refusals: Mapping[str, str]


async def ask_agent(
    agent: str,
    copy: RepairedCopy,
    sessions: Iterable[VendorHistory],
    environment: Mapping[str, str],
) -> OpeningResult:
    """Start an agent on a home that holds nothing but the copy, and open each session."""
    opens: list[str] = []
    refusals: dict[str, str] = {}
    row = AGENTS[agent]
    assert row.home is not None, "its store was read"
    if agent not in agents_on_path():
        return OpeningResult(refusals=refusals)
    with tempfile.TemporaryDirectory(prefix="upthread-repair-") as place:
        home = home_of(agent, environment)
        there = _put(copy, Path(place), home)
        where = {row.home.variable: place}
        if copy.source == home:  # a variable names the database itself
            where[row.home.file] = str(there)
        for each in sessions:
            request = OpenRequest(
                working_directory=each.directory,
                stderr_path=None,
                environment=where,
                ignores_project=True,
            )
            session = UpstreamSessionId(each.session_id)
            try:
                async with adapter_for(agent).open(request) as connection:
                    await attach(connection, decision=RESUME, current=session)
                opens.append(session)
            except UpstreamError as error:
                refusals[session] = str(error)
    return OpeningResult(opens=tuple(opens), refusals=refusals)


def _put(copy: RepairedCopy, place: Path, home: Path) -> Path:
    top = home.parent if copy.source == home else home
    there = place / copy.source.relative_to(top).with_name(copy.after.name)
    there.parent.mkdir(parents=True, exist_ok=True)
    keep(copy.after, there)
    for name in filter(os.path.exists, map(home.joinpath, _NEEDED)):
        keep(name, place / name.name)
    return there
