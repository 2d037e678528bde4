"""What Codex's hooks ask: its own event in, its own answer out.

`spawn_agent` takes no session to go on in, and returns while the sub-agent works. A sub-agent that
was there before is opened by `resume_agent`, in any main session, and then written to. So a main
session is told whom it can go on with; one that spawns anew all the same has the briefing put
before its message. Fields and answers as seen in 0.169.0: https://developers.openai.com/codex/hooks
"""

from __future__ import annotations

from upthread.runtime.bindings.index import bindings
from upthread.runtime.bindings.light_json import (
    NotJsonError,
    loads,
    object_in,
    objects_in,
    text_in,
)
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook import main_session
from upthread.surfaces.hook.call import SubAgentCall, end_of
from upthread.surfaces.hook.delegation import before, before_message
from upthread.surfaces.hook.progress import ended, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AGENT = "codex"
SPAWNING = "spawn_agent"
OPENING = "resume_agent"
WRITING = "send_input"
NAMESPACE = "multi_agent"
"""How the names of Codex's own tools for sub-agents may begin; `_v1` and the tool's name follow."""

SOME_AGENT = "default"
"""The type of a sub-agent that was asked for without one."""

CONTINUING = main_session.Continuing(
    AGENT, lambda session: f"{OPENING} with id {session!r}, then {WRITING} to it", only_own=False
)


def answer(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    """Answer one event; an empty answer changes nothing."""
    event, tool = text_in(fields, "hook_event_name"), _tool(fields)
    match event:
        case "SessionStart":
            return main_session.session_started(place, fields, CONTINUING)
        # A sub-agent's prompt fires this too. As a person's it would free its main session's calls.
        case "UserPromptSubmit" if not text_in(fields, "agent_id"):  # else what we were told of
            return main_session.prompted(place, fields, CONTINUING)
        case "PreToolUse" if tool == SPAWNING:
            return _spawning(place, fields)
        case "PreToolUse" if tool == WRITING:
            return _writing(place, fields)
        case "PostToolUse" if tool == SPAWNING:
            _spawned(place, fields)
        case "SubagentStop":
            _stopped(place, fields)
        case "SessionEnd":
            main_session.session_ended(place, fields, AGENT)
        case _:
            pass  # an event nobody subscribed us to
    return {}


def _tool(fields: dict[str, Any]) -> str:
    """Return the tool's own name; `a__spawn_agent` of a server of the user's is not Codex's."""
    name = text_in(fields, "tool_name")
    for known in (SPAWNING, WRITING):
        # Codex's own begin so (0.169.0); a tool of a person's server has that server's name.
        if name == known or (name.startswith(NAMESPACE) and name.endswith(known)):
            return known
    return name


def _call(fields: dict[str, Any]) -> SubAgentCall:
    given = object_in(fields, "tool_input")
    unnamed = SOME_AGENT if _tool(fields) == SPAWNING else ""  # a message keeps the role it finds
    return SubAgentCall(
        AGENT,
        {
            "session": text_in(fields, "session_id"),
            "call_id": text_in(fields, "tool_use_id"),
            # What Codex calls it when it stops: by another name it would not be known again.
            "role": text_in(given, "agent_type") or unnamed,
            "prompt": text_in(given, "message"),
            "is_background": True,  # the call is over at once, the sub-agent's work is not
            "can_resume": False,
        },
    )


def _spawning(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    call = _call(fields)
    decided = before(place, call)
    told: dict[str, Any] = {"systemMessage": decided.line}
    if decided.refusal:
        return told | main_session.about_to_use(decision="deny", why=decided.refusal)
    if decided.prompt != call.prompt:
        given = {**object_in(fields, "tool_input"), "message": decided.prompt}
        told |= main_session.about_to_use(decision="allow", updated=given)
    return told


def _writing(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    given = object_in(fields, "tool_input")
    child = text_in(given, "target") or text_in(given, "id")
    decided = before_message(place, _call(fields), child)
    return {"systemMessage": decided.line} if decided.line else {}


def _spawned(place: Place, fields: dict[str, Any]) -> None:
    child = text_in(_response(fields), "agent_id")
    if child:
        started(place, _call(fields), child)
    # Ended here or never: the claim would stand until Codex itself ends.
    else:  # it was refused: nobody will be seen to stop
        reply = text_in(fields, "tool_response")
        ended(place, _call(fields), "", outcome="unknown", reply=reply, examinations=[])


def _response(fields: dict[str, Any]) -> dict[str, Any]:
    """Return what a tool has said, which Codex hands over as the text the model gets."""
    try:
        return loads(text_in(fields, "tool_response"))
    except NotJsonError:
        return {}


def _stopped(place: Place, fields: dict[str, Any]) -> None:
    """Keep how a sub-agent's work went: that it stops is its call's end."""
    child, transcript = text_in(fields, "agent_id"), text_in(fields, "agent_transcript_path")
    claim = _claim_of(place, child, text_in(fields, "session_id"), text_in(fields, "agent_type"))
    if not claim:
        return  # Codex's own work, such as a review, or written to in a way we were not told of
    prompt, said, examinations = _told_by(transcript)
    ended(
        place,
        SubAgentCall(AGENT, {**claim, "role": text_in(fields, "agent_type"), "prompt": prompt}),
        child,
        outcome="ok",
        reply=text_in(fields, "last_assistant_message") or said,
        examinations=examinations,
        transcript=transcript,
    )


def _claim_of(place: Place, child: str, session: str, role: str) -> dict[str, Any]:
    """Return the claim a sub-agent works under, empty for one nobody asked us about.

    One that is very quick stops before its call has told its id.
    """
    nameless: dict[str, Any] = {}
    for _, binding in bindings(place, lambda b: text_in(object_in(b, "claim"), "agent") == AGENT):
        held = object_in(binding, "claim")
        # Whatever the main session: `resume_agent` takes an id in any of them (0.169.0).
        if child in {text_in(held, "child"), text_in(binding, "session")}:
            return held
        is_theirs = text_in(held, "session") == session and text_in(binding, "role") == role.lower()
        if is_theirs and not text_in(held, "child"):
            nameless = nameless or held
    return nameless


def _told_by(transcript: str) -> tuple[str, str, list[dict[str, Any]]]:
    """Return what a sub-agent was asked last, and since then its last words and files.

    The files of prompts before are in its binding already: each is told at the end of its prompt.
    """
    prompt = reply = ""
    found: list[dict[str, Any]] = []
    for line in end_of(transcript).split(b"\n"):
        # Decoding is what takes the time, and all that is asked for stands in these lines.
        if b'"item_completed"' not in line:
            continue
        item = _item_of(line)
        match text_in(item, "type"):
            case "UserMessage":
                prompt, reply, found = _text_of(item), "", []
            case "AgentMessage":
                reply = _text_of(item) or reply
            case "CommandExecution":
                found += [{"path": path, "how": "read"} for path in _read_by(item)]
            case "FileChange":
                found += [{"path": path, "how": "wrote"} for path in object_in(item, "changes")]
            case _:
                pass
    return prompt, reply, found


def _item_of(line: bytes) -> dict[str, Any]:
    """Return what a line of a rollout tells; nothing of one cut off where reading began."""
    try:
        told = loads(line.decode("utf-8", "surrogateescape"))
    except NotJsonError:
        return {}
    return object_in(object_in(told, "payload"), "item")


def _read_by(item: dict[str, Any]) -> list[str]:
    """Return the files that a command read, as far as Codex understood it."""
    parsed = objects_in(item, "parsed_cmd")
    return [text_in(each, "path") for each in parsed if text_in(each, "type") == "read"]


def _text_of(item: dict[str, Any]) -> str:
    pieces = [text_in(each, "text") for each in objects_in(item, "content")]
    return "\n".join(piece for piece in pieces if piece)
