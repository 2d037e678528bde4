"""Read Codex's threads: listed, searched, diagnosed and read back as events.

At a glance both ends of a rollout count. Titles that a person gave are in `session_index.jsonl`,
the last one of a thread counts. A sub-agent names its parent in its first line. Seen in 0.144 to
0.169.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

from upthread.agent_stores.base import (
    Look,
    SessionOutline,
    Unreadable,
    VendorHistory,
    epoch_ms,
    is_known_version,
    outlined,
    text_in,
    title_of,
)
from upthread.agent_stores.homes import file_stamp, require_listed, require_own
from upthread.agent_stores.lines import (
    SUFFIX,
    Line,
    decoded,
    is_cut,
    lines_backward,
    lines_forward,
    marked_objects,
    read_object,
    used_at_ms,
)
from upthread.agent_stores.reader import (
    FileWalk,
    LineFile,
    Plan,
    RepairedCopy,
    Said,
    Searched,
    facts_in,
    repaired_lines,
    said_of,
    searched,
    texts_in,
    written_at_ns,
)
from upthread.agents._guard import marks_of
from upthread.agents._json_lines import of_session
from upthread.agents.codex.rollouts import (
    ARCHIVED,
    BEFORE_VERSIONS,
    OUTPUT_OF,
    OUTPUTS,
    PUT_IN,
    SESSIONS,
    TURN_EVENTS,
    Record,
    arguments_of,
    as_of_today,
    directory_in,
    directory_of,
    events_of,
    failure_of,
    files,
    find_histories,
    find_rollout,
    is_unnumbered,
    output_text,
    part_of,
    read_records,
    refusals,
    summary_of,
    thread_of,
)
from upthread.boundary.directories import FileEnds, open_directory
from upthread.boundary.programs import users_of
from upthread.core.agents import AGENTS
from upthread.core.codec import (
    AnyJson,
    encode_json,
    encode_text,
    number_at,
    object_at,
    objects_at,
    session_at,
    text_at,
)
from upthread.core.events import INTERRUPTED, AgentsCall, UserTextReplayed
from upthread.core.history.model import HistoryMessage
from upthread.core.turns.agent_history import StoredFailure, StoredSession, UndecidedCall
from upthread.core.types import JsonObject, JsonValue, Outcome, Speaker, UpstreamSessionId
from upthread.errors import StoreError

AGENT = "codex"
WRITTEN_FOR = ("0.169", "0.171", BEFORE_VERSIONS)
ROLLOUT_BYTES_MAX = 512 * 1024 * 1024
SAID_BYTES_MAX = 64 * 1024 * 1024
_SAID = frozenset({"response_item", "item_completed", "compacted", "token_count"})
"""It is held in memory whole; a larger one is reported as not compared."""

HEAD_BYTES = 64 * 1024
"""The first line has the instructions of the whole thread."""

FAR_BYTES = 2 * 1024 * 1024
"""Where the usual head does not hold the first line, because the instructions are long."""

TAIL_BYTES = 32 * 1024
INDEX_BYTES_MAX = 4 * 1024 * 1024
SPAWN = "spawn_agent"
UNNAMED_ROLE = "default"
"""How Codex calls a sub-agent whose type the model did not name."""

_ENDINGS = {
    "task_complete": "ended",
    "turn_complete": "ended",
    "task_started": "interrupted",
    "turn_started": "interrupted",
    "turn_aborted": "interrupted",
}
_HEADING = 400
"""Within so many bytes a line says what it is: what is long in it comes after."""

_AT_THE_BEGINNING = frozenset({"meta", "prompt", "model"})
_AT_THE_END = frozenset({"model", "tokens", "ending"})


# --- at a glance ---------------------------------------------------------------------------------


def outlines(home: Path, look: Look) -> Iterator[SessionOutline]:
    """Yield each thread under a Codex home (`~/.codex`), the newest days first."""
    walk, given = FileWalk(AGENT, look), _titles(home)
    for file in files(home, walk):
        if not look.goes_on():
            return
        outline = _outline_of(given, walk, file)
        if outline is not None:
            yield outline


def _titles(home: Path) -> Mapping[str, str]:
    """Return the titles that people gave, by the thread."""
    found: dict[str, str] = {}
    with suppress(OSError), open_directory(str(home)) as directory:
        ends = directory.ends("session_index.jsonl", head_bytes=0, tail_bytes=INDEX_BYTES_MAX)
        for line in lines_backward(ends):
            value = decoded(line)
            found.setdefault(text_at(value, "id"), text_at(value, "thread_name"))
    return found


def _outline_of(given: Mapping[str, str], walk: FileWalk, file: LineFile) -> SessionOutline | None:
    """Return the outline of a rollout, None where it holds no thread, which is counted."""
    ends = walk.ends(file, head_bytes=HEAD_BYTES, tail_bytes=TAIL_BYTES)
    if ends is None or not walk.is_sound(ends):
        return None
    outline = _outline(ends, file, given)
    if not outline.is_foreign or ends.is_whole:
        return outline
    far = walk.ends(file, head_bytes=FAR_BYTES, tail_bytes=TAIL_BYTES)
    return None if far is None else _outline(far, file, given)


def _outline(ends: FileEnds, file: LineFile, given: Mapping[str, str]) -> SessionOutline:
    head = facts_in(lines_forward(ends), _AT_THE_BEGINNING, _facts)
    tail = facts_in(lines_backward(ends), _AT_THE_END, _facts)
    line: JsonObject = head.get("meta", {})
    meta = object_at(line, "payload")
    source = object_at(meta, "source", "subagent")
    spawned = {**object_at(source, "thread_spawn"), **meta}
    thread = thread_of(file.name, meta)
    return SessionOutline(
        agent=AGENT,
        session_id=thread,
        path=file.path,
        parent_session_id=text_at(spawned, "parent_thread_id"),
        role=text_at(spawned, "agent_role"),
        unredacted_title=title_of(given.get(thread) or head.get("prompt", "")),
        directory=text_at(meta, "cwd") or head.get("directory", ""),
        branch=text_at(meta, "git", "branch"),
        begun_at_ms=epoch_ms(text_at(line, "timestamp")),
        used_at_ms=used_at_ms(ends),
        model=tail.get("model") or head.get("model", ""),
        tokens=tail.get("tokens"),
        size_bytes=ends.size_bytes,
        version=text_at(meta, "cli_version"),
        ending="interrupted" if is_cut(ends) else tail.get("ending", "unknown"),
        is_archived=file.directory.path.endswith(f"/{ARCHIVED}"),
        is_too_old=text_at(meta, "cli_version") == BEFORE_VERSIONS,
        is_foreign=not meta,
    )


def _facts(line: bytes, missing: AbstractSet[str]) -> AnyJson:
    """Return what a line says of its thread; decoded only where it may say what is missing."""
    heading = line[:_HEADING]
    if "meta" in missing and (b"session_meta" in heading or b'"payload"' not in heading):
        meta = as_of_today(decoded(line))
        return {"meta": meta} if text_at(meta, "type") == "session_meta" else {}
    if "model" in missing and b"turn_context" in heading:
        return {"model": text_at(decoded(line), "payload", "model")}
    if "prompt" in missing and b'"user' in heading:
        payload = object_at(as_of_today(decoded(line)), "payload")
        directory = directory_in(text_in(payload.get("content")))
        return {"prompt": _prompt(payload), "directory": directory}
    if not missing.isdisjoint({"tokens", "ending"}) and b"event_msg" in heading:
        payload = object_at(decoded(line), "payload")
        kind = text_at(payload, "type")
        held = number_at(payload, "info", "last_token_usage", "total_tokens")
        return {
            "ending": _ENDINGS.get(kind),
            "tokens": held if kind == "token_count" else None,
        }
    return {}


def _prompt(payload: JsonObject) -> str:
    if payload.get("type") == "user_message":
        said = text_at(payload, "message")
    elif payload.get("type") == "message" and payload.get("role") == "user":
        said = text_in(payload.get("content"))
        said = "" if said.lstrip().startswith(PUT_IN) else said
    else:
        return ""
    return said.rpartition(AGENTS[AGENT].request_heading)[2].lstrip()


# --- for a search --------------------------------------------------------------------------------


def sessions(home: Path, look: Look, _held: ExitStack) -> Iterator[Searched]:
    """Yield each thread under a Codex home, in no order."""
    walk = FileWalk(AGENT, look)
    outline_of = partial(_outline_of, _titles(home))
    yield from searched(walk, home, files(home, walk), outline_of=outline_of, said_in=said_in)


def said_in(value: JsonObject) -> Iterator[Said]:
    """Yield what a line says; what Codex reports of an item again is not said twice."""
    value = as_of_today(value)
    if value.get("type") == "response_item":
        item, at_ms = object_at(value, "payload"), epoch_ms(text_at(value, "timestamp"))
        speaker, part = part_of(item)
        if part is not None:
            yield from said_of(part, speaker=str(speaker), at_ms=at_ms)
        elif "action" in item and (text := "\n".join(texts_in(item["action"]))):
            yield Said(speaker="tool", text=text, at_ms=at_ms)  # a provider's own tool


# --- as a history --------------------------------------------------------------------------------


def read_histories(path: Path) -> Iterator[VendorHistory]:
    """Yield the thread that a rollout holds. StoreError when the file cannot be opened."""
    meta: JsonObject = {}
    messages: list[HistoryMessage] = []
    unreadable: list[Unreadable] = []
    records = list(read_records(path))
    for record in records:
        items = [record.payload] if record.kind == "response_item" else []
        if record.unreadable is not None:
            unreadable.append(record.unreadable)
        if record.kind == "session_meta":  # a fork repeats its parent's after its own
            meta = meta or record.payload
        elif record.kind == "compacted":
            left = record.payload.get("replacement_history")
            prompts = [each for each in messages if each.speaker is Speaker.USER]
            messages = prompts if left is None else []
            items = [summary_of(record.payload)] if left is None else objects_at(left)
        for item in items:
            speaker, part = part_of(item)
            if part is not None:
                parts = (outlined(part),)
                said = HistoryMessage(speaker=speaker, parts=parts, place=record.place)
                messages.append(said)
    version = text_at(meta, "cli_version")
    yield VendorHistory(
        agent=AGENT,
        session_id=thread_of(path.name, meta),
        path=path,
        version=version,
        is_version_known=is_known_version(version, WRITTEN_FOR),
        history=tuple(messages),
        unreadable=(*unreadable, *refusals(records)),
        parent_session_id=text_at(meta, "forked_from_id") or None,
        directory=text_at(meta, "cwd") or directory_of(records),
    )


# --- as events -----------------------------------------------------------------------------------


def read_session(home: Path, session: UpstreamSessionId) -> StoredSession | None:
    """Return a thread as its rollout holds it, None without one. Raises StoreError."""
    path = find_rollout(home, session) or _renamed(home, session)
    if path is None:
        require_listed(home / SESSIONS)
        return None
    # Before it is read: what is touched in between then counts as not seen by the session.
    at_ns = written_at_ns(path)
    records = _said_in(home, path)
    return StoredSession(
        upstream_session_id=session,
        events=of_session(session, events_of(records)),
        written_at_ns=at_ns,
        failure=failure_of(records),
    )


def _said_in(home: Path, path: Path) -> list[Record]:
    """Return what a rollout holds of its turns; most of a large one may be events of progress."""
    require_own(home, path, bytes_max=ROLLOUT_BYTES_MAX)
    said, said_bytes = list[Record](), 0
    for record in read_records(path):
        if record.kind in _SAID or record.kind in TURN_EVENTS:
            said.append(record)
            said_bytes += record.size_bytes
        if said_bytes > SAID_BYTES_MAX:
            raise StoreError(
                f"{path} is not read: its turns have more than {SAID_BYTES_MAX:,} bytes",
                hint="Codex itself may open it",
            )
    return said


def _renamed(home: Path, session: str) -> Path | None:
    """Return the rollout whose header names a thread, whatever the file is called."""
    heads = ((path, next(read_records(path), None)) for path in find_histories(home))
    return next((path for path, head in heads if head and head.payload.get("id") == session), None)


def read_stored(home: Path, call: AgentsCall) -> StoredSession | None:
    """Return what the store holds of a call's sub-agent, None for nothing. Raises StoreError."""
    # Its main thread's rollout has what became of the call.
    path = find_rollout(home, call.main_session)
    if path is None:
        return None
    items = [each.payload for each in _said_in(home, path) if each.kind == "response_item"]
    mine = [each for each in items if text_at(each, "call_id") == call.call_id]
    told = [output_text(each.get("output")) for each in mine if text_at(each, "type") in OUTPUTS]
    if not told:
        return None
    # An output of `spawn_agent` names the thread.
    if child := session_at(read_object(encode_text(told[-1]))[0], "agent_id"):
        return read_session(home, child)
    asked = (text_at(arguments_of(each), "message") for each in mine)
    nowhere = UpstreamSessionId("")
    # What a message to a sub-agent returns names none either.
    is_refused = any(text_at(each, "name").endswith(SPAWN) for each in mine)
    refusal = StoredFailure(outcome=Outcome.UNKNOWN, detail=told[-1] or "it said nothing")
    prompt = UserTextReplayed(upstream_session_id=nowhere, text=next(filter(None, asked), ""))
    return StoredSession(
        upstream_session_id=nowhere,
        events=(prompt,),
        written_at_ns=written_at_ns(path),
        failure=refusal if is_refused else None,
    )


def undecided_calls(home: Path, mark: str, since_ns: int) -> Iterator[UndecidedCall]:
    """Yield the spawns of each thread in which a hook wrote a mark. Raises OSError, StoreError."""
    for path in find_histories(home):
        is_new = path.stat().st_mtime_ns >= since_ns and path.suffix != SUFFIX
        if not is_new or next(marked_objects(path, mark), None) is None:
            continue
        thread, *records = read_records(path)
        for record in records:
            item = record.payload
            if record.kind != "response_item" or text_at(item, "name") != SPAWN:
                continue
            asked = object_at(arguments_of(item))
            yield UndecidedCall(
                main_session=text_at(thread.payload, "id"),
                call_id=text_at(item, "call_id"),
                role=text_at(asked, "agent_type") or UNNAMED_ROLE,
                prompt=text_at(asked, "message"),
                directory=text_at(thread.payload, "cwd"),
            )


def version_of(home: Path, session: UpstreamSessionId) -> str:
    """Return the version that began a thread, empty where that is not known."""
    path = find_rollout(home, session)
    first = next(read_records(path), None) if path else None
    return text_at(first.payload, "cli_version") if first else ""


def writers_of(home: Path, sessions: Collection[str]) -> Mapping[str, int]:
    """Return by thread the process that has its rollout open, as Codex keeps it (0.169.0).

    A process that upthread has started is none: its lease holds the thread.
    """
    found = ((find_rollout(home, each), each) for each in sessions)
    rollouts = {path: session for path, session in found if path}
    users = users_of(*rollouts)
    return {rollouts[path]: pid for path, pid, _ in users if not marks_of(pid)}


def stamp_of(home: Path, session: UpstreamSessionId) -> str:
    """Return what a thread's rollout is known by, empty without one."""
    path = find_rollout(home, session)
    return file_stamp(path) if path else ""


# --- repair in a copy: calls and outputs become pairs, lines become readable ----------------------


_Object = dict[str, JsonValue]
_SECONDS_MAX = 100_000_000_000
"""A larger number counts milliseconds."""


def repair(
    path: Path, into: Path, *, session_id: str | None = None, sessions: Iterable[str] = ()
) -> RepairedCopy:
    """Copy a rollout and repair the copy.

    The file is one session: which is asked for makes no difference.
    """
    del session_id, sessions
    records = [each for each in read_records(path) if each.value]
    ordinals = count() if is_unnumbered(records) else None
    first = next(iter(records), None)
    begun = text_at(first.value, "timestamp") if first else ""
    directory = directory_of(records)

    def whole(line: JsonObject) -> _Object:
        """Return a line with a time that is text, and its number if lines are to be numbered."""
        value: _Object = dict(line)
        if text_at(value, "payload", "cli_version") == BEFORE_VERSIONS:
            unsaid = {"cwd": directory}
            value["payload"] = {**unsaid, **object_at(line, "payload"), "cli_version": "0.39.0"}
        if not text_at(value, "timestamp"):
            value["timestamp"] = _time(value["timestamp"]) if value.get("timestamp") else begun
        if ordinals is not None:
            value["ordinal"] = next(ordinals)
        return value

    return repaired_lines(path, into, read_histories, partial(_lines, whole=whole))


def _lines(line: Line, plan: Plan, *, whole: Callable[[JsonObject], _Object]) -> Iterator[bytes]:
    value = as_of_today(line.value)
    item = object_at(value, "payload")
    kind, call_id = text_at(item, "type"), text_at(item, "call_id")
    is_item = value.get("type") == "response_item"
    if not value:
        return
    if is_item and kind in OUTPUTS and not plan.takes(call_id):
        plan.edit(line, f"an output that no call {call_id} waits for")
        return
    changed = whole(value)
    raw = line.text if changed == line.value else encode_json(changed)
    if raw != line.raw:
        plan.edit(line, "Codex does not read the line as it was", raw.decode())
    yield raw
    if is_item and kind in OUTPUT_OF:
        plan.made.add(call_id)
        if call_id in plan.open_calls:
            output: _Object = {"type": OUTPUT_OF[kind], "call_id": call_id, "output": INTERRUPTED}
            raw = encode_json({**whole(value), "payload": output})
            plan.edit(line, f"call {call_id} has no output", raw.decode(), is_new=True)
            yield raw


def _time(number: JsonValue) -> str:
    seconds = float(number) if isinstance(number, int | float) else 0.0
    seconds = seconds if seconds < _SECONDS_MAX else seconds / 1000
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")
