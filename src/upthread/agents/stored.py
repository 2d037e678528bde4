"""What the agents' own stores hold: sessions at a glance, in a search, and one by its id as events.

By the agent's name. Of a session by its id: of main sessions, and of a sub-agent whose call was cut
off. `reader` in each agent's folder reads its own store, and repairs in a copy. Nothing
is changed in a store, nothing is followed out of an agent's home, and a look ends when its bounds
are met. A search reads only the times of files before it goes through the first session, so that
the first hit does not wait for the last file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from upthread.agent_stores.base import OUTLINE_CHARACTERS, Look, SessionOutline, VendorHistory
from upthread.agent_stores.homes import file_stamp, home_of
from upthread.agents.registry import REHEARSAL, part_of, reader_of
from upthread.agents.rehearsal.sessions import (
    HOME_VARIABLE,
    SessionStore,
    UnknownSessionError,
    sessions_directory,
)
from upthread.core.agents import AGENTS, WITH_A_STORE
from upthread.core.turns.agent_history import CutOffCall, StoredSession, UndecidedCall
from upthread.core.types import UpstreamSessionId
from upthread.errors import StoreError

if TYPE_CHECKING:
    from upthread.agent_stores.copies import RepairedCopy
    from upthread.agent_stores.reader import Reader, Searched


def stored_histories(
    environment: Mapping[str, str], *, agent: str | None = None
) -> Iterator[VendorHistory | StoreError]:
    """Yield each session, texts outlined; in place of a store that cannot be read, its error.

    `environment` says where the agents keep theirs: HOME, XDG_DATA_HOME, CLAUDE_CONFIG_DIR,
    CODEX_HOME. With `agent`, only that one's.
    """
    for name in WITH_A_STORE if agent is None else (agent,):
        for path in reader_of(name).find_histories(home_of(name, environment)):
            try:
                yield from outlines(name, path)
            except StoreError as error:
                yield error


def outlines(agent: str, path: Path) -> Iterator[VendorHistory]:
    """Yield the sessions of one of an agent's files, texts outlined. Raises StoreError."""
    yield from reader_of(agent).read_histories(path, characters_max=OUTLINE_CHARACTERS)


def repaired_copy(
    agent: str, path: Path, into: Path, *, session_id: str | None, sessions: Iterable[str]
) -> RepairedCopy:
    """Copy one of an agent's files and repair the copy; where it has several, only `sessions`.

    UsageError when `into` has a copy already.
    """
    return reader_of(agent).repair(path, into, session_id=session_id, sessions=sessions)


# --- one session ---------------------------------------------------------------------------------


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


def undecided_calls(
    environment: Mapping[str, str], agent: str, *, mark: str, since_ns: int
) -> Iterator[UndecidedCall]:
    """Yield the calls beside which an agent's store has our hook's line, which holds `mark`.

    Sessions that were written to before `since_ns` are not read. Otherwise as `read_stored`.
    """
    reader = _reader_of(agent)
    if reader is not None:
        with _telling_why(agent):
            yield from reader.undecided_calls(home_of(agent, environment), mark, since_ns)


def is_read(agent: str) -> bool:
    """Return whether the store of an agent is read here."""
    return _session_reader_of(agent) is not None


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


def writer_of(environment: Mapping[str, str], agent: str, session: UpstreamSessionId) -> int | None:
    """Return the process that has a session open, None where none has or nobody can tell."""
    if agent not in _WITH_A_WRITER:
        return None
    part = part_of(agent, "reader")
    return part.writer_of(home_of(agent, environment), session) if part else None


def version_of(environment: Mapping[str, str], agent: str, session: UpstreamSessionId) -> str:
    """Return the version of an agent that a session is of, empty where that is not known.

    Otherwise as `read_stored`.
    """
    reader = _reader_of(agent)
    if reader is None:
        return ""
    with _telling_why(agent):
        return reader.version_of(home_of(agent, environment), session)


def profile_of(environment: Mapping[str, str], agent: str) -> str:
    """Return the variable with the place of an agent's store: `CODEX_HOME=/home/ada/.codex`.

    Where a link leads and not the link, which may lead to another profile tomorrow.
    """
    variables = _VARIABLES.get(agent, ())
    variable = next(filter(environment.get, variables), variables[-1] if variables else "")
    return f"{variable}={_home(agent, environment).resolve()}" if variable else ""


def placed(environment: Mapping[str, str], variable: str, place: str) -> dict[str, str]:
    """Return an environment in which an agent's store is where a profile says."""
    own = _VARIABLES.get(_AGENTS.get(variable, ""), ())
    return {**{k: v for k, v in environment.items() if k not in own}, variable: place}


def profile_without(
    environment: Mapping[str, str], session: UpstreamSessionId, profile: str
) -> str:
    """Return the environment's profile if it lacks a session that another one has, else empty.

    A place that cannot be read may have it. Of the environment's own store that cannot be read,
    the agent itself says what is wrong.
    """
    variable, _, place = profile.partition("=")
    agent, there = _AGENTS.get(variable, ""), placed(environment, variable, place)
    own = profile_of(environment, agent)
    try:
        if not agent or profile == own or stamp_of(environment, agent, session):
            return ""
    except StoreError:
        return ""
    try:
        # What is not found is read: only that says whether all there could be looked at.
        found = stamp_of(there, agent, session) or read_session(there, agent, session)
    except StoreError:
        return own
    return own if found else ""


_WITH_A_WRITER: Final = frozenset({"claude-code", "opencode"})
"""The agents whose store shows which process has a session open."""

_VARIABLES: Final = {
    REHEARSAL: (HOME_VARIABLE,),
    **{name: row.home.variables for name, row in AGENTS.items() if row.home},
}
"""The variables that name the place of each agent's store, the one that wins first."""

_AGENTS: Final = {each: agent for agent, variables in _VARIABLES.items() for each in variables}


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
            f"{error.filename or f'the store of {agent}'} cannot be read: {error.strerror}",
            hint="check who may read it",
        ) from error


# --- whose parts they are ------------------------------------------------------------------------


class _SessionReader(Protocol):
    """The module of an agent that reads its main sessions."""

    def read_session(self, home: Path, session: UpstreamSessionId, /) -> StoredSession | None: ...

    def stamp_of(self, home: Path, session: UpstreamSessionId, /) -> str: ...


def _reader_of(agent: str) -> Reader | None:
    # Whoever has a folder may still have a store that nobody reads.
    return reader_of(agent) if agent in WITH_A_STORE else None


def _session_reader_of(agent: str) -> _SessionReader | None:
    return _Rehearsal if agent == REHEARSAL else _reader_of(agent)


class _Rehearsal:
    """The rehearsal agent's files, read back as it would replay them.

    Here, since it takes ACP's words, and no agent knows another (ADR 93).
    """

    @staticmethod
    def read_session(home: Path, session: UpstreamSessionId, /) -> StoredSession | None:
        """Return a session as the agent's file holds it, None without one. Raises OSError."""
        from upthread.agents.acp.wire import events_of  # noqa: PLC0415  # as `part_of` loads others
        from upthread.agents.rehearsal.history import replay  # noqa: PLC0415

        path = _Rehearsal._path(home, session)
        if path is None:
            return None
        # Before it is read: what is touched in between then counts as not seen by the session.
        written_at_ns = path.stat().st_mtime_ns
        updates = replay(SessionStore(home).read(session), names_messages=True)
        return StoredSession(
            upstream_session_id=session,
            events=tuple(
                event
                for update in updates
                for event in events_of(str(update["sessionUpdate"]), update, session=session)
            ),
            written_at_ns=written_at_ns,
        )

    @staticmethod
    def stamp_of(home: Path, session: UpstreamSessionId, /) -> str:
        """Return what a session's file is known by, empty without one."""
        path = _Rehearsal._path(home, session)
        return file_stamp(path) if path else ""

    @staticmethod
    def _path(home: Path, session: UpstreamSessionId) -> Path | None:
        if not home.is_dir():
            return None
        try:
            return SessionStore(home).path(session)
        except UnknownSessionError:
            return None


# --- many sessions, at a glance or in a search ----------------------------------------------------


def stored_outlines(
    environment: Mapping[str, str], look: Look, *, agent: str | None = None
) -> Iterator[SessionOutline]:
    """Yield the sessions that the agents have stored, one agent after the other.

    `environment` says where they keep theirs, as for histories. With `agent`, only that one's.
    """
    for name, home in _homes(environment, agent):
        yield from reader_of(name).outlines(home, look)


@contextmanager
def searched_sessions(
    environment: Mapping[str, str], look: Look, *, agent: str | None = None
) -> Generator[Iterator[Searched]]:
    """Give the stored sessions, the newest first, to be gone through while this is held.

    `environment` and `agent` as for `stored_outlines`.
    """
    with ExitStack() as held:
        found: list[Searched] = []
        for name, home in _homes(environment, agent):
            found += reader_of(name).sessions(home, look, held)
        yield iter(sorted(found, key=lambda each: -each.used_at_ms))


def _homes(environment: Mapping[str, str], agent: str | None) -> Iterator[tuple[str, Path]]:
    for name in WITH_A_STORE if agent is None else (agent,):
        home = home_of(name, environment)
        if home.exists():
            yield name, home
