"""Every session that the agents on this machine have stored, and how a store is repaired.

Each agent's folder reads and repairs its own: `histories` finds and reads, `repair` makes a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, cast

from upthread.agents.folders import part_of
from upthread.core.agents import WITH_A_STORE
from upthread.errors import StoreError
from upthread.vendors.base import OUTLINE_CHARACTERS, VendorHistory
from upthread.vendors.copies import RepairedCopy
from upthread.vendors.homes import home_of


class _Histories(Protocol):
    """The part of an agent's folder that reads its store."""

    def find_histories(self, home: Path, /) -> Iterator[Path]: ...

    def read_histories(
        self, path: Path, /, *, characters_max: int | None = None
    ) -> Iterator[VendorHistory]: ...


class _Repair(Protocol):
    """The part that repairs it in a copy."""

    def repair(
        self, path: Path, into: Path, /, *, session_id: str | None, sessions: Iterable[str]
    ) -> RepairedCopy: ...


def stored_histories(
    environment: Mapping[str, str], *, agent: str | None = None
) -> Iterator[VendorHistory | StoreError]:
    """Yield each session, texts outlined; in place of a store that cannot be read, its error.

    `environment` says where the agents keep theirs: HOME, XDG_DATA_HOME, CLAUDE_CONFIG_DIR,
    CODEX_HOME. With `agent`, only that one's.
    """
    for name in WITH_A_STORE if agent is None else (agent,):
        for path in _reader(name).find_histories(home_of(name, environment)):
            try:
                yield from outlines(name, path)
            except StoreError as error:
                yield error


def outlines(agent: str, path: Path) -> Iterator[VendorHistory]:
    """Yield the sessions of one of an agent's files, texts outlined. Raises StoreError."""
    yield from _reader(agent).read_histories(path, characters_max=OUTLINE_CHARACTERS)


def repaired_copy(
    agent: str, path: Path, into: Path, *, session_id: str | None, sessions: Iterable[str]
) -> RepairedCopy:
    """Copy one of an agent's files and repair the copy; where it has several, only `sessions`.

    UsageError when `into` has a copy already.
    """
    part = cast("_Repair", part_of(agent, "repair"))
    return part.repair(path, into, session_id=session_id, sessions=sessions)


def _reader(agent: str) -> _Histories:
    return cast("_Histories", part_of(agent, "histories"))
