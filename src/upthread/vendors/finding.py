"""Finding: every session that the agents on this machine have stored, read one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

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
    data_home = Path(environment.get("XDG_DATA_HOME") or _home(environment) / ".local/share")
    for path in opencode.find_databases(data_home):
        try:
            yield from opencode.read_sessions(path, characters_max=OUTLINE_CHARACTERS)
        except StoreError as error:
            yield error


def _claude_code(environment: Mapping[str, str]) -> _Found:
    home = Path(environment.get("CLAUDE_CONFIG_DIR") or _home(environment) / ".claude")
    for path in claude_code.find_transcripts(home):
        yield _read(claude_code.read_transcript, path)


def _codex(environment: Mapping[str, str]) -> _Found:
    home = Path(environment.get("CODEX_HOME") or _home(environment) / ".codex")
    for path in codex.find_rollouts(home):
        yield _read(codex.read_rollout, path)


def _read(read: Callable[..., VendorHistory], path: Path) -> VendorHistory | StoreError:
    try:
        return read(path, characters_max=OUTLINE_CHARACTERS)
    except StoreError as error:
        return error


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())


AGENTS: Final[Mapping[str, Callable[[Mapping[str, str]], _Found]]] = {
    claude_code.AGENT: _claude_code,
    opencode.AGENT: _opencode,
    codex.AGENT: _codex,
}
"""The agents whose stores are read, by name."""
