"""Claude Code's tools: what a call is in ACP's words.

Names are those of Claude Code 2.1; an unknown tool, an MCP server's for one, is of kind `other`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from upthread.agents._json_lines import objects_at, text_at
from upthread.agents.base import ALLOW_OR_REJECT, PermissionRequest
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


def request_of(request: dict[str, Any], session: UpstreamSessionId) -> PermissionRequest:
    """Return a call that waits for its permission, or is about to run, as Claude Code names it."""
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
