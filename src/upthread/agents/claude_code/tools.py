"""Claude Code's tools: what a call is in ACP's words, and whether it may run (A13, A14).

Names are those of Claude Code 2.1; an unknown tool, an MCP server's for one, is of kind `other`.
Nothing is ever allowed here: without a running prompt or an answer, or with one that was not
offered, the call is refused and the turn is ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from upthread.agents._json_lines import objects_at, text_at
from upthread.agents._permissions import ALLOW_OR_REJECT, REJECT, ask_to_hold, permission
from upthread.agents._prompt import RunningPrompt
from upthread.agents.base import AnswerPermission, HoldCall, PermissionRequest
from upthread.core.quotas import TITLE_CHARACTERS_MAX
from upthread.core.text import one_line
from upthread.core.types import UpstreamSessionId
from upthread.core.workstreams import ROLE_UNKNOWN

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Read", "LS", "NotebookRead"), "read"),
    **dict.fromkeys(("Edit", "MultiEdit", "Write", "NotebookEdit"), "edit"),
    **dict.fromkeys(("Bash", "PowerShell", "KillShell"), "execute"),
    **dict.fromkeys(("Glob", "Grep"), "search"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "fetch"),
    # What a sub-agent does is announced as its own calls.
    **dict.fromkeys(("Task", "Agent", "TodoWrite"), "think"),
}
_PATHS: Final = ("file_path", "notebook_path", "path")
_TELLING: Final = ("command", *_PATHS, "pattern", "url", "query", "description")
"""The argument a title is made of, the first there is."""


_NOT_ANSWERED: Final = {
    "behavior": "deny",
    "message": "Nobody could be asked for this permission.",
    "interrupt": True,
}
# An hour, since a person may be asked: a hook that is late lets its call run (2.1.329).
HOOKS: Final = {"PreToolUse": [{"hookCallbackIds": ["upthread-before-a-call"], "timeout": 3600}]}
"""What has the CLI tell us of every call before it runs, whatever its settings allow."""

_REJECTED: Final = {"behavior": "deny", "message": "This was not permitted. Do not try it again."}


def kind_of(tool: str) -> str:
    """Return the kind of a tool by its name."""
    return _KINDS.get(tool, "other")


def title_of(tool: str, arguments: object) -> str:
    """Return what a person is shown of a call: a command as it is, else the tool and its object."""
    told = next((text for name in _TELLING if (text := text_at(arguments, name))), "")
    if told and told == text_at(arguments, "command"):
        return one_line(told)[:TITLE_CHARACTERS_MAX]
    return one_line(f"{tool} {told}".strip())[:TITLE_CHARACTERS_MAX]


def locations_of(arguments: object) -> tuple[str, ...]:
    """Return the paths a call names, as given."""
    return tuple(path for name in _PATHS if (path := text_at(arguments, name)))


def plan_of(tool: str, arguments: Mapping[str, Any]) -> tuple[tuple[str, str], ...] | None:
    """Return the (text, status) pairs of a to-do list, None for any other call."""
    if tool != "TodoWrite":
        return None
    todos = objects_at(arguments, "todos")
    return tuple((text_at(one, "content"), text_at(one, "status") or "pending") for one in todos)


def child_session(session: str, agent_id: str) -> UpstreamSessionId:
    """Return the id of a sub-agent's session: Claude Code numbers them within their session."""
    return UpstreamSessionId(f"{session}:subagent:{agent_id}")


def role_of(frame_or_arguments: object) -> str:
    """Return the sub-agent's type that a frame or a delegating call names."""
    return text_at(frame_or_arguments, "subagent_type") or ROLE_UNKNOWN


def call_request(
    tool: str, arguments: Mapping[str, Any], *, session: str, call_id: str
) -> PermissionRequest:
    """Return a call that is about to run, as a hook tells it."""
    return _request(
        {"tool_name": tool, "input": arguments, "tool_use_id": call_id}, UpstreamSessionId(session)
    )


# --- whether it may run --------------------------------------------------------------------------


async def decide(
    request: dict[str, Any],
    running: RunningPrompt | None,
    answer_permission: AnswerPermission,
) -> dict[str, Any]:
    """Return the response to one `can_use_tool` request."""
    if running is None:
        return _NOT_ANSWERED
    asked = _request(request, running.session)
    option_id = await permission(asked, running, answer_permission)
    if option_id is None:
        return _NOT_ANSWERED
    if option_id == REJECT:
        return _REJECTED
    return {"behavior": "allow", "updatedInput": request.get("input")}


async def hold(
    told: dict[str, Any], running: RunningPrompt | None, hold_call: HoldCall | None
) -> dict[str, Any]:
    """Return the response to one `hook_callback`: what a PreToolUse hook would print."""
    if running is None or hold_call is None or text_at(told, "hook_event_name") != "PreToolUse":
        return {}
    request = {**told, "input": told.get("tool_input")}
    held = await ask_to_hold(_request(request, running.session), running, hold_call)
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
        options=ALLOW_OR_REJECT,
        tool=tool,
    )
