"""What Codex's thread items say, as events, and what its failures mean. Pure and without memory.

An item is a message, a piece of reasoning or a call, told when it starts and again, whole, when it
is completed. Shapes are those of the server's own description (`codex app-server generate-ts`,
0.169.0), read member by member: what is missing is left out and what is new is kept raw.
"""

import re
from typing import Any

from upthread.agent_stores.base import text_of_blocks
from upthread.agents._json_lines import unknown
from upthread.agents._outcomes import (
    did_run,
    ended_with,
    outcome_of_status,
    says_no_credit,
    says_no_credit_of_limit,
    says_unpaired_call,
)
from upthread.agents.base import PromptResult
from upthread.core import events
from upthread.core.codec import AnyJson, member, number_at, object_at, objects_at, text_at, texts_at
from upthread.core.events import Events
from upthread.core.names import rows_by_name
from upthread.core.quotas import TITLE_CHARACTERS_MAX
from upthread.core.text import one_line
from upthread.core.types import JsonValue, Outcome, UpstreamSessionId

CALL = "collabAgentToolCall"
ACTIVITY = "subAgentActivity"
GIVES_WORK = frozenset({"spawnAgent", "sendInput", "resumeAgent", "followupTask"})

SILENT_ITEMS = frozenset({ACTIVITY, "hookPrompt", "enteredReviewMode", "exitedReviewMode"})
"""Items about Codex's own bookkeeping, not about the conversation: no event."""

KINDS = rows_by_name(
    ("commandExecution", "execute"),
    ("fileChange", "edit"),
    # It reaches out of the machine; ACP's `search` is one in files.
    ("webSearch", "fetch"),
    ("imageView", "read"),
    ("mcpToolCall dynamicToolCall imageGeneration sleep", "other"),
    # What a sub-agent does is announced as its own calls.
    (CALL, "think"),
)
"""ACP's kind of each item that is a call."""

_ACTIONS = {"read": "read", "listFiles": "search", "search": "search"}
"""ACP's kind of a command all of whose parts Codex recognised as one of these."""

_STATUSES = {
    "inProgress": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "declined": "failed",
    "interrupted": "failed",
}
_PLAN = {"inProgress": "in_progress"}


def children_named(item: AnyJson) -> tuple[UpstreamSessionId, ...]:
    """Return the threads that an item gives work to, none for any other item."""
    if item.get("type") == ACTIVITY and item.get("kind") == "started":
        named = text_at(item, "agentThreadId")
        return (UpstreamSessionId(named),) if named else ()
    if item.get("type") != CALL or text_at(item, "tool") not in GIVES_WORK:
        return ()
    return tuple(UpstreamSessionId(each) for each in texts_at(item, "receiverThreadIds"))


def is_call(item: AnyJson) -> bool:
    """Whether an item is a tool's call."""
    return text_at(item, "type") in KINDS


def announced(item: AnyJson) -> events.ToolCallAnnounced:
    """Return the call an item is about, with what is known of it by now."""
    return events.ToolCallAnnounced(
        call_id=text_at(item, "id"),
        title=_title(item),
        tool_kind=_kind(item),
        arguments=_arguments(item),
        locations=_locations(item),
    )


def updated(item: AnyJson) -> events.ToolCallUpdated:
    """Return how a call stands. An item without a status that is told as completed is."""
    children = children_named(item)
    return events.ToolCallUpdated(
        call_id=text_at(item, "id"),
        status=_STATUSES.get(text_at(item, "status"), "completed"),
        locations=_locations(item) or None,
        text=_result(item),
        # Not for `declined`, which is told as failed too: what was refused did not run (ADR 88).
        did_run=text_at(item, "status") == "failed" and did_run(item.get("exitCode")),
        child_upstream_session_id=children[0] if children else None,
    )


def _title(item: AnyJson) -> str:
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


def _kind(item: AnyJson) -> str:
    done = {_ACTIONS.get(text_at(each, "type")) for each in objects_at(item, "commandActions")}
    # One part that does anything else makes a command of the whole.
    found = done.pop() if len(done) == 1 else None
    return found or KINDS[text_at(item, "type")]


def _arguments(item: AnyJson) -> JsonValue:
    kept: dict[str, JsonValue] = {}
    for name in _ARGUMENTS.get(text_at(item, "type"), ()):
        value: Any = item.get(name)
        if value not in (None, "", []):
            kept[name] = value
    return kept or None


_ARGUMENTS = {
    "commandExecution": ("command", "cwd"),
    "fileChange": ("changes",),
    "mcpToolCall": ("server", "tool", "arguments"),
    "dynamicToolCall": ("namespace", "tool", "arguments"),
    "webSearch": ("query", "action"),
    "imageView": ("path",),
    CALL: ("tool", "prompt", "receiverThreadIds", "model"),
}


def _locations(item: AnyJson) -> tuple[str, ...]:
    named = [text_at(change, "path") for change in objects_at(item, "changes")]
    if item.get("type") == "imageView":
        named.append(text_at(item, "path"))
    return tuple(path for path in named if path)


def _result(item: AnyJson) -> str | None:
    """Return what a call gave: a command's output, a tool's text, its error, None for none."""
    output = item.get("aggregatedOutput")
    if isinstance(output, str):
        return output
    parts = [*objects_at(item, "result", "content"), *objects_at(item, "contentItems")]
    return text_of_blocks(parts) or text_at(item, "error", "message") or None


# --- what is said ------------------------------------------------------------------------------


def spoken(item: AnyJson) -> str:
    """Return the whole text of a message or a piece of reasoning, "" for any other item."""
    if item.get("type") == "reasoning":
        return "\n\n".join(texts_at(item, "summary") or texts_at(item, "content"))
    return text_at(item, "text") if text_at(item, "type") in {"agentMessage", "plan"} else ""


def said(item: AnyJson, text: str) -> Events:
    """Return a piece of what an item says, nothing for no text."""
    if not text:
        return ()
    if item.get("type") == "reasoning":
        return (events.ReasoningReceived(text=text),)
    message_id = text_at(item, "id") or None
    return (events.TextReceived(text=text, message_id=message_id),)


def user_text(item: AnyJson) -> Events:
    """Return what the user said."""
    text, message_id = text_of_blocks(item.get("content")), text_at(item, "id") or None
    return (events.UserTextReplayed(text=text, message_id=message_id),)


# --- the rest ----------------------------------------------------------------------------------


def plan(told: AnyJson) -> events.PlanChanged:
    """Return the plan of a `turn/plan/updated`."""
    entries = tuple(
        (text_at(step, "step"), _PLAN.get(text_at(step, "status"), text_at(step, "status")))
        for step in objects_at(told, "plan")
    )
    return events.PlanChanged(entries=entries)


def usage(told: AnyJson) -> events.UsageReported | None:
    """Return what a model's answer took and the thread then holds, None while that is not known.

    Codex tells of a cache's tokens among those that were read, and of reasoning among the written.
    """
    last = member(told, "tokenUsage", "last")
    total = number_at(last, "totalTokens")
    # A thread that was too long is told of as one that fills its window: no request read that.
    if not total or number_at(last, "inputTokens") == 0:
        return None
    return events.UsageReported(
        tokens_used=total,
        tokens_window=number_at(told, "tokenUsage", "modelContextWindow") or None,
        tokens_read=number_at(last, "inputTokens"),
        tokens_written=number_at(last, "outputTokens"),
        tokens_cached=number_at(last, "cachedInputTokens"),
    )


def history_of(item: AnyJson) -> Events:
    """Return what one stored item says, whole (A5)."""
    kind = text_at(item, "type")
    reader = _STORED.get(kind)
    if reader is not None:
        return reader(item)
    if is_call(item):
        return announced(item), updated(item)
    return () if kind in SILENT_ITEMS else (unknown(f"item/{kind}", dict(item)),)


def _said_whole(item: AnyJson) -> Events:
    return said(item, spoken(item))


def compacted(_item: AnyJson) -> Events:
    """Return that a thread now holds a summary."""
    return (events.ContextCompacted(),)


_STORED = {
    "userMessage": user_text,
    "agentMessage": _said_whole,
    "plan": _said_whole,
    "reasoning": _said_whole,
    "contextCompaction": compacted,
}


# --- what Codex's failures mean -------------------------------------------------------------------

# A turn that failed names its kind (`codexErrorInfo`), some kinds with the provider's status; words
# only refine what these say. A request that was refused has words only, and they are about it.


FULL_PERCENT = 100

_OF_KIND = rows_by_name(
    ("contextWindowExceeded", Outcome.CONTEXT_FULL),
    ("usageLimitExceeded rateLimitExceeded", Outcome.RATE_LIMITED),
    # What a person or their organisation allowed a session to cost: no waiting fills it again.
    ("sessionBudgetExceeded", Outcome.CREDIT_EXHAUSTED),
    ("unauthorized", Outcome.AUTH),
    ("serverOverloaded internalServerError flexUnavailable", Outcome.TRANSIENT),
    ("policyCapacityUnavailable responseStreamDisconnected", Outcome.TRANSIENT),
    ("responseStreamConnectionFailed httpConnectionFailed", Outcome.TRANSIENT),
    ("responseTooManyFailedAttempts", Outcome.TRANSIENT),
)
_REFUSED_BY_PROVIDER = "other"
"""The kind of what the provider says of a request with status 400 (codex 0.169)."""

# By words, since codes say less: an unknown thread and one in use are both -32600 (0.169.0).
_OF_REFUSAL = (
    (re.compile(r"no rollout found for thread id|thread not (found|loaded)"), Outcome.MISSING),
    (re.compile(r"invalid session id"), Outcome.MISSING),
    (re.compile(r"already has an active writer"), Outcome.BUSY),
    (re.compile(r"failed to read session metadata|invalid paginated history"), Outcome.CORRUPTED),
)


def failure_of_turn(error: object, *, reset_at_ms: int | None = None) -> PromptResult:
    """Say what the `error` of a turn means. `reset_at_ms` is what was said of a limit's end."""
    told = " ".join(filter(None, (text_at(error, "message"), text_at(error, "additionalDetails"))))
    kind, status = _kind_and_status(member(error, "codexErrorInfo"))
    # The status first: one kind stands for many of them (`httpConnectionFailed`, 0.169.0).
    outcome = _of_status(status) or _OF_KIND.get(kind, Outcome.UNKNOWN)
    refused = 400 if kind == _REFUSED_BY_PROVIDER else status
    is_limit_of_credit = outcome is Outcome.RATE_LIMITED and says_no_credit_of_limit(told)
    if is_limit_of_credit or says_no_credit(refused, told):
        outcome = Outcome.CREDIT_EXHAUSTED
    elif says_unpaired_call(refused, told, is_all_it_says=True):
        outcome = Outcome.CORRUPTED
    named = ", ".join(filter(None, (kind, f"HTTP {status}" if status else "")))
    detail = f"{told or 'no reason given'} ({named or 'an error without a kind'})"
    return ended_with(outcome, detail, reset_at_ms=reset_at_ms)


def _kind_and_status(info: object) -> tuple[str, int | None]:
    """A kind is a word, or the one member of an object that holds the provider's status."""
    if isinstance(info, str):
        return info, None
    for kind, details in object_at(info).items():
        return kind, number_at(details, "httpStatusCode")
    return "", None


def _of_status(status: int | None) -> Outcome | None:
    if status is None:
        return None
    return outcome_of_status(status) or Outcome.UNKNOWN


def outcome_of_refusal(said: str) -> Outcome:
    """Say what the words of a refused request mean."""
    meant = (outcome for words, outcome in _OF_REFUSAL if words.search(said))
    return next(meant, Outcome.UNKNOWN)


def end_of_limit_ms(limits: object) -> int | None:
    """Return when the last of a subscription's used-up windows begins anew, None where none is.

    Codex gives the time in seconds.
    """
    ends: list[int] = []
    for window in (member(limits, "primary"), member(limits, "secondary")):
        used, resets_at = member(window, "usedPercent"), member(window, "resetsAt")
        if isinstance(used, int | float) and isinstance(resets_at, int) and used >= FULL_PERCENT:
            ends.append(resets_at * 1000)
    return max(ends, default=None)
