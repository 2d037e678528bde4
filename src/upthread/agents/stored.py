"""What the agents' own stores hold of a sub-agent whose call was cut off, by the agent's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from upthread.core.cut_off import CutOffCall, StoredSession
from upthread.errors import StoreError
from upthread.vendors.finding import home_of


def read_stored(environment: Mapping[str, str], call: CutOffCall) -> StoredSession | None:
    """Return a sub-agent's session from its agent's own store, None where it holds none.

    `environment` says where the agents keep theirs. Nothing is changed there. Blocking. Raises
    StoreError for what is there and cannot be read.
    """
    read = _READERS.get(call.agent)
    if read is None:
        return None
    try:
        return read()(home_of(call.agent, environment), call)
    except OSError as error:
        raise StoreError(
            f"the store of {call.agent} cannot be read: {error.strerror}",
            hint="check who may read it",
        ) from error


_Reader = Callable[[Path, CutOffCall], StoredSession | None]


# Each loads what it needs: most looks into the record read no store of an agent's.
def _claude_code() -> _Reader:
    from upthread.agents.claude_code.stored import read_stored as read  # noqa: PLC0415

    return read


def _codex() -> _Reader:
    from upthread.agents.codex.stored import read_stored as read  # noqa: PLC0415

    return read


def _opencode() -> _Reader:
    from upthread.agents.opencode.stored import read_stored as read  # noqa: PLC0415

    return read


_READERS: Final[Mapping[str, Callable[[], _Reader]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "opencode": _opencode,
}
