"""What Claude Code's hooks ask: its own event in, its own answer out.

Claude Code's tool for sub-agents takes no session to go on in; continuing one is `SendMessage`, and
only within the main session it was started in. So the same main session is told whom to write to,
and another one's sub-agent starts from the briefing. A sub-agent may go on in the background after
its call: then the call ends where the sub-agent stops. A transcript is written behind the events'
back and may lack their last words, so what an event says comes before it. Fields and answers as
seen in 2.1.330: https://code.claude.com/docs/en/hooks
"""

from __future__ import annotations

from upthread.agents.claude_code.entries import ENDS
from upthread.runtime.bindings.index import bindings
from upthread.runtime.bindings.light_json import (
    object_in,
    objects_in,
    text_in,
)
from upthread.runtime.bindings.places import Place
from upthread.surfaces.hook import main_session
from upthread.surfaces.hook.call import SubAgentCall, of_call, workstream_of
from upthread.surfaces.hook.claude_code_transcript import told_by, transcript_of
from upthread.surfaces.hook.delegation import before, before_message
from upthread.surfaces.hook.progress import ended, launched, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AGENT = "claude-code"
# One tool by two names: 2.1.197 and 2.1.329 fire both names' matchers for it.
DELEGATING = frozenset({"Agent", "Task"})
WRITING = "SendMessage"
NOTIFICATION = "<task-notification>"
"""How a prompt begins that no person wrote: it tells that a sub-agent in the background is over."""

LOADING = (
    f"If {WRITING} is not among your tools, load it: ToolSearch with query 'select:{WRITING}'."
)
"""Claude Code defers it, unless told not to: the model knows its name and not how to call it."""


def _reached(place: Place, workstream: str, fields: dict[str, Any]) -> frozenset[str]:
    """Return the sub-agents of other main sessions that can be written to in this one."""
    if (place.known or {}).get("handover") is not True:
        return frozenset()
    from upthread.surfaces.hook.handover import hand_over

    return hand_over(place, workstream, AGENT, fields)


CONTINUING = main_session.Continuing(
    AGENT,
    lambda session: f"{WRITING} with to: {session!r}",
    only_own=True,
    note=LOADING,
    reached=_reached,
)


def answer(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    """Answer one event; an empty answer changes nothing."""
    event, tool = text_in(fields, "hook_event_name"), text_in(fields, "tool_name")
    match event:
        case "SessionStart":
            return main_session.session_started(place, fields, CONTINUING)
        case "UserPromptSubmit":
            return _prompted(place, fields)
        case "PreToolUse" if tool in DELEGATING:
            return _delegating(place, fields)
        case "PreToolUse" if tool == WRITING:
            return _writing(place, fields)
        # Without the second the conversation of a call that failed would stay claimed.
        case "PostToolUse" | "PostToolUseFailure" if tool in {*DELEGATING, WRITING}:
            return _ended(place, fields)
        case "SubagentStop":
            _stopped(place, fields)
        case "SessionEnd":
            main_session.session_ended(place, fields, AGENT)
        case _:
            pass  # an event nobody subscribed us to
    return {}


def _call(fields: dict[str, Any], *, prompt: str) -> SubAgentCall:
    given = object_in(fields, "tool_input")
    return SubAgentCall(
        AGENT,
        {
            "session": text_in(fields, "session_id"),
            "call_id": text_in(fields, "tool_use_id"),
            "role": text_in(given, "subagent_type"),
            "prompt": text_in(given, prompt),
            "is_background": given.get("run_in_background") is True,
            # The tool drops `resume`, as all it does not know, without a word (2.1.329).
            "can_resume": False,
        },
    )


def _delegating(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    call = _call(fields, prompt="prompt")
    given = object_in(fields, "tool_input")
    decided = before(place, call)
    told: dict[str, Any] = {"systemMessage": decided.line}
    if decided.refusal:
        return told | main_session.about_to_use(decision="deny", why=decided.refusal)
    # Sent back whole: the other arguments stay as the model gave them.
    if decided.prompt != call.prompt:
        told |= main_session.about_to_use(updated={**given, "prompt": decided.prompt})
    return told


def _writing(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    child = text_in(object_in(fields, "tool_input"), "to")
    workstream, _ = workstream_of(place, AGENT, text_in(fields, "session_id"))
    if workstream is not None:
        _reached(place, workstream, fields)  # another session may have gone on with it meanwhile
    decided = before_message(place, _call(fields, prompt="message"), child)
    return {"systemMessage": decided.line} if decided.line else {}


def _ended(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    response = object_in(fields, "tool_response")
    to = text_in(object_in(fields, "tool_input"), "to")
    call = _call(fields, prompt="message" if to else "prompt")
    # Explore agents leave their id out of the answer, and go on by it all the same (2.1.329).
    child = text_in(response, "agentId") or to or _child_of(place, call)
    has_failed = text_in(fields, "hook_event_name") == "PostToolUseFailure"
    transcript = transcript_of(text_in(fields, "transcript_path"), child)
    # An answer that comes at once is no end: freed now, the next call would meet a busy session.
    if not has_failed and _goes_on(response):
        launched(place, call, child, transcript=transcript)
        return {}
    told = told_by(transcript)
    ended(
        place,
        call,
        child,
        outcome=_outcome(fields) if has_failed else "ok",
        # The answer before the transcript, whose end may still be that of the turn before.
        reply=text_in(fields, "error") if has_failed else _reply(response) or told.reply,
        examinations=told.examinations,
        transcript=transcript,
    )
    return {}


def _goes_on(response: dict[str, Any]) -> bool:
    """Return whether a call has been answered and its sub-agent works on in the background."""
    if response.get("isAsync") is True:
        return True
    return bool(text_in(response, "resumedAgentId")) and "inlineHandback" not in response


def _outcome(fields: dict[str, Any]) -> str:
    return "cancelled" if fields.get("is_interrupt") is True else "unknown"


def _child_of(place: Place, call: SubAgentCall) -> str:
    """Return the sub-agent that was seen to stop within a call whose answer does not name it."""
    found = of_call(place, call)
    return text_in(object_in(found[1], "claim"), "child") if found else ""


def _reply(response: dict[str, Any]) -> str:
    response = object_in(response, "inlineHandback") or response
    pieces = [text_in(each, "text") for each in objects_in(response, "content")]
    return "\n".join(piece for piece in pieces if piece) or text_in(response, "content")


def _stopped(place: Place, fields: dict[str, Any]) -> None:
    """Keep how the work of one in the background went; of all others, which sub-agent it was.

    A call that waits for its sub-agent ends with its own answer, or is never told to have ended;
    one that is not answered yet ends with what the main session is told.
    """
    child, role = text_in(fields, "agent_id"), text_in(fields, "agent_type")
    held = _claim_of(place, child, text_in(fields, "session_id"), role.lower())
    transcript = text_in(fields, "agent_transcript_path")
    if held.get("is_background") is True and text_in(held, "child") == child:
        reply = text_in(fields, "last_assistant_message")
        _over(place, {**held, "role": role}, child, "ok", reply=reply, transcript=transcript)
    # Its own answer is still to come and has the words; what is worth keeping now is the id.
    elif held:
        started(place, SubAgentCall(AGENT, {**held, "role": role}), child, transcript=transcript)


def _prompted(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    # A notification quotes the sub-agent. Taken for a person's words it could name a workstream,
    # and free the other calls that the main session is waiting for.
    if not text_in(fields, "prompt").startswith(NOTIFICATION):
        return main_session.prompted(place, fields, CONTINUING)
    _notified(place, fields)
    # The main session's turn begins all the same, and the one that ended can be written to now.
    return main_session.whom_to_go_on_with(place, fields, CONTINUING)


def _notified(place: Place, fields: dict[str, Any]) -> None:
    """Keep how one in the background ended that was not seen to stop, such as one killed."""
    told = text_in(fields, "prompt")
    child, status = _between(told, "task-id"), _between(told, "status")
    held = _claim_of(place, child, text_in(fields, "session_id"), "")
    # One that was seen to stop holds no claim any more, and is not ended twice.
    if held.get("is_background") is True:
        outcome, reply = ENDS.get(status, "unknown"), _between(told, "result")
        transcript = transcript_of(text_in(fields, "transcript_path"), child)
        _over(place, held, child, outcome, reply=reply, transcript=transcript)


def _between(told: str, tag: str) -> str:
    """Return what stands in a tag; what a sub-agent said comes last, and may hold any of them."""
    return told.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip()


def _over(
    place: Place, held: dict[str, Any], child: str, outcome: str, *, reply: str, transcript: str
) -> None:
    told = told_by(transcript)
    ended(
        place,
        SubAgentCall(AGENT, held),
        child,
        outcome=outcome,
        reply=reply or told.reply,
        examinations=told.examinations,
        transcript=transcript,
    )


def _claim_of(place: Place, child: str, session: str, role: str) -> dict[str, Any]:
    """Return the claim a sub-agent works under, empty for one nobody asked us about.

    Until its call is answered, a claim knows its sub-agent by main session and role alone.
    """
    nameless: dict[str, Any] = {}

    def is_theirs(binding: dict[str, Any]) -> bool:
        held = object_in(binding, "claim")
        return text_in(held, "agent") == AGENT and text_in(held, "session") == session

    for _, binding in bindings(place, is_theirs):
        held = object_in(binding, "claim")
        # By id where there is one: two of a role may work under one main session.
        if child == (text_in(held, "child") or text_in(binding, "session")):
            return held
        if text_in(binding, "role") == role and not text_in(held, "child"):
            nameless = nameless or held
    return nameless
