"""What Claude Code's hooks ask: its own event in, one step of a turn, its own answer out.

Claude Code's tool for sub-agents takes no session; a sub-agent is continued by `SendMessage`, and
only within the main session that started it. So the same main session is told whom to write to, and
another one's sub-agent starts from the briefing. A sub-agent may work on in the background after
its call: then the turn ends where the sub-agent stops. An event that has `agent_id` is a
sub-agent's, and never taken for its main session's. Fields and answers as seen in 2.1.332:
https://code.claude.com/docs/en/hooks
"""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from upthread.agents.claude_code.translation import ENDS, SUBAGENTS, file_of
from upthread.boundary.files import direct
from upthread.boundary.programs import living_parent
from upthread.client.agent_calls import AgentCalls, SubAgentCall
from upthread.core.codec import text_at
from upthread.core.types import Outcome, UpstreamSessionId
from upthread.runtime.turns.external_turn import CallEnded, ended_with
from upthread.surfaces.hook import main_session
from upthread.surfaces.hook.main_session import Told

AGENT = "claude-code"
WRITING = "SendMessage"
NOTIFICATION = "<task-notification>"
"""How a prompt begins that no person wrote: it tells that a sub-agent in the background is over."""

LOADING = (
    f"If {WRITING} is not among your tools, load it: ToolSearch with query 'select:{WRITING}'."
)
"""Claude Code defers it, unless told not to: the model knows its name and not how to call it."""

_WRITING_TO = (WRITING + " with to: {!r}").format


def _continuing(transcript: str) -> main_session.Continuing:
    return main_session.Continuing(
        agent=AGENT,
        how=_WRITING_TO,
        only_own=True,
        note=LOADING,
        # Copied before any model acts: afterwards it would have to be denied a call first.
        reached=partial(hand_over, transcript),
    )


class Given(Struct, frozen=True):
    """What the model gave to the tool."""

    subagent_type: str = ""
    prompt: str = ""
    to: str = ""
    message: str = ""


class Answered(Struct, frozen=True, rename="camel"):
    """What the tool answered. `content` is a text, or blocks with texts.

    Of the blocks so many at the beginning and at the end are Claude Code's own notes, for example
    `<tools-used-before-summary>Read</tools-used-before-summary>` (2.1.332).
    """

    agent_id: str = ""
    is_async: bool = False
    resumed_agent_id: str = ""
    inline_handback: dict[str, Any] | None = None
    content: str | list[Any] = ""
    harness_note_count: int = 0
    harness_tail_count: int = 0


class Event(main_session.Event, frozen=True):
    """One event of a session of Claude Code."""

    transcript_path: str = ""
    error: str = ""
    is_interrupt: bool = False

    @property
    def given(self) -> Given:
        """What the model gave to the tool."""
        return msgspec.convert(self.tool_input, Given)

    @property
    def answered(self) -> Answered:
        """What the tool answered, nothing where that is no object."""
        is_object = isinstance(self.tool_response, dict)
        return msgspec.convert(self.tool_response, Answered) if is_object else Answered()


def understand(request: Told) -> main_session.Step | None:
    """Return what an event has done in the record, None for an event that is none of ours."""
    event = msgspec.convert(request, Event)
    session, is_main = event.session_id, not event.agent_id
    step: main_session.Step | None = None
    match (event.hook_event_name, event.tool_name):
        # One tool by two names: 2.1.197 and 2.1.329 fire both names' matchers for it.
        case ("PreToolUse", "Agent" | "Task"):
            given = event.tool_input
            step = partial(main_session.delegating, call=_call(event), given=given, field="prompt")
        case ("PreToolUse", "SendMessage"):
            step = partial(main_session.writing, call=_call(event), session=event.given.to)
        case ("PreToolUse", _):
            step = partial(_guarded, event=event)
        case ("PostToolUse" | "PostToolUseFailure", "Agent" | "Task" | "SendMessage"):
            step = partial(_ended, event=event)
        case ("SubagentStart" | "SubagentStop", _):
            step = partial(_started_or_stopped, event=event)
        case ("SessionStart", _) if is_main:
            continuing = _continuing(event.transcript_path)
            step = partial(main_session.session_started, session=session, continuing=continuing)
        case ("UserPromptSubmit", _) if is_main:
            step = partial(_prompted, event=event)
        case ("SessionEnd", _) if is_main:
            step = partial(main_session.session_ended, session=session)
        case _:
            pass
    return step


def _call(event: Event) -> SubAgentCall:
    given = event.given
    return SubAgentCall(
        agent=AGENT,
        main_session=event.session_id,
        call_id=event.tool_use_id,
        # Models write a role's name in any case; roles are configured in lower case.
        role=given.subagent_type.lower(),
        prompt=given.message if given.to else given.prompt,
        pid=living_parent(),
        only_own=True,
        by_sub_agent=bool(event.agent_id),
        reach=lambda session: f"{_WRITING_TO(session)}. {LOADING}",
    )


def _guarded(calls: AgentCalls, event: Event) -> Told:
    from upthread.agents.claude_code.translation import request_of  # other events need none

    told = {"tool_name": event.tool_name, "input": event.tool_input}
    session = UpstreamSessionId(event.session_id)
    asked = request_of({**told, "tool_use_id": event.tool_use_id}, session)
    return main_session.guarded(calls, AGENT, event.session_id, asked, "ask")


def _of_child(event: Event, call_id: str) -> SubAgentCall:
    return replace(_call(event), call_id=call_id, role=event.agent_type.lower())


def _ended(calls: AgentCalls, event: Event) -> Told:
    call, answered = _call(event), event.answered
    has_failed = event.hook_event_name == "PostToolUseFailure"
    # Explore agents leave their id out of the answer, and are continued by it all the same.
    child = answered.agent_id or answered.resumed_agent_id or event.given.to
    is_behind = bool(answered.resumed_agent_id) and answered.inline_handback is None
    # An answer that comes at once is no end: freed now, the next call would meet a busy session.
    if not has_failed and (answered.is_async or is_behind):
        calls.started(call, child, is_background=True)
    elif has_failed:
        calls.ended(call, _failure(event, child))
    else:
        calls.ended(call, CallEnded(session=child, reply=_reply(answered)))
    return {}


def _failure(event: Event, child: str) -> CallEnded:
    if event.is_interrupt:
        return CallEnded(session=child, outcome=Outcome.CANCELLED)
    from upthread.agents.claude_code.translation import failed_call  # other events need none

    result = failed_call(event.error)
    return CallEnded(session=child, outcome=result.outcome, detail=result.detail)


def _reply(answered: Answered) -> str:
    content = (answered.inline_handback or {}).get("content") or answered.content
    if isinstance(content, str):
        return content
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    blocks = blocks[answered.harness_note_count : len(blocks) - answered.harness_tail_count]
    return "\n".join(filter(None, (text_at(each, "text") for each in blocks)))


def _started_or_stopped(calls: AgentCalls, event: Event) -> Told:
    """Record which sub-agent a call has, and the end of one that works in the background.

    A call that waits for its sub-agent ends with its own answer. The file that names the call is
    written after the start (2.1.332).
    """
    from upthread.agents.claude_code.transcripts import call_of_subagent  # other events need none

    made_by = call_of_subagent(event.transcript_path, event.agent_id)
    role = event.agent_type.lower()
    known = calls.open_call(AGENT, event.session_id, event.agent_id, role, call_id=made_by)
    if known is None:
        return {}
    call = _of_child(event, known.call_id)
    if event.hook_event_name == "SubagentStop" and calls.is_background(known):
        told = CallEnded(session=event.agent_id, reply=event.last_assistant_message or "")
        calls.ended(call, told)
    else:
        calls.started(call, event.agent_id)
    return {}


def _prompted(calls: AgentCalls, event: Event) -> Told:
    continuing = _continuing(event.transcript_path)
    # A notification quotes the sub-agent. Taken for a person's words it could name a workstream,
    # and free the other calls that the main session is waiting for.
    if not event.prompt.startswith(NOTIFICATION):
        return main_session.prompted(calls, event.session_id, event.prompt, continuing)
    # How one in the background ended that was not seen to stop, such as one killed, is kept.
    child, status = _between(event.prompt, "task-id"), _between(event.prompt, "status")
    known = calls.open_call(AGENT, event.session_id, child, "")
    # One that was seen to stop is over already, and is not ended twice.
    if known is not None and calls.is_background(known):
        outcome, said = Outcome(ENDS.get(status, "unknown")), _between(event.prompt, "result")
        calls.ended(_of_child(event, known.call_id), ended_with(child, outcome, said))
    # The main session's turn begins all the same, and the one that ended can be written to now.
    return main_session.whom_to_continue(calls, event.session_id, continuing)


def _between(told: str, tag: str) -> str:
    """Return what stands in a tag; what a sub-agent said comes last, and may hold any of them."""
    return told.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip()


# --- handover -----------------------------------------------------------------------------------
# Handing over, where a person has asked for it: earlier sub-agents' transcripts, copied.
#
# Claude Code finds a sub-agent only within the main session that started it. A copy of the sub-
# agent's transcript in the folder of another main session makes it known there. So the transcripts
# of a workstream's sub-agents are placed when a session starts and with each prompt of a person,
# before the model does anything: it is told whom it can continue. A conversation moves to the other
# session only when that session really writes to the sub-agent.

TRANSCRIPT_BYTES_MAX = 64 * 1024 * 1024
"""A larger one cannot be copied while an agent waits: it starts from its briefing instead."""

PIECE_BYTES = 1024 * 1024
TRANSCRIPT = ".jsonl"
META = ".meta.json"


def hand_over(main: str, earlier: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Place earlier sub-agents' transcripts beside a main session's; returns those whole there.

    `main` is the path of its transcript, `earlier` each main session and its sub-agent's id.
    """
    if not main.endswith(TRANSCRIPT):
        return frozenset()
    folder = Path(main.removesuffix(TRANSCRIPT)) / SUBAGENTS
    beside = Path(main).parent
    return frozenset(
        child
        for session, child in earlier
        if _is_name(session)
        and _is_name(child)
        and _is_placed(beside / session / SUBAGENTS / file_of(child), folder)
    )


def _is_name(word: str) -> bool:
    # An id is a model's word where it comes from `SendMessage`: "../" must lead nowhere.
    return bool(word) and word.replace("-", "").replace("_", "").isalnum()


def _is_placed(source: Path, folder: Path) -> bool:
    """Bring a transcript into a folder, or up to date there; returns whether it is whole."""
    try:
        reading = direct(str(source))
    except OSError:
        return False  # Claude Code deletes them after some weeks
    try:
        if os.fstat(reading).st_size > TRANSCRIPT_BYTES_MAX:
            return False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Before the transcript, for that is what makes the sub-agent known there.
        _copy_meta(source.with_suffix(META), folder / source.with_suffix(META).name)
        return _continue(reading, folder / source.name)
    finally:
        os.close(reading)


def _continue(reading: int, target: Path) -> bool:
    """Write what a copy lacks of its source; returns whether it then is the same.

    One that goes on otherwise than its source is left: each has work in it that the other has not.
    What is written stands where it belongs, so two hooks at once write the same.
    """
    # Opened as it is, never emptied: the other session may have written to its copy already.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    writing = os.open(target, flags, 0o600)
    try:
        offset, size = 0, os.fstat(writing).st_size
        while piece := os.read(reading, PIECE_BYTES):
            # Compared whole, not by size: two sessions that both went on have the same beginning.
            there = os.pread(writing, len(piece), offset) if offset < size else b""
            if there != piece[: len(there)]:
                return False
            left = piece[len(there) :]
            while left:
                left = left[os.pwrite(writing, left, offset + len(piece) - len(left)) :]
            offset += len(piece)
        return offset >= size
    finally:
        os.close(writing)


def _copy_meta(source: Path, target: Path) -> None:
    """Copy the small file beside a transcript to where there is none yet; it may be missing."""
    try:
        reading = direct(str(source))
    except FileNotFoundError:
        return
    try:
        # What stands there may be Claude Code's own by now.
        if not target.exists():
            _continue(reading, target)
    finally:
        os.close(reading)
