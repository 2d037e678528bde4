"""What Claude Code's hooks ask: its own event in, its own answer out.

Claude Code's tool for sub-agents takes no session to go on in; continuing one is `SendMessage`, and
only within the main session it was started in. So the same main session is told whom to write to,
and another one's sub-agent starts from the briefing. Fields and answers as seen in 2.1.330:
https://code.claude.com/docs/en/hooks
"""

from __future__ import annotations

import os

from upthread.runtime.bindings.light_json import (
    NotJsonError,
    loads,
    object_in,
    objects_in,
    text_in,
)
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook.delegation import (
    Call,
    before,
    before_message,
    bindings,
    ended,
    started,
)
from upthread.surfaces.hook.main_session import (
    Continuing,
    about_to_use,
    prompted,
    session_ended,
    session_started,
)
from upthread.surfaces.hook.transcript import end_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AGENT = "claude-code"
DELEGATING = frozenset({"Agent", "Task"})
WRITING = "SendMessage"
EXAMINING = {"Read": "read", "Edit": "wrote", "Write": "wrote", "NotebookEdit": "wrote"}
CONTINUING = Continuing(AGENT, lambda session: f"{WRITING} with to: {session!r}", only_own=True)


def answer(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    """Answer one event; an empty answer changes nothing."""
    event, tool = text_in(fields, "hook_event_name"), text_in(fields, "tool_name")
    match event:
        case "SessionStart":
            return session_started(place, fields, CONTINUING)
        case "UserPromptSubmit":
            return prompted(place, fields, CONTINUING)
        case "PreToolUse" if tool in DELEGATING:
            return _delegating(place, fields)
        case "PreToolUse" if tool == WRITING:
            return _writing(place, fields)
        case "PostToolUse" | "PostToolUseFailure" if tool in {*DELEGATING, WRITING}:
            return _ended(place, fields)
        case "SubagentStop":
            _stopped(place, fields)
        case "SessionEnd":
            session_ended(place, fields, AGENT)
        case _:
            pass  # an event nobody subscribed us to
    return {}


def _call(fields: dict[str, Any], *, prompt: str) -> Call:
    given = object_in(fields, "tool_input")
    return Call(
        AGENT,
        {
            "session": text_in(fields, "session_id"),
            "call_id": text_in(fields, "tool_use_id"),
            "role": text_in(given, "subagent_type"),
            "prompt": text_in(given, prompt),
            "is_background": given.get("run_in_background") is True,
            "can_resume": False,
        },
    )


def _delegating(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    call = _call(fields, prompt="prompt")
    given = object_in(fields, "tool_input")
    if (place.known or {}).get("handover") is True:
        from upthread.surfaces.hook.handover import hand_over

        denied = hand_over(place, call, text_in(fields, "transcript_path"))
        if denied:
            return {
                "systemMessage": f"upthread: {denied}",
                **about_to_use(decision="deny", why=denied),
            }
    decided = before(place, call)
    told: dict[str, Any] = {"systemMessage": decided.line}
    if decided.prompt != call.prompt:
        told |= about_to_use(updated={**given, "prompt": decided.prompt})
    return told


def _writing(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    child = text_in(object_in(fields, "tool_input"), "to")
    decided = before_message(place, _call(fields, prompt="message"), child)
    return {"systemMessage": decided.line} if decided.line else {}


def _ended(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    response = object_in(fields, "tool_response")
    to = text_in(object_in(fields, "tool_input"), "to")
    call = _call(fields, prompt="message" if to else "prompt")
    child = text_in(response, "agentId") or to or _child_of(place, call)
    has_failed = text_in(fields, "hook_event_name") == "PostToolUseFailure"
    transcript = _transcript(text_in(fields, "transcript_path"), child)
    said, examinations = _told_by(transcript)
    ended(
        place,
        call,
        child,
        outcome=_outcome(fields) if has_failed else "ok",
        reply=text_in(fields, "error") if has_failed else said or _reply(response),
        examinations=examinations,
        transcript=transcript,
    )
    return {}


def _outcome(fields: dict[str, Any]) -> str:
    return "cancelled" if fields.get("is_interrupt") is True else "unknown"


def _child_of(place: Place, call: Call) -> str:
    """Return the sub-agent that was seen to stop within a call whose answer does not name it."""
    for _, binding in bindings(place):
        if text_in(object_in(binding, "claim"), "call_id") == call.call_id:
            return text_in(object_in(binding, "claim"), "child")
    return ""


def _reply(response: dict[str, Any]) -> str:
    pieces = [text_in(each, "text") for each in objects_in(response, "content")]
    return "\n".join(piece for piece in pieces if piece) or text_in(response, "content")


def _stopped(place: Place, fields: dict[str, Any]) -> None:
    """Note the id of a sub-agent that stops; its call's own end may never be told."""
    child, role = text_in(fields, "agent_id"), text_in(fields, "agent_type").lower()
    session = text_in(fields, "session_id")
    for _, binding in bindings(place):
        held = object_in(binding, "claim")
        is_theirs = text_in(held, "session") == session and text_in(binding, "role") == role
        if is_theirs and text_in(held, "agent") == AGENT and not text_in(held, "child"):
            call = Call(AGENT, {**held, "role": role})
            started(place, call, child, transcript=text_in(fields, "agent_transcript_path"))
            return


def _transcript(main: str, child: str) -> str:
    """Return where a sub-agent's transcript lies; empty for an id that is no name of a file."""
    if not child or not child.replace("-", "").replace("_", "").isalnum():
        return ""
    return os.path.join(main.removesuffix(".jsonl"), "subagents", f"agent-{child}.jsonl")


def _told_by(transcript: str) -> tuple[str, list[dict[str, Any]]]:
    """Return a sub-agent's last words and the files it read and wrote, of its transcript's end."""
    reply = ""
    found: list[dict[str, Any]] = []
    for line in end_of(transcript).split(b"\n"):
        if b'"assistant"' not in line:
            continue
        parts = _parts_of(line)
        reply = "\n".join(filter(None, (text_in(part, "text") for part in parts))) or reply
        found += [
            {"path": path, "how": EXAMINING[text_in(part, "name")]}
            for part in parts
            if (path := _examined_path(part))
        ]
    return reply, found


def _parts_of(line: bytes) -> list[dict[str, Any]]:
    """Return the parts of a message; none of a line that was cut off where reading began."""
    try:
        message = object_in(loads(line.decode("utf-8", "surrogateescape")), "message")
    except NotJsonError:
        return []
    return objects_in(message, "content")


def _examined_path(part: dict[str, Any]) -> str:
    given = object_in(part, "input") if text_in(part, "name") in EXAMINING else {}
    return text_in(given, "file_path") or text_in(given, "notebook_path")
