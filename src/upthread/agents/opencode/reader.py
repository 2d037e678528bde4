"""Read OpenCode's sessions: listed, searched, diagnosed and read back as events.

A part of the type `tool` is a call and its result in one: `state.status` is pending or running
while it has none. Within a message `step-start` begins the next request to the model. Where no
hook reported which session a call made, the running part of the call names it; that part has the
call's arguments as well, from before there is a session. No list names the process that works in a
session. OpenCode's log names the run that did last, and when that run began; only a living process
that has the database open and started just before is that run (1.18.33).
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TypeVar

import apsw

from upthread.agent_stores.base import (
    Ending,
    Look,
    SessionOutline,
    Unreadable,
    VendorHistory,
    epoch_ms,
    is_known_version,
    outlined,
    title_of,
)
from upthread.agent_stores.homes import require_own
from upthread.agent_stores.lines import LINE_BYTES_MAX
from upthread.agent_stores.reader import (
    Edit,
    RepairedCopy,
    Said,
    Searched,
    Words,
    keep,
    prepare,
    still_wrong,
    texts_in,
)
from upthread.agents._guard import marks_of
from upthread.agents._json_lines import of_session
from upthread.agents.opencode.database import (
    Connection,
    Database,
    Message,
    Row,
    beside,
    connected,
    find_histories,
    number_of,
    object_in,
    opened,
    would_be_copied,
)
from upthread.agents.opencode.turn import history, usage
from upthread.boundary.directories import NO_FILE
from upthread.boundary.files import streamed
from upthread.boundary.programs import users_of
from upthread.core import types
from upthread.core.codec import encode_json, member, number_at, object_at, text_at
from upthread.core.events import INTERRUPTED, AgentEvent, AgentsCall
from upthread.core.history.model import HistoryMessage
from upthread.core.turns.agent_history import StoredSession, UndecidedCall
from upthread.core.types import JsonObject, JsonValue, UpstreamSessionId
from upthread.errors import StoreError

AGENT = "opencode"
WRITTEN_FOR = ("1.18",)
DATABASE_BYTES_MAX = 64 * 1024 * 1024 * 1024
"""Only what is asked for is read of it, so that it may be large: one file has all projects."""

COPIED_BYTES_MAX = 512 * 1024 * 1024
"""A database with a log and no index of it is read from a copy, which takes time and room."""

OPEN_STATES = frozenset({"pending", "running"})
"""A call that a kill cut off keeps one of these for ever: OpenCode mends it for the model alone."""

NS_PER_MS = 1_000_000

LOG_BYTES_MAX = 64 * 1024 * 1024
"""Of the end of OpenCode's log. A run that began before says nothing of its process."""

FIRST_LOGGED_WITHIN_MS = 60_000
"""How long after its start a process may write its first line; it takes a second (1.18.33)."""

_LOGGED = re.compile(rb"timestamp=(?P<at>[\w:.-]+) level=\w+ run=(?P<run>\w+) ")
_AT_REST = b'message="exiting loop"'
_STEPS = 20_000
"""Of SQLite's machine, between two checks of the clock: a list is cut short rather than late."""

# By a word first, for which nothing of a long session has to be decoded.
_CALLS = """
    SELECT data FROM part WHERE session_id = ?1 AND length(data) <= ?2
    AND data LIKE '%"task"%' ORDER BY id DESC"""
_MARKED = """
    SELECT part.session_id, session.directory, part.data FROM session
    JOIN part ON part.session_id = session.id
    WHERE session.time_updated >= ?1 AND part.time_updated >= ?1 AND length(part.data) <= ?2
    AND part.data LIKE '%"task"%' AND part.data LIKE '%' || ?3 || '%' ORDER BY part.id"""


# --- at a glance ---------------------------------------------------------------------------------


def outlines(data_home: Path, look: Look) -> Iterator[SessionOutline]:
    """Yield each session of OpenCode's databases under a data home, the newest first."""
    for path in _databases(data_home, look):
        try:
            with opened(path) as database:
                database.connection.set_progress_handler(
                    lambda: time.monotonic() > look.until_s, _STEPS
                )
                for row in database.sessions(most=look.sessions_max + 1):
                    if not look.goes_on():
                        return
                    yield _outline(database, row)
        except StoreError:
            # Told by its reason alone: `doctor` says of each what is wrong with it.
            look.is_cut_short |= time.monotonic() > look.until_s
            if not look.is_cut_short:
                look.pass_over(AGENT, "not a database of a known form")


def _databases(data_home: Path, look: Look) -> Iterator[Path]:
    """Yield the databases that are opened at a glance; the others are counted."""
    for path in find_histories(data_home):
        why = NO_FILE if path.is_symlink() else ""
        if not why and would_be_copied(path) and path.stat().st_size > COPIED_BYTES_MAX:
            why = "too large to copy"
        look.pass_over(AGENT, why, bool(why))
        if not why:
            yield path


def _outline(database: Database, row: Row) -> SessionOutline:
    session_id, parent = text_at(row, "id"), text_at(row, "parent_id")
    newest = [each.info for each in database.messages(session_id, newest_only=True)]
    nothing: JsonObject = {}
    weighed = next(filter(_tokens, newest), nothing)
    return SessionOutline(
        agent=AGENT,
        session_id=session_id,
        path=str(database.path),
        parent_session_id=parent,
        # Of a main session it is the mode it is in, which is no role.
        role=text_at(row, "agent") if parent else "",
        unredacted_title=title_of(text_at(row, "title")),
        directory=text_at(row, "directory"),
        begun_at_ms=number_of(row.get("time_created")) or None,
        used_at_ms=number_of(row.get("time_updated")),
        model=text_at(weighed, "modelID") or _model(text_at(row, "model")),
        tokens=_tokens(weighed) or None,
        version=text_at(row, "version"),
        ending=_ending(newest[0]) if newest else "unknown",
        is_archived=bool(row.get("time_archived")),
        is_too_old=database.path.is_dir(),
    )


def _ending(info: JsonObject) -> Ending:
    if not info:
        return "unknown"
    is_over = info.get("role") == "assistant" and member(info, "time", "completed")
    is_at_rest = is_over and info.get("error") is None and info.get("finish") != "tool-calls"
    return "ended" if is_at_rest else "interrupted"


def _tokens(info: JsonObject) -> int:
    """Return what a session held at an answer: all that was read, and what was said."""
    said = (number_at(info, "tokens", name) for name in ("input", "output", "reasoning"))
    cached = (number_at(info, "tokens", "cache", name) for name in ("read", "write"))
    return sum(filter(None, (*said, *cached)))


def _model(text: str) -> str:
    if not text.startswith("{"):
        return text
    return text_at(object_in(text), "id")


# --- for a search --------------------------------------------------------------------------------


def sessions(data_home: Path, look: Look, held: ExitStack) -> Iterator[Searched]:
    """Yield each session of OpenCode's databases, which stay open as long as `held` is."""
    for path in _databases(data_home, look):
        try:
            database = held.enter_context(opened(path))
            for row in database.sessions(most=look.sessions_max + 1):
                yield Searched(
                    agent=AGENT,
                    used_at_ms=number_of(row.get("time_updated")),
                    outline=partial(_outline, database, row),
                    said=partial(_said, database, text_at(row, "id"), look),
                )
        except (StoreError, apsw.Error):
            look.pass_over(AGENT, "not a database of a known form")


def _said(database: Database, session_id: str, look: Look, words: Words) -> Iterator[Said]:
    try:
        for message in database.messages(session_id, is_wanted=words.may_be_in):
            yield from said_in(message)
    except apsw.Error:
        look.pass_over(AGENT, "sessions with damaged pages")


def said_in(message: Message) -> Iterator[Said]:
    """Yield what the parts of a message say."""
    for part in message.parts:
        state = object_at(part, "state")
        said = {
            "text": part.get("text"),
            "reasoning": part.get("text"),
            "tool": [state.get("input"), state.get("output"), state.get("error")],
        }
        kind = text_at(part, "type")
        text = "\n".join(texts_in(said.get(kind)))
        if text:
            who = "tool" if kind == "tool" else text_at(message.info, "role")
            yield Said(speaker=who, text=text, at_ms=message.created_at_ms)


# --- as a history --------------------------------------------------------------------------------


def read_histories(path: Path, *, session_id: str | None = None) -> Iterator[VendorHistory]:
    """Yield the sessions, oldest first; with an id only that one.

    StoreError when the file is no database, or one of a form this version does not know.
    """
    with opened(path, takes_version_2=False) as database:
        rows = database.sessions(session_id)
        for row in sorted(rows, key=lambda row: number_of(row.get("time_created"))):
            yield _history(database, row)


def _history(database: Database, row: Row) -> VendorHistory:
    session_id, version = text_at(row, "id"), text_at(row, "version")
    messages = list(database.messages(session_id))
    steps = [step for each in messages for step in _steps(each)]
    is_too_old = database.path.is_dir()
    why = "an OpenCode before 1.2 wrote it, and OpenCode of today does not resume it"
    old = (Unreadable(place="the session", why=why),) if is_too_old else ()
    return VendorHistory(
        agent=AGENT,
        session_id=session_id,
        path=database.path,
        version=version,
        is_version_known=is_too_old or is_known_version(version, WRITTEN_FOR),
        history=tuple(steps),
        unreadable=(*old, *(each for message in messages for each in message.unreadable)),
        parent_session_id=text_at(row, "parent_id") or None,
        directory=text_at(row, "directory"),
    )


def _steps(message: Message) -> Iterator[HistoryMessage]:
    """Yield a message step by step: what was said and called, then the results."""
    is_user = message.info.get("role") == "user"
    steps: list[tuple[list[types.Part], list[types.Part]]] = [([], [])]
    for part in message.parts:
        parts = [outlined(each) for each in _parts(part)]
        has_called = any(isinstance(each, types.ToolCallPart) for each in steps[-1][0])
        is_text = any(isinstance(each, types.TextPart) for each in parts)
        if part.get("type") == "step-start" or (is_text and has_called):
            steps.append(([], []))
        for each in parts:
            steps[-1][isinstance(each, types.ToolResultPart)].append(each)
    speaker = types.Speaker.USER if is_user else types.Speaker.ASSISTANT
    for said, results in steps:
        for who, spoken in ((speaker, said), (types.Speaker.TOOL, results)):
            if spoken:
                yield HistoryMessage(speaker=who, parts=tuple(spoken), place=message.place)


def _parts(part: JsonObject) -> Iterator[types.Part]:
    match part.get("type"):
        case "text" if not part.get("ignored"):
            yield types.TextPart(text=text_at(part, "text"))
        case "reasoning":
            yield types.ReasoningPart(text=text_at(part, "text"))
        case "file":
            uri = text_at(part, "filename") or text_at(part, "url")[:200]
            yield types.FilePart(uri=uri, mime_type=text_at(part, "mime"))
        case "tool" if "callID" in part:
            yield from _call(part)
        case _:
            return


def _call(part: JsonObject) -> Iterator[types.Part]:
    state = object_at(part, "state")
    call_id, status = text_at(part, "callID"), text_at(state, "status")
    yield types.ToolCallPart(
        call_id=call_id,
        title=text_at(part, "tool"),
        tool_kind="other",
        arguments=state.get("input"),
    )
    if status in OPEN_STATES:
        return
    metadata = object_at(state, "metadata")
    failed = "unknown" if metadata.get("interrupted") else "failed"
    child = text_at(metadata, "sessionId")
    yield types.ToolResultPart(
        call_id=call_id,
        status="completed" if status == "completed" else failed,
        text=text_at(state, "output") or text_at(state, "error"),
        child_conversation_id=types.ConversationId(child) if child else None,
    )


# --- as events -----------------------------------------------------------------------------------


def read_session(data_home: Path, session: UpstreamSessionId) -> StoredSession | None:
    """Return a session as the store holds it, None for one that is not there. StoreError."""
    return _first(data_home, lambda database: _stored(database, session))


def read_stored(data_home: Path, call: AgentsCall) -> StoredSession | None:
    """Return what the store holds of a call's sub-agent, None for nothing. Raises StoreError."""
    return _first(data_home, lambda database: _stored(database, _child_of(database, call)))


def version_of(data_home: Path, session: UpstreamSessionId) -> str:
    """Return the version that began a session, empty where that is not known. StoreError."""

    def version(database: Database) -> str:
        return next((text_at(row, "version") for row in database.sessions(session)), "")

    return _first(data_home, version) or ""


def stamp_of(data_home: Path, session: UpstreamSessionId) -> str:
    """Return what a session's messages are known by, empty where there are none. StoreError."""
    return _first(data_home, lambda database: database.stamp(session)) or ""


def writers_of(data_home: Path, sessions: Collection[str]) -> Mapping[str, int]:
    """Return by session the process that is at work in it.

    A process that upthread has started is none: its lease holds the session.
    """
    writers = dict[str, int]()
    with suppress(StoreError, OSError):
        for found in _of_each(data_home, lambda database: [*_writers_in(database, sessions)]):
            writers.update(found)
    return writers


def _writers_in(database: Database, sessions: Collection[str]) -> Iterator[tuple[str, int]]:
    working = [each for each in sessions if _is_at_work(database, each)]
    if not working:
        return
    users = {pid: at_ms for _, pid, at_ms in users_of(database.path) if not marks_of(pid)}
    for session in working if users else ():
        begun, run = _runs_of(database.path.parent / "log" / "opencode.log", session)
        for pid, started_at_ms in users.items():
            # A process that started long before, or that an earlier run may be, is another run.
            first_ms = min((each for each in begun.values() if each >= started_at_ms), default=0)
            if first_ms == begun.get(run) and first_ms - started_at_ms <= FIRST_LOGGED_WITHIN_MS:
                yield session, pid


def _is_at_work(database: Database, session: str) -> bool:
    newest = next(database.messages(session, newest_only=True), None)
    return newest is not None and not newest.info.get("error") and _ending(newest.info) != "ended"


def _runs_of(log: Path, session: str) -> tuple[dict[bytes, int], bytes]:
    """Return when each run began, and the run at work in a session; empty where it has left."""
    begun: dict[bytes, int] = {}
    at_work, mark = b"", f" session.id={session}".encode()
    with streamed(str(log)) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES_MAX))
        for line in file:
            if logged := _LOGGED.match(line):
                begun.setdefault(logged["run"], epoch_ms(logged["at"].decode()) or 0)
                if mark in line:
                    at_work = b"" if _AT_REST in line else logged["run"]
    return begun, at_work


def undecided_calls(data_home: Path, mark: str, since_ns: int) -> Iterator[UndecidedCall]:
    """Yield the calls whose description has a mark of our plug-in. Raises StoreError."""
    found = _of_each(data_home, lambda database: [*_marked(database, mark, since_ns)])
    yield from (call for calls in found for call in calls)


_Found = TypeVar("_Found")


def _first(data_home: Path, read: Callable[[Database], _Found | None]) -> _Found | None:
    """Return the first that any database has."""
    return next(filter(None, _of_each(data_home, read)), None)


def _of_each(data_home: Path, read: Callable[[Database], _Found]) -> Iterator[_Found]:
    for path in find_histories(data_home):
        top = path.parent if path == data_home else data_home
        if not path.is_dir():
            require_own(top, path, bytes_max=DATABASE_BYTES_MAX)
        with opened(path) as database:
            found = read(database)
        yield found


def _stored(database: Database, session: str) -> StoredSession | None:
    messages = list(database.messages(session))
    if not messages and not (session and database.sessions(session)):
        return None
    written_at_ms = max((each.written_at_ms for each in messages), default=0)
    upstream = UpstreamSessionId(session)
    return StoredSession(
        upstream_session_id=upstream,
        events=tuple(event for each in messages for event in _events(each, upstream)),
        # It counts in whole milliseconds: the whole of its last one is its own.
        written_at_ns=(written_at_ms + 1) * NS_PER_MS,
    )


def _events(message: Message, session: UpstreamSessionId) -> Iterator[AgentEvent]:
    yield from history([{"info": message.info, "parts": [*message.parts]}], session)
    held = usage(message.info, window=None)
    yield from of_session(session, [held] if held else [])


def _child_of(database: Database, call: AgentsCall) -> str:
    """Return the session that a call of `task` gave its work to, empty for none."""
    for (data,) in database.connection.execute(_CALLS, (call.main_session, LINE_BYTES_MAX)):
        part = object_in(data)
        if text_at(part, "callID") == call.call_id:
            return text_at(part, "state", "metadata", "sessionId")
    return ""


def _marked(database: Database, mark: str, since_ns: int) -> Iterator[UndecidedCall]:
    query = (since_ns // NS_PER_MS, LINE_BYTES_MAX, mark)
    for session, directory, data in database.connection.execute(_MARKED, query):
        part = object_in(data)
        asked = member(part, "state", "input")
        if text_at(part, "tool") == "task" and mark in text_at(asked, "description"):
            yield UndecidedCall(
                main_session=str(session),
                call_id=text_at(part, "callID"),
                role=text_at(asked, "subagent_type"),
                prompt=text_at(asked, "prompt"),
                directory=str(directory),
            )


# --- repair in a copy: calls without a result are closed ------------------------------------------

# Each call gets an id of its own. Rows that cannot be read stay as they are, since OpenCode has its
# own reading of them.


_TOOLS = """
    SELECT part.session_id, part.id, part.data FROM part
    WHERE (?1 IS NULL OR part.session_id = ?1) AND length(part.data) <= ?2
    ORDER BY part.session_id, part.message_id, part.id"""


def repair(
    path: Path, into: Path, *, session_id: str | None = None, sessions: Iterable[str] = ()
) -> RepairedCopy:
    """Copy OpenCode's database and close, in the copy, each call that has no result.

    Only `sessions` are touched: those whose form the reader knows. UsageError when `into` has a
    copy already.
    """
    if path.is_dir():
        raise StoreError(
            f"{path} is not repaired: it is of before 1.2, and OpenCode does not read it",
            hint="to go on in a session of it: upthread keep SESSION",
        )
    before, after = prepare(into, path)
    # With its log, which may hold what the file itself lacks.
    for suffix in ("", "-wal", "-shm"):
        if beside(path, suffix).exists():
            keep(beside(path, suffix), beside(before, suffix))
    after.touch(mode=0o600)
    edits: tuple[Edit, ...] = ()
    with (
        opened(path, takes_version_2=False) as source,
        closing(connected(str(after), apsw.SQLITE_OPEN_READWRITE)) as copy,
    ):
        with copy.backup("main", source.connection, "main") as backup:
            backup.step()
        # A backup takes over that the source has a log; the copy is to be one file.
        list(copy.execute("PRAGMA journal_mode = DELETE"))
        copy.execute("BEGIN")
        edits = tuple(_edited(copy, session_id, frozenset(sessions)))
        copy.execute("COMMIT")
    repaired = read_histories(after, session_id=session_id)
    left = tuple(line for history in repaired for line in still_wrong(history))
    return RepairedCopy(source=path, before=before, after=after, edits=edits, left=left)


def _edited(copy: Connection, session_id: str | None, known: frozenset[str]) -> Iterator[Edit]:
    used: set[tuple[str, str]] = set()
    rows = list(copy.execute(_TOOLS, (session_id, LINE_BYTES_MAX)))
    for session, part_id, data in rows:
        part = object_in(data)
        if part.get("type") != "tool" or session not in known:
            continue
        changed = dict(part)
        reasons = [*_closed(changed), *_own_id(changed, str(session), used)]
        if reasons:
            copy.execute(
                "UPDATE part SET data = ? WHERE id = ?", (encode_json(changed).decode(), part_id)
            )
            yield Edit(
                place=f"{session} {part_id}",
                before=_in_words(part),
                after=_in_words(changed),
                why="; ".join(reasons),
            )


def _closed(part: dict[str, JsonValue]) -> Iterator[str]:
    state = object_at(part, "state")
    if text_at(state, "status") not in OPEN_STATES:
        return
    start = object_at(state, "time").get("start", 0)
    part["state"] = {
        "status": "error",
        "input": state.get("input") or {},
        "error": INTERRUPTED,
        # By this the reader knows a call that was cut off, whose end is unknown, from a failed one.
        "metadata": {**object_at(state, "metadata"), "interrupted": True},
        "time": {"start": start, "end": start},
    }
    yield "the call has no result"


def _own_id(part: dict[str, JsonValue], session: str, used: set[tuple[str, str]]) -> Iterator[str]:
    call_id = text_at(part, "callID")
    # Ids are the model's, and only as different as it makes them (1.18.33).
    names = chain((call_id,), (f"{call_id}_{number}" for number in count(2)))
    own = next(name for name in names if (session, name) not in used)
    used.add((session, own))
    if own != call_id:
        part["callID"] = own
        yield "another call has its id"


def _in_words(part: JsonObject) -> str:
    state = object_at(part, "state")
    error = f": {text_at(state, 'error')}" if state.get("error") else ""
    return f"{text_at(part, 'tool')} {text_at(part, 'callID')} {state.get('status')}{error}"
