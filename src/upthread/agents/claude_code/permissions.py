"""Answering Claude Code's permission requests through the caller, and saying who answered (A13).

The answer is an event before it leaves. Nothing is ever allowed here: without a running prompt or
an answer, or with one that was not offered, the call is refused and the turn is ended.
"""

from __future__ import annotations

from typing import Any, Final

from upthread.agents._json import text_at
from upthread.agents._permission_request import CANCELLED, as_foreseen, ask_caller, ask_to_hold
from upthread.agents._prompt import RunningPrompt
from upthread.agents.base import AnswerPermission, HoldCall, PermissionRequest
from upthread.agents.claude_code.children import child_session
from upthread.agents.claude_code.tools import kind_of, locations_of, title_of
from upthread.core.events import PermissionAnswered
from upthread.core.types import UpstreamSessionId

ALLOW: Final = "allow"
REJECT: Final = "reject"
OPTIONS: Final = ((ALLOW, "allow_once"), (REJECT, "reject_once"))
_KINDS: Final = dict(OPTIONS)

_NOT_ANSWERED: Final = {
    "behavior": "deny",
    "message": "Nobody could be asked for this permission.",
    "interrupt": True,
}
# An hour, since a person may be asked: a hook that is late lets its call run (2.1.329).
HOOKS: Final = {"PreToolUse": [{"hookCallbackIds": ["upthread-before-a-call"], "timeout": 3600}]}
"""What has the CLI tell us of every call before it runs, whatever its settings allow."""

_REJECTED: Final = {"behavior": "deny", "message": "This was not permitted. Do not try it again."}


async def decide(
    request: dict[str, Any],
    running: RunningPrompt | None,
    answer_permission: AnswerPermission,
) -> dict[str, Any]:
    """Return the response to one `can_use_tool` request."""
    if running is None:
        return _NOT_ANSWERED
    asked = as_foreseen(_request(request, running.session), running)
    answer = await ask_caller(asked, running, answer_permission)
    was_recorded = await running.deliver(
        PermissionAnswered(
            upstream_session_id=asked.upstream_session_id,
            call_id=asked.call_id,
            title=asked.title,
            answer=CANCELLED if answer.option_id is None else _KINDS[answer.option_id],
            answered_by=answer.answered_by,
        )
    )
    # What could not be put on record is not granted (A13).
    if answer.option_id is None or not was_recorded:
        return _NOT_ANSWERED
    if answer.option_id == REJECT:
        return _REJECTED
    return {"behavior": "allow", "updatedInput": request.get("input")}


async def hold(
    told: dict[str, Any], running: RunningPrompt | None, hold_call: HoldCall | None
) -> dict[str, Any]:
    """Return the response to one `hook_callback`: what a PreToolUse hook would print."""
    if running is None or hold_call is None or text_at(told, "hook_event_name") != "PreToolUse":
        return {}
    request = {**told, "input": told.get("tool_input")}
    asked = as_foreseen(_request(request, running.session), running)
    held = await ask_to_hold(asked, running, hold_call)
    if held is None:
        return {}
    return {
        **({"continue": False, "stopReason": held.why} if held.ends_turn else {}),
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": held.why,
        },
    }


def _request(request: dict[str, Any], session: UpstreamSessionId) -> PermissionRequest:
    tool, arguments = text_at(request, "tool_name"), request.get("input")
    agent_id = text_at(request, "agent_id")
    return PermissionRequest(
        upstream_session_id=child_session(session, agent_id) if agent_id else session,
        call_id=text_at(request, "tool_use_id") or None,
        title=title_of(tool, arguments),
        tool_kind=kind_of(tool),
        arguments=arguments,
        locations=locations_of(arguments),
        options=OPTIONS,
        tool=tool,
    )
