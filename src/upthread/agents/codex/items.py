"""What Codex's thread items say, as events. Pure and without memory.

An item is a message, a piece of reasoning or a call, told when it starts and again, whole, when it
is completed. Shapes are those of the server's own description (`codex app-server generate-ts`,
0.169.0), read member by member: what is missing is left out and what is new is kept raw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from upthread.agents._json_lines import member, objects_at, text_at, texts_at, unknown
from upthread.agents._outcomes import did_run
from upthread.core import events
from upthread.core.events import AgentEvent
from upthread.core.quotas import TITLE_CHARACTERS_MAX
from upthread.core.text import one_line
from upthread.core.types import JsonValue, UpstreamSessionId

_Item: TypeAlias = Mapping[str, Any]

CALL: Final = "collabAgentToolCall"
ACTIVITY: Final = "subAgentActivity"
GIVES_WORK: Final = frozenset({"spawnAgent", "sendInput", "resumeAgent", "followupTask"})

SILENT_ITEMS: Final = frozenset({ACTIVITY, "hookPrompt", "enteredReviewMode", "exitedReviewMode"})
"""Items about Codex's own bookkeeping, not about the conversation: no event."""

KINDS: Final[Mapping[str, str]] = {
    "commandExecution": "execute",
    "fileChange": "edit",
    "mcpToolCall": "other",
    "dynamicToolCall": "other",
    # It reaches out of the machine; ACP's `search` is one in files.
    "webSearch": "fetch",
    "imageView": "read",
    "imageGeneration": "other",
    "sleep": "other",
    # What a sub-agent does is announced as its own calls.
    CALL: "think",
}
"""ACP's kind of each item that is a call."""

_ACTIONS: Final[Mapping[str, str]] = {"read": "read", "listFiles": "search", "search": "search"}
"""ACP's kind of a command all of whose parts Codex recognised as one of these."""

_STATUSES: Final[Mapping[str, str]] = {
    "inProgress": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "declined": "failed",
    "interrupted": "failed",
}
_PLAN: Final[Mapping[str, str]] = {"inProgress": "in_progress"}


def children_named(item: Mapping[str, Any]) -> tuple[UpstreamSessionId, ...]:
    """Return the threads that an item gives work to, none for any other item."""
    if item.get("type") == ACTIVITY and item.get("kind") == "started":
        named = text_at(item, "agentThreadId")
        return (UpstreamSessionId(named),) if named else ()
    if item.get("type") != CALL or text_at(item, "tool") not in GIVES_WORK:
        return ()
    return tuple(UpstreamSessionId(each) for each in texts_at(item, "receiverThreadIds"))


def is_call(item: _Item) -> bool:
    """Whether an item is a tool's call."""
    return text_at(item, "type") in KINDS


def announced(item: _Item, session: UpstreamSessionId) -> events.ToolCallAnnounced:
    """Return the call an item is about, with what is known of it by now."""
    return events.ToolCallAnnounced(
        upstream_session_id=session,
        call_id=text_at(item, "id"),
        title=_title(item),
        tool_kind=_kind(item),
        arguments=_arguments(item),
        locations=_locations(item),
    )


def updated(item: _Item, session: UpstreamSessionId) -> events.ToolCallUpdated:
    """Return how a call stands. An item without a status that is told as completed is."""
    children = children_named(item)
    return events.ToolCallUpdated(
        upstream_session_id=session,
        call_id=text_at(item, "id"),
        status=_STATUSES.get(text_at(item, "status"), "completed"),
        locations=_locations(item) or None,
        text=_result(item),
        # Not for `declined`, which is told as failed too: what was refused did not run (ADR 85).
        did_run=text_at(item, "status") == "failed" and did_run(item.get("exitCode")),
        child_upstream_session_id=children[0] if children else None,
    )


def _title(item: _Item) -> str:
    told = {
        "commandExecution": text_at(item, "command"),
        "fileChange": " ".join(["edit", *_locations(item)]),
        "mcpToolCall": f"{text_at(item, 'server')}/{text_at(item, 'tool')}",
        "dynamicToolCall": text_at(item, "tool"),
        "webSearch": f"search {text_at(item, 'query')}",
        "imageView": f"view {text_at(item, 'path')}",
        CALL: text_at(item, "tool"),
    }
    kind = text_at(item, "type")
    return one_line(told.get(kind, kind).strip())[:TITLE_CHARACTERS_MAX]


def _kind(item: _Item) -> str:
    done = {_ACTIONS.get(text_at(each, "type")) for each in objects_at(item, "commandActions")}
    # One part that does anything else makes a command of the whole.
    found = done.pop() if len(done) == 1 else None
    return found or KINDS[text_at(item, "type")]


def _arguments(item: _Item) -> JsonValue:
    kept: dict[str, JsonValue] = {}
    for name in _ARGUMENTS.get(text_at(item, "type"), ()):
        value: Any = item.get(name)
        if value not in (None, "", []):
            kept[name] = value
    return kept or None


_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "commandExecution": ("command", "cwd"),
    "fileChange": ("changes",),
    "mcpToolCall": ("server", "tool", "arguments"),
    "dynamicToolCall": ("namespace", "tool", "arguments"),
    "webSearch": ("query", "action"),
    "imageView": ("path",),
    CALL: ("tool", "prompt", "receiverThreadIds", "model"),
}


def _locations(item: _Item) -> tuple[str, ...]:
    named = [text_at(change, "path") for change in objects_at(item, "changes")]
    if item.get("type") == "imageView":
        named.append(text_at(item, "path"))
    return tuple(path for path in named if path)


def _result(item: _Item) -> str | None:
    """Return what a call gave: a command's output, a tool's text, its error, None for none."""
    output = item.get("aggregatedOutput")
    if isinstance(output, str):
        return output
    parts = [*objects_at(item, "result", "content"), *objects_at(item, "contentItems")]
    texts = [text for part in parts if (text := text_at(part, "text"))]
    return "\n".join(texts) or text_at(item, "error", "message") or None


# --- what is said ------------------------------------------------------------------------------


def spoken(item: _Item) -> str:
    """Return the whole text of a message or a piece of reasoning, "" for any other item."""
    if item.get("type") == "reasoning":
        return "\n\n".join(texts_at(item, "summary") or texts_at(item, "content"))
    return text_at(item, "text") if text_at(item, "type") in {"agentMessage", "plan"} else ""


def said(item: _Item, session: UpstreamSessionId, text: str) -> tuple[AgentEvent, ...]:
    """Return a piece of what an item says, nothing for no text."""
    if not text:
        return ()
    if item.get("type") == "reasoning":
        return (events.ReasoningReceived(upstream_session_id=session, text=text),)
    message_id = text_at(item, "id") or None
    return (events.TextReceived(upstream_session_id=session, text=text, message_id=message_id),)


def user_text(item: _Item, session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    """Return what the user said."""
    text = "\n".join(
        part for each in objects_at(item, "content") if (part := text_at(each, "text"))
    )
    message_id = text_at(item, "id") or None
    return (events.UserTextReplayed(upstream_session_id=session, text=text, message_id=message_id),)


# --- the rest ----------------------------------------------------------------------------------


def plan(told: _Item, session: UpstreamSessionId) -> events.PlanChanged:
    """Return the plan of a `turn/plan/updated`."""
    entries = tuple(
        (text_at(step, "step"), _PLAN.get(text_at(step, "status"), text_at(step, "status")))
        for step in objects_at(told, "plan")
    )
    return events.PlanChanged(upstream_session_id=session, entries=entries)


def usage(told: _Item, session: UpstreamSessionId) -> events.UsageReported | None:
    """Return what a model's answer took and the thread then holds, None while that is not known.

    Codex tells of a cache's tokens among those that were read, and of reasoning among the written.
    """
    total = member(told, "tokenUsage", "last", "totalTokens")
    window = member(told, "tokenUsage", "modelContextWindow")
    if not isinstance(total, int) or total <= 0:
        return None
    known_window = window if isinstance(window, int) and window > 0 else None
    read = member(told, "tokenUsage", "last", "inputTokens")
    written = member(told, "tokenUsage", "last", "outputTokens")
    cached = member(told, "tokenUsage", "last", "cachedInputTokens")
    return events.UsageReported(
        upstream_session_id=session,
        tokens_used=total,
        tokens_window=known_window,
        tokens_read=read if isinstance(read, int) else None,
        tokens_written=written if isinstance(written, int) else None,
        tokens_cached=cached if isinstance(cached, int) else None,
    )


def history_of(item: _Item, session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    """Return what one stored item says, whole (A5)."""
    kind = text_at(item, "type")
    reader = _STORED.get(kind)
    if reader is not None:
        return reader(item, session)
    if is_call(item):
        return announced(item, session), updated(item, session)
    return () if kind in SILENT_ITEMS else (unknown(f"item/{kind}", dict(item), session),)


def _said_whole(item: _Item, session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    return said(item, session, spoken(item))


def compacted(_item: _Item, session: UpstreamSessionId) -> tuple[AgentEvent, ...]:
    """Return that a thread now holds a summary."""
    return (events.ContextCompacted(upstream_session_id=session),)


_STORED: Final[Mapping[str, Callable[[_Item, UpstreamSessionId], tuple[AgentEvent, ...]]]] = {
    "userMessage": user_text,
    "agentMessage": _said_whole,
    "plan": _said_whole,
    "reasoning": _said_whole,
    "contextCompaction": compacted,
}
