"""What the agents' own stores hold of their sessions, by the agent's name.

Of main sessions, and of a sub-agent whose call was cut off.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol, cast

from upthread.agents.folders import part_of
from upthread.agents.rehearsal.settings import sessions_directory
from upthread.core.turns.hooked_call import CutOffCall, StoredSession
from upthread.core.types import UpstreamSessionId
from upthread.errors import StoreError
from upthread.vendors.homes import home_of

REHEARSAL: Final = "rehearsal"


def read_stored(environment: Mapping[str, str], call: CutOffCall) -> StoredSession | None:
    """Return a sub-agent's session from its agent's own store, None where it holds none.

    `environment` says where the agents keep theirs. Nothing is changed there. Blocking. Raises
    StoreError for what is there and cannot be read.
    """
    reader = _reader_of(call.agent)
    if reader is None:
        return None
    with _telling_why(call.agent):
        return reader.read_stored(home_of(call.agent, environment), call)


def read_asked(environment: Mapping[str, str], call: CutOffCall) -> str:
    """Return what a call asked for as its main session has it, empty where nothing has.

    That is there before there is a sub-agent. Otherwise as `read_stored`.
    """
    reader = _reader_of(call.agent)
    if reader is None:
        return ""
    with _telling_why(call.agent):
        return reader.read_asked(home_of(call.agent, environment), call)


def read_session(
    environment: Mapping[str, str], agent: str, session: UpstreamSessionId
) -> StoredSession | None:
    """Return a main session from its agent's own store. Otherwise as `read_stored`."""
    reader = _session_reader_of(agent)
    if reader is None:
        return None
    with _telling_why(agent):
        return reader.read_session(_home(agent, environment), session)


def stamp_of(environment: Mapping[str, str], agent: str, session: UpstreamSessionId) -> str:
    """Return what a main session is known by: while it is the same, nobody has prompted it.

    Empty where nothing is known of it. Otherwise as `read_stored`.
    """
    reader = _session_reader_of(agent)
    if reader is None:
        return ""
    with _telling_why(agent):
        return reader.stamp_of(_home(agent, environment), session)


def _home(agent: str, environment: Mapping[str, str]) -> Path:
    if agent == REHEARSAL:
        return sessions_directory(environment)
    return home_of(agent, environment)


@contextmanager
def _telling_why(agent: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"the store of {agent} cannot be read: {error.strerror}",
            hint="check who may read it",
        ) from error


class _SessionReader(Protocol):
    """The module of an agent that reads its main sessions."""

    def read_session(self, home: Path, session: UpstreamSessionId, /) -> StoredSession | None: ...

    def stamp_of(self, home: Path, session: UpstreamSessionId, /) -> str: ...


class _Reader(_SessionReader, Protocol):
    """The module of an agent that reads its store."""

    def read_stored(self, home: Path, call: CutOffCall, /) -> StoredSession | None: ...

    def read_asked(self, home: Path, call: CutOffCall, /) -> str: ...


def _reader_of(agent: str) -> _Reader | None:
    return cast("_Reader | None", part_of(agent, "stored"))


def _session_reader_of(agent: str) -> _SessionReader | None:
    # Its reader is beside its folder: it needs ACP's words, and no agent knows another (ADR 93).
    if agent != REHEARSAL:
        return _reader_of(agent)
    from upthread.agents import rehearsal_stored  # noqa: PLC0415  # as `part_of` loads the others

    return rehearsal_stored
