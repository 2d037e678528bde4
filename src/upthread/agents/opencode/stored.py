"""A session of OpenCode, its own or a sub-agent's, read back from its database.

Where nobody was told which session a call made, the running part of the call names it. That part
has what the call asked for as well, from before there is a session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from upthread.agent_stores.homes import require_own
from upthread.agents._json_lines import as_object, member, text_at
from upthread.agents.opencode import version_2
from upthread.agents.opencode.histories import (
    DATABASE_BYTES_MAX,
    called_session,
    find_histories,
    marked_calls,
    opened,
    read_messages,
    session_stamp,
    session_version,
    tables_of,
)
from upthread.agents.opencode.parts import history, usage
from upthread.core.events import AgentEvent
from upthread.core.turns.stored_session import CutOffCall, StoredSession, UndecidedCall
from upthread.core.types import UpstreamSessionId

NS_PER_MS = 1_000_000


def read_stored(data_home: Path, call: CutOffCall) -> StoredSession | None:
    """Return what the store holds of a call's sub-agent, None for nothing. Raises StoreError."""
    for path in find_histories(data_home):
        require_own(data_home, path, bytes_max=DATABASE_BYTES_MAX)
        named = call.session or called_session(path, call.main_session, call.call_id)
        found = _in_database(path, UpstreamSessionId(named)) if named else None
        if found is not None:
            return found
    return None


def undecided_calls(data_home: Path, mark: str, since_ns: int) -> Iterator[UndecidedCall]:
    """Yield the calls whose description has a mark of our plug-in. Raises StoreError."""
    for path in find_histories(data_home):
        require_own(data_home, path, bytes_max=DATABASE_BYTES_MAX)
        for session, directory, part in marked_calls(path, mark, since_ns // NS_PER_MS):
            asked = as_object(member(part, "state", "input"))
            if mark in text_at(asked, "description"):
                yield UndecidedCall(
                    main_session=session,
                    call_id=text_at(part, "callID"),
                    role=text_at(asked, "subagent_type"),
                    prompt=text_at(asked, "prompt"),
                    directory=directory,
                )


def read_session(data_home: Path, session: UpstreamSessionId) -> StoredSession | None:
    """Return a session as the store holds it, None for one that is not there. StoreError."""
    for path in find_histories(data_home):
        require_own(data_home, path, bytes_max=DATABASE_BYTES_MAX)
        found = _in_database_of_2(path, session) or _in_database(path, session)
        if found is not None:
            return found
    return None


def version_of(data_home: Path, session: UpstreamSessionId) -> str:
    """Return the version that began a session, empty where that is not known. StoreError."""
    for path in find_histories(data_home):
        if found := session_version(path, session):
            return found
    return ""


def _in_database_of_2(path: Path, session: UpstreamSessionId) -> StoredSession | None:
    """What version 2 has said in a session is what it holds by now."""
    with opened(path, has_messages=False) as database:
        if version_2.TABLE not in tables_of(database):
            return None
        messages, written_at_ms = version_2.messages_in(database, session)
    return _stored(session, messages, written_at_ms) if messages else None


def stamp_of(data_home: Path, session: UpstreamSessionId) -> str:
    """Return what a session's messages are known by, empty where there are none. StoreError."""
    for path in find_histories(data_home):
        require_own(data_home, path, bytes_max=DATABASE_BYTES_MAX)
        with opened(path, has_messages=False) as database:
            is_of_2 = version_2.TABLE in tables_of(database)
            stamp = version_2.stamp_in(database, session) if is_of_2 else ""
        stamp = stamp or session_stamp(path, session)
        if stamp:
            return stamp
    return ""


def _in_database(path: Path, session: UpstreamSessionId) -> StoredSession | None:
    found = read_messages(path, session)
    if found is None:
        return None
    return _stored(session, found.messages, found.written_at_ms)


def _stored(
    session: UpstreamSessionId, messages: Sequence[Mapping[str, Any]], written_at_ms: int
) -> StoredSession:
    return StoredSession(
        upstream_session_id=session,
        events=tuple(event for each in messages for event in _events(each, session)),
        # It counts in whole milliseconds: the whole of its last one is its own.
        written_at_ns=(written_at_ms + 1) * NS_PER_MS,
    )


def _events(message: Mapping[str, Any], session: UpstreamSessionId) -> Iterator[AgentEvent]:
    yield from history([message], session)
    held = usage(as_object(message.get("info")), session, window=None)
    if held is not None:
        yield held
