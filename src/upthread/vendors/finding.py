"""Finding: every session that the agents on this machine have stored, read one at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from upthread.boundary.files import within
from upthread.errors import StoreError
from upthread.vendors import claude_code, codex, opencode
from upthread.vendors.base import OUTLINE_CHARACTERS, VendorHistory

_Found = Iterator[VendorHistory | StoreError]


def stored_histories(environment: Mapping[str, str], *, agent: str | None = None) -> _Found:
    """Yield each session, texts outlined; in place of a store that cannot be read, its error.

    `environment` says where the agents keep theirs: HOME, XDG_DATA_HOME, CLAUDE_CONFIG_DIR,
    CODEX_HOME. With `agent`, only that one's.
    """
    for name, find in AGENTS.items():
        if agent in {None, name}:
            yield from find(environment)


def _opencode(environment: Mapping[str, str]) -> _Found:
    for path in opencode.find_databases(home_of(opencode.AGENT, environment)):
        try:
            yield from opencode.read_sessions(path, characters_max=OUTLINE_CHARACTERS)
        except StoreError as error:
            yield error


def _claude_code(environment: Mapping[str, str]) -> _Found:
    for path in claude_code.find_transcripts(home_of(claude_code.AGENT, environment)):
        yield _read(claude_code.read_transcript, path)


def _codex(environment: Mapping[str, str]) -> _Found:
    for path in codex.find_rollouts(home_of(codex.AGENT, environment)):
        yield _read(codex.read_rollout, path)


def _read(read: Callable[..., VendorHistory], path: Path) -> VendorHistory | StoreError:
    try:
        return read(path, characters_max=OUTLINE_CHARACTERS)
    except StoreError as error:
        return error


def home_of(agent: str, environment: Mapping[str, str]) -> Path:
    """Return where an agent keeps its store: OpenCode's is a directory in the data home."""
    variable, below = _HOMES[agent]
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get(variable) or home / below)


def require_own(home: Path, path: Path, *, bytes_max: int) -> None:
    """Raise StoreError unless a file is an ordinary one of an agent's own, of a size to be read.

    A link in there may lead anywhere, and is followed to nothing outside.
    """
    try:
        descriptor = within(str(home), str(path.relative_to(home)))
        try:
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(
            f"{path} is not read: {error.strerror}", hint="check what lies there"
        ) from error
    if size > bytes_max:
        raise StoreError(
            f"{path} is not read: it has more than {bytes_max:,} bytes",
            hint="the agent itself may open it",
        )


_HOMES: Final = {
    claude_code.AGENT: ("CLAUDE_CONFIG_DIR", ".claude"),
    opencode.AGENT: ("XDG_DATA_HOME", ".local/share"),
    codex.AGENT: ("CODEX_HOME", ".codex"),
}
"""The variable that says where each agent keeps its store, and where that is without it."""

AGENTS: Final[Mapping[str, Callable[[Mapping[str, str]], _Found]]] = {
    claude_code.AGENT: _claude_code,
    opencode.AGENT: _opencode,
    codex.AGENT: _codex,
}
"""The agents whose stores are read, by name."""
