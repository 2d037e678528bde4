"""Read Claude Code's sessions: listed, searched, diagnosed and read back as events.

At a glance both ends of a transcript count: directory and branch are in its first entry, title and
last words in its last. As events a child is named where it began; its own words come before the
result of its call. Claude Code's own notes between the messages are left out, for example that of
a cancelled turn. Where no hook reported which sub-agent a call made, the small file beside the
sub-agent's transcript names the call. Before 2.0 sub-agents lay beside their session, and each line
names the session. Seen in 2.1.197 to 2.1.330.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import structs

from upthread.agent_stores.base import (
    DAY_MS,
    Ending,
    Look,
    SessionOutline,
    VendorHistory,
    epoch_ms,
    is_known_version,
    text_in,
    title_of,
)
from upthread.agent_stores.homes import file_stamp, require_listed, require_own
from upthread.agent_stores.lines import (
    Line,
    decoded,
    is_cut,
    lines_backward,
    lines_forward,
    marked_objects,
    read_lines,
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
    written_at_ns,
)
from upthread.agents._json_lines import of_session, read_json, unknown
from upthread.agents._outcomes import did_run, exit_code_in
from upthread.agents._process import started_at_ticks
from upthread.agents.claude_code.transcripts import (
    LAST_PROMPT,
    Branch,
    Entry,
    branch_of,
    files,
    find_any_subagent,
    find_histories,
    find_subagent,
    find_transcript,
    newest_heard,
    parent_of,
    parts_of,
    read_entries,
    subagents_by_call,
    subagents_of,
    version_in,
)
from upthread.agents.claude_code.translation import (
    SUBAGENTS,
    child_session,
    file_of,
    kind_of,
    locations_of,
    role_of,
    tokens_of,
    usage_of,
)
from upthread.agents.claude_code.translation import title_of as call_title
from upthread.boundary.directories import FileEnds
from upthread.boundary.files import read_all, streamed, through_links
from upthread.core import events, types
from upthread.core.codec import AnyJson, encode_json, number_at, object_at, objects_at, text_at
from upthread.core.events import (
    CALL_FAILED,
    INTERRUPTED,
    REQUEST_FAILED,
    AgentEvent,
    AgentsCall,
    Events,
)
from upthread.core.history.model import HistoryMessage
from upthread.core.turns.agent_history import StoredSession, UndecidedCall
from upthread.core.types import JsonObject, JsonValue, Outcome, UpstreamSessionId
from upthread.errors import StoreError

AGENT = "claude-code"
WRITTEN_FOR = ("2.1",)
TRANSCRIPT_BYTES_MAX = 512 * 1024 * 1024
SAID_BYTES_MAX = 64 * 1024 * 1024
"""Messages are held in memory; a larger session is reported as not compared."""

HEAD_BYTES = 16 * 1024
TAIL_BYTES = 32 * 1024
FAR_BYTES = 512 * 1024
"""Where the usual ends hold no message: what Claude Code attaches can be long."""

KEPT_DAYS = 30
"""What `cleanupPeriodDays` is where nobody has set it."""

SETTINGS_BYTES_MAX = 1024 * 1024
_BESIDE = "agent-"
_HEADING_BYTES = 200
_TITLES = {
    "custom-title": "customTitle",
    "ai-title": "aiTitle",
    "summary": "summary",
}
"""By a person, by a model, by older versions; the first is the best."""

_AT_THE_BEGINNING = frozenset({"entry", "prompt"})
_AT_THE_END = frozenset({"entry", "tokens", "custom-title"})
"""A person's title is written again after each turn, and no other title is better."""


# --- at a glance ---------------------------------------------------------------------------------


def outlines(home: Path, look: Look) -> Iterator[SessionOutline]:
    """Yield each session under a Claude home (`~/.claude`), sub-agents after their session."""
    walk = FileWalk(AGENT, look)
    kept_days = _kept_days(home)
    for file in files(home, walk):
        if not look.goes_on():
            return
        outline = outline_of(walk, file)
        if outline is not None and kept_days is not None:
            # By the file's own time, unlike everything else.
            deleted_at_ms = file.directory.written_at_ms(file.name) + kept_days * DAY_MS
            outline = structs.replace(outline, deleted_at_ms=deleted_at_ms)
        if outline is not None:
            yield outline


def _kept_days(home: Path) -> int | None:
    """Return after how many days without use Claude Code deletes a transcript.

    None where it deletes none: it skips a setting that it cannot take (its words in 2.1.330).
    """
    try:
        path = str(home / "settings.json")  # a person's own, who may keep it elsewhere
        raw = read_all(through_links(path), path, bytes_max=SETTINGS_BYTES_MAX)
    except OSError:
        return KEPT_DAYS
    days = read_object(raw)[0].get("cleanupPeriodDays", KEPT_DAYS)
    return days if isinstance(days, int) and not isinstance(days, bool) and days > 0 else None


def outline_of(walk: FileWalk, file: LineFile) -> SessionOutline | None:
    """Return the outline of a transcript, None where it holds no session, which is counted."""
    ends = walk.ends(file, head_bytes=HEAD_BYTES, tail_bytes=TAIL_BYTES)
    if ends is None or not walk.is_sound(ends):
        return None
    outline = _outline(ends, file)
    if outline.directory and (outline.tokens is not None or ends.is_whole):
        return outline
    far = walk.ends(file, head_bytes=FAR_BYTES, tail_bytes=FAR_BYTES)
    return None if far is None else _outline(far, file)


def _outline(ends: FileEnds, file: LineFile) -> SessionOutline:
    head = facts_in(lines_forward(ends), _AT_THE_BEGINNING, _facts)
    tail = facts_in(lines_backward(ends), _AT_THE_END, _facts)
    parent = parent_of(file.directory.path)
    meta = _meta(file, parent)
    told: tuple[JsonObject, ...] = (meta, tail, head)
    titles = [text_at(end, kind) for end in told for kind in ("description", *_TITLES)]
    titles += [head.get("prompt", ""), tail.get(LAST_PROMPT, "")]
    begun: JsonObject = head.get("entry", {})
    newest = {**begun, **tail.get("entry", {})}
    main = text_at(newest, "sessionId") if file.name.startswith(_BESIDE) else ""
    return SessionOutline(
        agent=AGENT,
        session_id=file.name.removesuffix(".jsonl"),
        path=file.path,
        parent_session_id=parent or main,
        role=text_at(meta, "agentType") or text_at(newest, "attributionAgent"),
        unredacted_title=title_of(next(filter(None, titles), "")),
        directory=text_at(newest, "cwd"),
        branch=text_at(newest, "gitBranch"),
        begun_at_ms=epoch_ms(text_at(begun, "timestamp")),
        used_at_ms=used_at_ms(ends),
        model=tail.get("model", ""),
        tokens=tail.get("tokens"),
        size_bytes=ends.size_bytes,
        version=text_at(newest, "version"),
        ending=_ending(tail["entry"], ends) if "entry" in tail else "unknown",
        is_foreign=not newest,
    )


def _meta(file: LineFile, parent: str) -> JsonObject:
    if not parent:
        return {}
    try:
        name = f"{file.name.removesuffix('.jsonl')}.meta.json"
        return decoded(file.directory.ends(name, head_bytes=HEAD_BYTES, tail_bytes=0).head)
    except OSError:
        return {}


def _facts(line: bytes, missing: AbstractSet[str]) -> AnyJson:
    """Return what a line says of its session, without decoding most that is long."""
    heading = line[:_HEADING_BYTES]
    is_title = b'-title"' in heading or b'"summary"' in heading or b'"last-prompt"' in heading
    is_said = missing != {"custom-title"} and (b'"assistant"' in line or b'"user"' in line)
    if not is_title and not is_said:
        return {}
    value = decoded(line)
    kind = text_at(value, "type")
    if kind in _TITLES or kind == LAST_PROMPT:
        return {kind: text_at(value, _TITLES.get(kind, "lastPrompt"))}
    message = object_at(value, "message")
    if kind == "assistant":
        # Claude Code's own words have a usage of nothing.
        tokens = tokens_of(message.get("usage"))
        model = {"model": text_at(message, "model")} if tokens else {}
        return {"entry": value, "tokens": tokens, **model}
    if kind != "user":
        return {}
    said = "" if value.get("isMeta") else text_in(message.get("content"))
    # A command of Claude Code's own and what it printed are no prompt.
    return {"entry": value, "prompt": "" if said.lstrip().startswith("<") else said}


def _ending(value: JsonObject, ends: FileEnds) -> Ending:
    if value.get("type") == "user" or value.get("isApiErrorMessage") or is_cut(ends):
        return "interrupted"  # a prompt or a result that nothing answered, or a person's Esc
    blocks = objects_at(value, "message", "content")
    is_calling = any(each.get("type") == "tool_use" for each in blocks)
    return "interrupted" if is_calling else "ended"


# --- for a search --------------------------------------------------------------------------------


def sessions(home: Path, look: Look, _held: ExitStack) -> Iterator[Searched]:
    """Yield each session under a Claude home, in no order."""
    walk = FileWalk(AGENT, look)
    found = files(home, walk)
    yield from searched(walk, home / "projects", found, outline_of=outline_of, said_in=said_in)


def said_in(value: JsonObject) -> Iterator[Said]:
    """Yield what an entry says: prompts, answers, calls and results."""
    kind = text_at(value, "type")
    if kind in {"user", "assistant"}:
        at_ms = epoch_ms(text_at(value, "timestamp"))
        for part in parts_of(object_at(value, "message").get("content")):
            yield from said_of(part, speaker=kind, at_ms=at_ms)


# --- as a history --------------------------------------------------------------------------------


def read_histories(path: Path) -> Iterator[VendorHistory]:
    """Yield the session that a transcript holds. StoreError when the file cannot be opened."""
    read = read_entries(path)
    branch = branch_of(read)
    version = text_at(read.last, "version")
    yield VendorHistory(
        agent=AGENT,
        session_id=path.stem,
        path=path,
        version=version,
        is_version_known=is_known_version(version, WRITTEN_FOR),
        history=tuple(m for entry in branch.sent for m in _messages(entry)),
        unreadable=(*read.unreadable, *branch.faults),
        parent_session_id=parent_of(str(path.parent)) or None,
        directory=text_at(read.last, "cwd"),
    )


def _messages(entry: Entry) -> Iterator[HistoryMessage]:
    """Yield an entry's results, then the rest, as messages of their own."""
    results = tuple(part for part in entry.parts if isinstance(part, types.ToolResultPart))
    others = tuple(part for part in entry.parts if not isinstance(part, types.ToolResultPart))
    # First: providers take results of calls only before anything else of a message.
    for speaker, parts in (("tool", results), (entry.kind, others)):
        if parts:
            who = types.Speaker(speaker)
            yield HistoryMessage(speaker=who, parts=parts, place=entry.place)


# --- as events -----------------------------------------------------------------------------------


def read_session(home: Path, session: UpstreamSessionId) -> StoredSession | None:
    """Return a main session as its transcript holds it, None without one. Raises StoreError."""
    path = _find(home, session)
    if path is None:
        require_listed(home / "projects")
        return None
    return _read(home, path, session)


def read_stored(home: Path, call: AgentsCall) -> StoredSession | None:
    """Return what the store holds of a call's sub-agent, None for nothing. Raises StoreError."""
    main = find_transcript(home, call.main_session)
    if main is None:
        return None
    agent_id = subagents_by_call(main).get(call.call_id, "")
    path = find_subagent(main, agent_id)
    # A sub-agent that is named and not there is a loss to report, and no call that made none.
    if path is None and agent_id:
        raise StoreError(
            f"the transcript of sub-agent {agent_id} is not beside what names it",
            hint="put it back where Claude Code had it",
        )
    return None if path is None else _read(home, path, UpstreamSessionId(agent_id))


def stamp_of(home: Path, session: UpstreamSessionId) -> str:
    """Return what a session's transcript is known by, empty without one."""
    path = _find(home, session)
    return (newest_heard(path) or file_stamp(path)) if path else ""


def version_of(home: Path, session: UpstreamSessionId) -> str:
    """Return the version that worked in a session last, empty where that is not known."""
    path = _find(home, session)
    return version_in(path) if path else ""


def _find(home: Path, session: UpstreamSessionId) -> Path | None:
    return find_transcript(home, session) or find_any_subagent(home, session)


def undecided_calls(home: Path, mark: str, since_ns: int) -> Iterator[UndecidedCall]:
    """Yield the calls whose hook wrote a line with a mark. Raises OSError, StoreError."""
    for path in find_histories(home):
        is_new = path.stat().st_mtime_ns >= since_ns
        for entry in marked_objects(path, mark) if is_new else ():
            line = object_at(entry, "attachment")
            if line.get("type") != "hook_system_message" or line.get("hookEvent") != "PreToolUse":
                continue
            call_id = text_at(line, "toolUseID")
            asked = _called_with(path, call_id)
            if role := text_at(asked, "subagent_type"):
                yield UndecidedCall(
                    main_session=path.stem,
                    call_id=call_id,
                    role=role,
                    prompt=text_at(asked, "prompt"),
                    directory=text_at(entry, "cwd"),
                )


def _called_with(transcript: Path, call_id: str) -> JsonObject:
    """Return what a session's call was given, empty where it made none."""
    for line in read_lines(transcript):
        for block in objects_at(line.value, "message", "content"):
            if block.get("type") == "tool_use" and block.get("id") == call_id:
                return object_at(block, "input")
    return {}


def _read(home: Path, path: Path, session: UpstreamSessionId) -> StoredSession:
    # Before it is read: what is touched in between then counts as not seen by the session.
    at_ns = written_at_ns(path)
    return StoredSession(
        upstream_session_id=session,
        events=tuple(_with_children(home, path, session, {path})),
        written_at_ns=at_ns,
    )


def _with_children(
    home: Path, path: Path, session: UpstreamSessionId, seen: set[Path]
) -> Iterator[AgentEvent]:
    """Yield the events of a transcript and of its sub-agents' transcripts, each of these once."""
    require_own(home, path, bytes_max=TRANSCRIPT_BYTES_MAX)
    for event in read_history(path, session, with_usage=True):
        if isinstance(event, events.ToolCallUpdated) and (child := event.child_upstream_session_id):
            beside = subagents_of(path) / file_of(child.rpartition(":")[2])
            if beside.exists() and beside not in seen:
                seen.add(beside)
                # As in a turn of ours, in which Claude Code leaves open what a sub-agent wrote.
                yield from map(_without_written, _with_children(home, beside, child, seen))
            yield events.ChildEnded(
                upstream_session_id=session, child_upstream_session_id=child, outcome=Outcome.OK
            )
        yield event


def _without_written(event: AgentEvent) -> AgentEvent:
    is_usage = isinstance(event, events.UsageReported)
    return structs.replace(event, tokens_written=None) if is_usage else event


def read_history(path: Path, session: UpstreamSessionId, *, with_usage: bool = False) -> Events:
    """Return what a transcript holds of its session. StoreError when it cannot be opened.

    `with_usage` adds what the session held after each of the model's messages.
    """
    is_subagent = path.parent.name == SUBAGENTS
    children = {
        # The hooks name the sub-agent of a sub-agent by its id alone.
        call_id: UpstreamSessionId(agent_id) if is_subagent else child_session(session, agent_id)
        for call_id, agent_id in subagents_by_call(path).items()
    }
    said = branch_of(read_entries(path, is_whole=True, said_bytes_max=SAID_BYTES_MAX)).said
    # One answer is several entries, each with what was counted of all of it: the last counts.
    last_of = {entry.message_id: entry.uuid for entry in said if entry.message_id}
    told: list[AgentEvent] = []
    for entry in said:
        for part in entry.parts:
            told += _events(entry, part, children)
        is_last = last_of.get(entry.message_id, entry.uuid) == entry.uuid
        if with_usage and is_last and tokens_of(entry.usage):
            written = number_at(entry.usage, "output_tokens")
            told.append(usage_of(entry.usage, written=written))
    return of_session(session, told)


def _events(
    entry: Entry,
    part: types.Part,
    children: Mapping[str, UpstreamSessionId],
) -> Iterator[AgentEvent]:
    match part:
        case types.ToolResultPart(call_id=call_id, status=status, text=text):
            yield events.ToolCallUpdated(
                call_id=call_id,
                status=status,
                text=text,
                did_run=status == CALL_FAILED and did_run(exit_code_in(text)),
                child_upstream_session_id=children.get(call_id),
            )
        case types.TextPart(text=text) if entry.is_failure:
            yield unknown(REQUEST_FAILED, {"text": text})
        case types.TextPart() if entry.is_beginning:
            yield events.ContextCompacted()
        # Only after results, which count whoever wrote the entry: they close a call.
        case _ if entry.is_synthetic:
            return
        case types.TextPart(text=text) if entry.kind == "user":
            yield events.UserTextReplayed(text=text, message_id=entry.uuid)
        case types.TextPart(text=text):
            yield events.TextReceived(text=text, message_id=entry.message_id)
        case types.ReasoningPart(text=text):
            yield events.ReasoningReceived(text=text)
        case types.ToolCallPart():
            yield from _call(part, children.get(part.call_id))
        case _:
            return


def _call(part: types.ToolCallPart, child: UpstreamSessionId | None) -> Iterator[AgentEvent]:
    yield events.ToolCallAnnounced(
        call_id=part.call_id,
        title=call_title(part.title, part.arguments),
        tool_kind=kind_of(part.title),
        arguments=part.arguments,
        locations=locations_of(part.arguments),
    )
    if child is not None:
        yield events.ChildStarted(
            child_upstream_session_id=child,
            role=role_of(part.arguments),
            call_id=part.call_id,
        )


# --- which running Claude Code has a session open -------------------------------------------------

# Two writers on one transcript, and the branch of one is lost: Claude Code resumes a session that
# another process has open without a word (2.1.330). Each running process names its session in a
# file of its own, `sessions/PID.json` below its home, with the time it was started; a file of a
# dead process counts for nothing. Files of another form are passed over: upthread's own lease holds
# in any case.


FILES_MAX = 1000
FILE_BYTES_MAX = 64 * 1024


def writers_of(home: Path, sessions: Collection[str]) -> Mapping[str, int]:
    """Return by session the id of the running process that has it open.

    `home` is Claude Code's own, `~/.claude`.
    """
    writers = dict[str, int]()
    for registered in _registered(home / "sessions"):
        pid, session = registered.get("pid"), text_at(registered, "sessionId")
        if session in sessions and isinstance(pid, int):
            ticks = started_at_ticks(pid)
            # After a SIGKILL its file stays (2.1.330), and the number may be another's by now.
            if ticks is not None and str(ticks) == registered.get("procStart"):
                writers[session] = pid
    return writers


def _registered(directory: Path) -> Iterator[dict[str, Any]]:
    # Named by the process: those of dead ones are left out first, so that no number of leftovers
    # stands before a file that counts.
    living = (
        each
        for each in directory.glob("*.json")
        if not each.stem.isdecimal() or started_at_ticks(int(each.stem)) is not None
    )
    for path in islice(living, FILES_MAX):
        try:
            with streamed(str(path)) as file:
                yield object_at(read_json(file.read(FILE_BYTES_MAX)))
        except OSError:
            continue  # it ended meanwhile


# --- repair in a copy: tool uses and results are made pairs ---------------------------------------


_Object = dict[str, JsonValue]


def repair(
    path: Path, into: Path, *, session_id: str | None = None, sessions: Iterable[str] = ()
) -> RepairedCopy:
    """Copy a transcript and make its tool uses and results pairs in the copy.

    The file is one session: which is asked for makes no difference.
    """
    del session_id, sessions
    branch = branch_of(read_entries(path))
    ids = {each.uuid: _uuid(each.uuid, []) for each in branch.sent if each.uuid == each.place}
    return repaired_lines(path, into, read_histories, partial(_lines, branch=branch, ids=ids))


def _lines(line: Line, plan: Plan, *, branch: Branch, ids: Mapping[str, str]) -> Iterator[bytes]:
    entry: _Object = dict(line.value)
    uuid = text_at(entry, "uuid") or line.place
    if uuid in branch.beside:
        plan.edit(line, "another process wrote it to a branch that is not resumed")
        return
    if uuid in ids:
        entry["uuid"] = ids[uuid]
    if uuid in branch.joined:
        above = ids.get(branch.joined[uuid], branch.joined[uuid])
        entry["parentUuid"] = above or None
        plan.edit(line, "it hung on nothing", f"parentUuid: {above}")
    parent = text_at(entry, "parentUuid")
    if parent in plan.parents:
        entry["parentUuid"] = plan.parents[parent] or None
    message: _Object = dict(object_at(entry, "message"))
    blocks = objects_at(message, "content")
    kept = [
        block
        for block in blocks
        if block.get("type") != "tool_result" or plan.takes(text_at(block, "tool_use_id"))
    ]
    if len(kept) < len(blocks):
        if not kept:  # its children hang on what it hung on
            plan.parents[text_at(entry, "uuid")] = text_at(entry, "parentUuid")
            plan.edit(line, "results that no tool use waits for")
            return
        entry["message"] = {**message, "content": kept}
        plan.edit(line, "a result that no tool use waits for", encode_json(entry).decode())
    # Byte for byte where nothing is wrong, also what no reader of ours knows.
    yield line.raw if entry == line.value else encode_json(entry)
    yield from _closings(line, entry, kept, plan)


def _closings(line: Line, entry: _Object, blocks: list[AnyJson], plan: Plan) -> Iterator[bytes]:
    """Yield one entry with a result for each open tool use; what hung on the answer hangs on it."""
    uses = [text_at(block, "id") for block in blocks if block.get("type") == "tool_use"]
    plan.made.update(uses)
    results: list[JsonValue] = [
        {"type": "tool_result", "tool_use_id": use, "content": INTERRUPTED, "is_error": True}
        for use in uses
        if use in plan.open_calls
    ]
    if not results:
        return
    uuid = text_at(entry, "uuid")
    own = _uuid(uuid, results)
    plan.parents[uuid] = own
    kept = {key: held for key, held in entry.items() if key not in {"message", "requestId"}}
    closing: _Object = {
        **kept,
        "type": "user",
        "uuid": own,
        "parentUuid": uuid,
        "message": {"role": "user", "content": results},
    }
    raw = encode_json(closing)
    plan.edit(line, "tool uses have no result", raw.decode(), is_new=True)
    yield raw


def _uuid(uuid: str, results: list[JsonValue]) -> str:
    """Return a UUID that follows from what it is for: a second repair writes the same file."""
    digest = hashlib.sha256(encode_json([uuid, results])).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"
