"""What OpenCode's messages and parts say, as events. Pure and without memory.

A part comes whole each time it changes; text also comes in deltas. Shapes are those of the
server's own description (`GET /doc`, 1.18.33), read member by member: what is missing is left out
and what is new is kept raw, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from upthread.agents._json_lines import as_object, member, objects_at, text_at, unknown
from upthread.core import events
from upthread.core.events import AgentEvent
from upthread.core.quotas import TITLE_CHARACTERS_MAX
from upthread.core.text import one_line
from upthread.core.types import UpstreamSessionId

SILENT_PARTS: Final = frozenset({"step-start", "step-finish", "snapshot", "patch", "agent"})
"""Parts about OpenCode's own bookkeeping, not about the conversation: no event."""

_READ: Final = (("input",), ("cache", "read"), ("cache", "write"))
"""The tokens that a message's request read; `input` has none that a cache held."""

TOOL_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("read",), "read"),
    **dict.fromkeys(("edit", "write", "multiedit", "patch", "apply_patch"), "edit"),
    **dict.fromkeys(("bash",), "execute"),
    **dict.fromkeys(("grep", "glob", "list", "ls", "codesearch"), "search"),
    **dict.fromkeys(("webfetch", "websearch"), "fetch"),
    **dict.fromkeys(("question", "skill", "task", "todoread", "todowrite"), "think"),
}
"""ACP's kind of each built-in tool and permission; what is not here is `other`."""

STATUSES: Final[Mapping[str, str]] = {
    "pending": "pending",
    "running": "in_progress",
    "completed": "completed",
    "error": "failed",
}
# The second form is an older OpenCode's.
_TASK_TEXT: Final = re.compile(
    r'\A<task id="(?P<id>ses_\w+)"(?:[^>]*state="(?P<state>\w+)")?|task_id: (?P<older>ses_\w+)'
)


def tool_kind(tool: str) -> str:
    """Return ACP's kind of a tool or a permission by OpenCode's name."""
    return TOOL_KINDS.get(tool, "other")


def announced(part: Mapping[str, Any], session: UpstreamSessionId) -> events.ToolCallAnnounced:
    """Return the call a tool part is about, with what is known of it by now."""
    tool = text_at(part, "tool")
    return events.ToolCallAnnounced(
        upstream_session_id=session,
        call_id=text_at(part, "callID"),
        title=_title(part) or tool,
        tool_kind=tool_kind(tool),
        # Empty while it is pending (1.18.33): that says nothing yet.
        arguments=member(part, "state", "input") or None,  # type: ignore[arg-type]  # JSON, as read
        locations=_locations(part),
    )


def updated(
    part: Mapping[str, Any],
    session: UpstreamSessionId,
    *,
    child: UpstreamSessionId | None = None,
) -> events.ToolCallUpdated:
    """Return how a tool part's call stands. `child` is the session it gave its work to."""
    return events.ToolCallUpdated(
        upstream_session_id=session,
        call_id=text_at(part, "callID"),
        status=STATUSES.get(text_at(part, "state", "status")),
        title=_title(part) or None,
        arguments=member(part, "state", "input") or None,  # type: ignore[arg-type]  # JSON, as read
        locations=_locations(part) or None,
        text=_printed(part),
        child_upstream_session_id=child,
    )


def _title(part: Mapping[str, Any]) -> str:
    """Return what a call is named by, the same while it runs and at its end.

    OpenCode's own title comes at the end.
    """
    path = text_at(part, "state", "input", "filePath")
    named = f"{text_at(part, 'tool')} {path}" if path else text_at(part, "state", "title")
    return one_line(text_at(part, "state", "input", "command") or named)[:TITLE_CHARACTERS_MAX]


def _locations(part: Mapping[str, Any]) -> tuple[str, ...]:
    path = text_at(part, "state", "input", "filePath")
    return (path,) if path else ()


def _printed(part: Mapping[str, Any]) -> str | None:
    """Return what a call printed: its output, else its error, else its output so far."""
    for path in (("output",), ("error",), ("metadata", "output")):
        found = member(part, "state", *path)
        if isinstance(found, str):
            return found
    return None


def child_named(part: Mapping[str, Any]) -> UpstreamSessionId | None:
    """Return the session a `task` call gave its work to, None for another call or none yet."""
    if text_at(part, "tool") != "task":
        return None
    named = text_at(part, "state", "metadata", "sessionId")
    if named:
        return UpstreamSessionId(named)
    found = _TASK_TEXT.search(text_at(part, "state", "output"))
    return UpstreamSessionId(found["id"] or found["older"]) if found else None


def goes_on_in_background(part: Mapping[str, Any]) -> bool:
    """Whether a `task` call ended and the child it started did not."""
    found = _TASK_TEXT.search(text_at(part, "state", "output"))
    return found is not None and found["state"] == "running"


def end_of_background(part: Mapping[str, Any]) -> tuple[UpstreamSessionId, bool] | None:
    """Return the child that OpenCode says has ended in the background, and whether it went well.

    It tells so where a user would speak; None for what a user says.
    """
    if part.get("synthetic") is not True:
        return None
    # At the very beginning alone: further on the same words may be quoted.
    found = _TASK_TEXT.match(text_at(part, "text"))
    if found is None or not found["id"] or found["state"] not in {"completed", "error"}:
        return None
    return UpstreamSessionId(found["id"]), found["state"] == "completed"


def said(
    part: Mapping[str, Any], session: UpstreamSessionId, text: str, *, message_id: str
) -> AgentEvent:
    """Return a piece of the agent's text or reasoning."""
    if part.get("type") == "reasoning":
        return events.ReasoningReceived(upstream_session_id=session, text=text)
    return events.TextReceived(
        upstream_session_id=session, text=text, message_id=message_id or None
    )


def user_text(part: Mapping[str, Any], session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    """Return what the user said; what OpenCode wrote in the user's place is not said by one."""
    if part.get("type") != "text" or part.get("synthetic") is True:
        return ()
    message_id = text_at(part, "messageID") or None
    text = text_at(part, "text")
    return (events.UserTextReplayed(upstream_session_id=session, text=text, message_id=message_id),)


def usage(
    message: Mapping[str, Any], session: UpstreamSessionId, *, window: int | None
) -> events.UsageReported | None:
    """Return what a message's request took and the session then holds, None while not known.

    A message is one request to the model (1.18.33).
    """
    total = member(message, "tokens", "total")
    if not isinstance(total, int | float) or total <= 0:
        return None
    figures = [member(message, "tokens", *name) for name in _READ]
    read = int(sum(each for each in figures if isinstance(each, int | float)))
    cached, cache_written = (
        int(each) if isinstance(each, int | float) else None for each in figures[1:]
    )
    return events.UsageReported(
        upstream_session_id=session,
        tokens_used=int(total),
        tokens_window=window,
        tokens_read=read,
        tokens_written=max(0, int(total) - read),
        tokens_cached=cached,
        tokens_cache_written=cache_written,
    )


def plan(todos: object, session: UpstreamSessionId) -> events.PlanChanged:
    """Return the to-do list of a `todo.updated`."""
    entries = objects_at(todos, "todos")
    return events.PlanChanged(
        upstream_session_id=session,
        entries=tuple((text_at(one, "content"), text_at(one, "status")) for one in entries),
    )


def history(messages: object, session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    """Return a session's stored messages as events, in order (A5)."""
    stored = objects_at({"messages": messages}, "messages")
    return tuple(event for message in stored for event in _events_of(message, session))


def _events_of(message: Mapping[str, Any], session: UpstreamSessionId) -> list[AgentEvent]:
    is_summary = member(message, "info", "summary") is True
    reply_part = summary if is_summary else _reply_part
    reader = user_text if text_at(message, "info", "role") == "user" else reply_part
    found = [event for part in objects_at(message, "parts") for event in reader(part, session)]
    if found and is_summary:
        # OpenCode streams this event after the summary, and stores none.
        found.append(events.ContextCompacted(upstream_session_id=session))
    return found


def summary(part: Mapping[str, Any], session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    """Return the summary of a compaction once it is whole: it is no reply of the agent."""
    is_whole = member(part, "time", "end") is not None
    if part.get("type") != "text" or not is_whole:
        return ()
    return (unknown("compaction_summary", dict(part), session),)


def _reply_part(part: Mapping[str, Any], session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    kind = text_at(part, "type")
    if kind in {"text", "reasoning"}:
        text = text_at(part, "text")
        return (said(part, session, text, message_id=text_at(part, "messageID")),) if text else ()
    if kind == "tool":
        return announced(part, session), updated(part, session, child=child_named(part))
    return () if kind in SILENT_PARTS else (unknown(kind, dict(part), session),)


def window_of(providers: object, message: Mapping[str, Any]) -> int | None:
    """Return the size of the window of a message's model, from `GET /config/providers`."""
    for provider in objects_at(providers, "providers"):
        if provider.get("id") == message.get("providerID"):
            model = as_object(member(provider, "models", text_at(message, "modelID")))
            size = member(model, "limit", "context")
            return size if isinstance(size, int) and size > 0 else None
    return None
