"""What the agents' own stores hold: sessions at a glance, in a search, and one by its id as events.

By the agent's name. Of a session by its id: of main sessions, and of a sub-agent whose call was cut
off. `reader` in each agent's folder reads its own store, and repairs in a copy. Nothing
is changed in a store, nothing is followed out of an agent's home, and a look ends when its bounds
are met. A search reads only the times of files before it goes through the first session, so that
the first hit does not wait for the last file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from heapq import heappop, heappush
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from upthread.agent_stores.base import Look, SessionOutline, VendorHistory
from upthread.agent_stores.homes import file_stamp, home_of
from upthread.agent_stores.reader import FileWalk, Reader, Searched
from upthread.agents.registry import REHEARSAL, reader_of
from upthread.agents.rehearsal.sessions import (
    HOME_VARIABLE,
    SessionStore,
    UnknownSessionError,
    sessions_directory,
)
from upthread.boundary.directories import NO_FILE
from upthread.core.agents import AGENTS, WITH_A_STORE
from upthread.core.events import AgentsCall
from upthread.core.turns.agent_history import StoredSession, UndecidedCall
from upthread.core.types import Environment, UpstreamSessionId
from upthread.errors import StoreError


def stored_histories(
    environment: Environment, *, agent: str | None = None
) -> Iterator[VendorHistory | StoreError]:
    """Yield each session, texts outlined; in place of a store that cannot be read, its error.

    `environment` says where the agents keep theirs: HOME, XDG_DATA_HOME, CLAUDE_CONFIG_DIR,
    CODEX_HOME. With `agent`, only that one's.
    """
    for name in WITH_A_STORE if agent is None else (agent,):
        walk = FileWalk()
        for path in reader_of(name).find_histories(home_of(name, environment), walk):
            try:
                yield from reader_of(name).read_histories(path)
            except StoreError as error:
                yield error
        for place, why in sorted(walk.counted):
            if why != NO_FILE:
                what = why.removesuffix(f": {place}")
                yield StoreError(f"{place}: {what}", hint=f"make {place} readable for you")


# --- one session ---------------------------------------------------------------------------------


def read_stored(environment: Environment, call: AgentsCall) -> StoredSession | None:
    """Return a sub-agent's session from its agent's own store, None where it holds none.

    `environment` says where the agents keep theirs. Nothing is changed there. Blocking. Raises
    StoreError for what is there and cannot be read.
    """
    return _asked(environment, call.agent, lambda reader, home: reader.read_stored(home, call))


def undecided_calls(
    environment: Environment, agent: str, *, mark: str, since_ns: int
) -> Iterator[UndecidedCall]:
    """Yield the calls beside which an agent's store has our hook's line, which holds `mark`.

    Sessions that were written to before `since_ns` are not read. Otherwise as `read_stored`.
    """
    if agent in WITH_A_STORE:
        with _telling_why(agent):
            yield from reader_of(agent).undecided_calls(home_of(agent, environment), mark, since_ns)


def is_read(agent: str) -> bool:
    """Return whether the store of an agent is read here."""
    return agent == REHEARSAL or agent in WITH_A_STORE


def read_session(
    environment: Environment, agent: str, session: UpstreamSessionId
) -> StoredSession | None:
    """Return a main session from its agent's own store. Otherwise as `read_stored`."""
    if agent == REHEARSAL:
        with _telling_why(agent):
            return _replayed(_home(agent, environment), session)
    return _asked(environment, agent, lambda reader, home: reader.read_session(home, session))


def stamp_of(environment: Environment, agent: str, session: UpstreamSessionId) -> str:
    """Return what a main session is known by: while it is the same, nobody has prompted it.

    Empty where nothing is known of it. Otherwise as `read_stored`.
    """
    if agent == REHEARSAL:
        with _telling_why(agent):
            path = _path_of_rehearsal(_home(agent, environment), session)
            return file_stamp(path) if path else ""
    return _asked(environment, agent, lambda reader, home: reader.stamp_of(home, session)) or ""


def writers_of(
    environment: Environment, agent: str, sessions: Collection[str]
) -> Mapping[str, int]:
    """Return by session the process that has it open, as far as its agent's files tell."""
    return _asked(environment, agent, lambda reader, home: reader.writers_of(home, sessions)) or {}


def version_of(environment: Environment, agent: str, session: UpstreamSessionId) -> str:
    """Return the version of an agent that a session is of, empty where that is not known.

    Otherwise as `read_stored`.
    """
    return _asked(environment, agent, lambda reader, home: reader.version_of(home, session)) or ""


_Found = TypeVar("_Found")


def _asked(
    environment: Environment, agent: str, ask: Callable[[Reader, Path], _Found]
) -> _Found | None:
    """Return what the reader of an agent's store says, None for an agent without a reader."""
    if agent not in WITH_A_STORE:
        return None
    with _telling_why(agent):
        return ask(reader_of(agent), home_of(agent, environment))


def profile_of(environment: Environment, agent: str) -> str:
    """Return the variable with the place of an agent's store: `CODEX_HOME=/home/ada/.codex`.

    Where a link leads and not the link, which may lead to another profile tomorrow.
    """
    variables = _VARIABLES.get(agent, ())
    variable = next(filter(environment.get, variables), variables[-1] if variables else "")
    return f"{variable}={_home(agent, environment).resolve()}" if variable else ""


def placed(environment: Environment, variable: str, place: str) -> dict[str, str]:
    """Return an environment in which an agent's store is where a profile says."""
    own = _VARIABLES.get(_AGENTS.get(variable, ""), ())
    return {**{k: v for k, v in environment.items() if k not in own}, variable: place}


def profile_without(environment: Environment, session: UpstreamSessionId, profile: str) -> str:
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


_VARIABLES = {
    REHEARSAL: (HOME_VARIABLE,),
    **{name: row.home.variables for name, row in AGENTS.items() if row.home},
}
"""The variables that name the place of each agent's store, the one that wins first."""

_AGENTS = {each: agent for agent, variables in _VARIABLES.items() for each in variables}


def _home(agent: str, environment: Environment) -> Path:
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


# The rehearsal agent's files are read here, since that takes ACP's words, and no agent knows
# another (ADR 93). No person has one of its sessions open, and its version is upthread's own.


def _path_of_rehearsal(home: Path, session: UpstreamSessionId) -> Path | None:
    if home.is_dir():
        with suppress(UnknownSessionError):
            return SessionStore(home).path(session)
    return None


def _replayed(home: Path, session: UpstreamSessionId) -> StoredSession | None:
    """Return a session of the rehearsal agent as the agent would replay it, None without one."""
    from upthread.agents.acp.wire import events_of  # noqa: PLC0415  # as `part_of` loads others
    from upthread.agents.rehearsal.history import replay  # noqa: PLC0415

    path = _path_of_rehearsal(home, session)
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


# --- many sessions, at a glance or in a search ----------------------------------------------------


def stored_outlines(
    environment: Environment, look: Look, *, agent: str | None = None
) -> Iterator[SessionOutline]:
    """Yield the sessions that the agents have stored, one agent after the other.

    `environment` says where they keep theirs, as for histories. With `agent`, only that one's.
    """
    for name, home in _homes(environment, agent, look):
        yield from reader_of(name).outlines(home, look)


@contextmanager
def searched_sessions(
    environment: Environment, look: Look, *, agent: str | None = None
) -> Generator[Iterator[Searched]]:
    """Give the stored sessions, the newest first, to be gone through while this is held.

    `environment` and `agent` as for `stored_outlines`.
    """
    with ExitStack() as held:
        found: list[Searched] = []
        for name, home in _homes(environment, agent, look):
            found += reader_of(name).sessions(home, look, held)
        yield _newest_first(found)


def _newest_first(found: Iterable[Searched]) -> Iterator[Searched]:
    # Only of what may be the newest the end is read, so that the first hit does not wait for all.
    waiting = sorted((-each.used_at_ms, number, each) for number, each in enumerate(found))
    while waiting:
        _, number, newest = heappop(waiting)
        if newest.written_at_ns is None:
            yield newest
            continue
        at_ms = newest.written_at_ns() // 1_000_000
        timed = replace(newest, used_at_ms=at_ms, written_at_ns=None)
        heappush(waiting, (-at_ms, number, timed))


def _homes(environment: Environment, agent: str | None, look: Look) -> Iterator[tuple[str, Path]]:
    for name in WITH_A_STORE if agent is None else (agent,):
        home = home_of(name, environment)
        try:
            home.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            look.pass_over(name, f"{error.strerror}: {home}", 1)
        else:
            yield name, home
