"""A session of Claude Code, its own or a sub-agent's, read back from its transcript, as events.

A child is named where it began; its own words come before the result of its call. What
Claude Code itself wrote between the messages, such as the note of a cancelled turn, is left out.
Where nobody was told which sub-agent a call made, the small file beside its transcript names the
call. What a call asked for is in the main session's transcript too, from before there is a
sub-agent.

Two writers on one transcript, and the branch of one is lost: Claude Code resumes a session that
another process has open without a word (2.1.330). Each running process names its session in a file
of its own, `sessions/PID.json` below its home, with the time it was started; one left by a dead
process counts for nothing. Files of another form are passed over: upthread's own lease holds in any
case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from upthread.agent_stores.homes import file_stamp, require_listed, require_own
from upthread.agent_stores.lines import marked_objects
from upthread.agents._json_lines import as_object, read_json, text_at
from upthread.agents._outcomes import did_run, exit_code_in
from upthread.agents._process_group import started_at_ticks
from upthread.agents.claude_code.entries import SUBAGENTS, file_of
from upthread.agents.claude_code.histories import (
    Entry,
    called_with,
    find_any_subagent,
    find_subagent,
    find_transcript,
    newest_heard,
    read_branch,
    subagents_by_call,
    subagents_of,
    version_in,
)
from upthread.agents.claude_code.outcomes import (
    cache_written_of,
    cached_of,
    read_of,
    tokens_of,
    written_of,
)
from upthread.agents.claude_code.tools import (
    child_session,
    kind_of,
    locations_of,
    role_of,
    title_of,
)
from upthread.boundary.files import streamed
from upthread.core import events, types
from upthread.core.events import CALL_FAILED, AgentEvent
from upthread.core.turns.stored_session import CutOffCall, StoredSession, UndecidedCall
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.errors import StoreError

TRANSCRIPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""It is held in memory whole; of a larger one it is said that it was not compared."""

FILES_MAX: Final = 1000
FILE_BYTES_MAX: Final = 64 * 1024


def read_stored(home: Path, call: CutOffCall) -> StoredSession | None:
    """Return what the store holds of a call's sub-agent, None for nothing. Raises StoreError."""
    main = find_transcript(home, call.main_session)
    if main is None:
        return None
    agent_id = call.session or subagents_by_call(main).get(call.call_id, "")
    path = find_subagent(home, call.main_session, agent_id)
    # One that is named and not there is a loss to be told, and no call that made none.
    if path is None and agent_id and not call.session:
        raise StoreError(
            f"the transcript of sub-agent {agent_id} is not beside what names it",
            hint="put it back where Claude Code had it",
        )
    if path is None:
        return None
    return _read(home, path, UpstreamSessionId(agent_id))


def undecided_calls(home: Path, mark: str, since_ns: int) -> Iterator[UndecidedCall]:
    """Yield the calls whose hook wrote a line with a mark. Raises OSError, StoreError."""
    for path in sorted((home / "projects").glob("*/*.jsonl")):
        is_new = path.stat().st_mtime_ns >= since_ns
        for entry in marked_objects(path, mark) if is_new else ():
            line = as_object(entry.get("attachment"))
            if line.get("type") != "hook_system_message" or line.get("hookEvent") != "PreToolUse":
                continue
            call_id = text_at(line, "toolUseID")
            asked = called_with(path, call_id)
            if role := text_at(asked, "subagent_type"):
                yield UndecidedCall(
                    main_session=path.stem,
                    call_id=call_id,
                    role=role,
                    prompt=text_at(asked, "prompt"),
                    directory=text_at(entry, "cwd"),
                )


def read_session(home: Path, session: UpstreamSessionId) -> StoredSession | None:
    """Return a main session as its transcript holds it, None without one. Raises StoreError."""
    path = _find(home, session)
    if path is None:
        require_listed(home / "projects")
        return None
    return _read(home, path, session)


def _find(home: Path, session: UpstreamSessionId) -> Path | None:
    """Return where a session's transcript is, a sub-agent's too; None without one."""
    return find_transcript(home, session) or find_any_subagent(home, session)


def version_of(home: Path, session: UpstreamSessionId) -> str:
    """Return the version that worked in a session last, empty where that is not known."""
    path = _find(home, session)
    return version_in(path) if path else ""


def _read(home: Path, path: Path, session: UpstreamSessionId) -> StoredSession:
    # Before it is read: what is touched in between then counts as not seen by the session.
    written_at_ns = path.stat().st_mtime_ns
    return StoredSession(
        upstream_session_id=session,
        events=tuple(_with_children(home, path, session, {path})),
        written_at_ns=written_at_ns,
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


def stamp_of(home: Path, session: UpstreamSessionId) -> str:
    """Return what a session's transcript is known by, empty without one."""
    path = _find(home, session)
    return (newest_heard(path) or file_stamp(path)) if path else ""


def read_history(
    path: Path, session: UpstreamSessionId, *, with_usage: bool = False
) -> tuple[AgentEvent, ...]:
    """Return what a transcript holds of its session. StoreError when it cannot be opened.

    `with_usage` adds what the session held after each of the model's messages.
    """
    is_subagent = path.parent.name == SUBAGENTS
    children = {
        # The hooks name the sub-agent of a sub-agent by its id alone.
        call_id: UpstreamSessionId(agent_id) if is_subagent else child_session(session, agent_id)
        for call_id, agent_id in subagents_by_call(path).items()
    }
    told: list[AgentEvent] = []
    entries = read_branch(path)
    # One answer is several entries, each with what was counted of all of it: the last counts.
    last_of = {entry.message_id: entry.uuid for entry in entries if entry.message_id}
    for entry in entries:
        for part in entry.parts:
            told += _events(entry, part, session, children)
        is_last = last_of.get(entry.message_id, entry.uuid) == entry.uuid
        if with_usage and is_last and (held := tokens_of(entry.usage)):
            read = read_of(entry.usage)
            told.append(
                events.UsageReported(
                    upstream_session_id=session,
                    tokens_used=held,
                    tokens_read=read,
                    tokens_written=written_of(entry.usage),
                    tokens_cached=cached_of(entry.usage),
                    tokens_cache_written=cache_written_of(entry.usage),
                )
            )
    return tuple(told)


def _events(
    entry: Entry,
    part: types.Part,
    session: UpstreamSessionId,
    children: Mapping[str, UpstreamSessionId],
) -> Iterator[AgentEvent]:
    match part:
        case types.ToolResultPart(call_id=call_id, status=status, text=text):
            yield events.ToolCallUpdated(
                upstream_session_id=session,
                call_id=call_id,
                status=status,
                text=text,
                did_run=status == CALL_FAILED and did_run(exit_code_in(text)),
                child_upstream_session_id=children.get(call_id),
            )
        # Only after results, which count whoever wrote the entry: they close a call.
        case _ if entry.is_synthetic:
            return
        case types.TextPart(text=text) if entry.kind == "user":
            yield events.UserTextReplayed(
                upstream_session_id=session, text=text, message_id=entry.uuid
            )
        case types.TextPart(text=text):
            yield events.TextReceived(
                upstream_session_id=session, text=text, message_id=entry.message_id
            )
        case types.ReasoningPart(text=text):
            yield events.ReasoningReceived(upstream_session_id=session, text=text)
        case types.ToolCallPart():
            yield from _call(part, session, children.get(part.call_id))
        case _:
            return


def _call(
    part: types.ToolCallPart, session: UpstreamSessionId, child: UpstreamSessionId | None
) -> Iterator[AgentEvent]:
    yield events.ToolCallAnnounced(
        upstream_session_id=session,
        call_id=part.call_id,
        title=title_of(part.title, part.arguments),
        tool_kind=kind_of(part.title),
        arguments=part.arguments,
        locations=locations_of(part.arguments),
    )
    if child is not None:
        yield events.ChildStarted(
            upstream_session_id=session,
            child_upstream_session_id=child,
            role=role_of(part.arguments),
            call_id=part.call_id,
        )


def _may_live(name: str) -> bool:
    return not name.isdecimal() or started_at_ticks(int(name)) is not None


def writer_of(home: Path, session: str) -> int | None:
    """Return the id of a running process that has the session open, None without one.

    `home` is Claude Code's own, `~/.claude`.
    """
    for registered in _registered(home / "sessions"):
        pid = registered.get("pid")
        if registered.get("sessionId") == session and isinstance(pid, int):
            ticks = started_at_ticks(pid)
            # After a SIGKILL its file stays (2.1.330), and the number may be another's by now.
            if ticks is not None and str(ticks) == registered.get("procStart"):
                return pid
    return None


def _registered(directory: Path) -> Iterator[dict[str, Any]]:
    # Named by the process: those of dead ones are left out first, so that no number of leftovers
    # stands before a file that counts.
    living = (each for each in directory.glob("*.json") if _may_live(each.stem))
    for path in islice(living, FILES_MAX):
        try:
            with streamed(str(path)) as file:
                yield as_object(read_json(file.read(FILE_BYTES_MAX)))
        except OSError:
            continue  # it ended meanwhile
