"""ACP frames and what they say: JSON to messages, `session/update` to events. Pure.

Frames are checked against the small shapes below; a frame or update that does not fit is kept as it
came, never dropped and never an error. Shapes follow ACP schema 1.19.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from upthread.agents._json_lines import Unreadable, as_object, member
from upthread.agents._outcomes import did_run
from upthread.core import events
from upthread.core.events import CALL_FAILED, AgentEvent
from upthread.core.types import UpstreamSessionId, ready

INTERNAL_ERROR: Final = -32603
"""JSON-RPC's code that says nothing certain, and stands for an error without a code."""

SILENT_UPDATES: Final = frozenset(
    {
        *("current_mode_update", "compaction_summary_chunk"),
        *("available_commands_update", "config_option_update"),
    }
)
"""Updates about the agent's interface, and a summary that it writes for itself: no event."""

KINDS_OF_CONTENT: Final = {"diff": "edit", "terminal": "execute"}
"""What a call is that shows this; plain `content` is what it printed."""

KINDS_OF_CLAUDES_TOOLS: Final = {"Bash": "execute"}
"""What claude-agent-acp 0.100.0 says in `_meta` a call is, whatever its kind says."""

Status: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
_Shape = TypeVar("_Shape")


# --- lines and messages ------------------------------------------------------------------------


class Message(Struct, frozen=True, kw_only=True):
    """A JSON-RPC message that can be handed on: a request, a notification or an answer."""

    content: dict[str, Any]
    method: str | None
    is_request: bool


def message_in(content: Any) -> Message | Unreadable:
    """Return the message that a line holds, Unreadable for what is none."""
    frame = as_object(content)
    method, identity = frame.get("method"), frame.get("id")
    is_answer = method is None and ("result" in frame or "error" in frame)
    if not (isinstance(method, str) or is_answer):
        return Unreadable(raw=content)
    # JSON-RPC has null for the id where the request could not be read.
    if "id" in frame and not _is_identity(identity) and not (is_answer and identity is None):
        return Unreadable(raw=frame)
    if is_answer and "error" in frame:
        frame = {**frame, "error": _error(frame["error"])}
    return Message(content=frame, method=method, is_request=method is not None and "id" in frame)


def _is_identity(identity: object) -> bool:
    # To Python `true` is 1, which is the id of a request of ours.
    return isinstance(identity, int | str) and not isinstance(identity, bool)


def _error(error: Any) -> dict[str, Any]:
    """An error object with a whole number as code and text as message, whatever came."""
    # An error that is no error object ends the request it answers all the same (A9).
    given = as_object(error) or {"data": error}
    code = given.get("code")
    return {
        "code": code if isinstance(code, int) else INTERNAL_ERROR,
        "message": str(given.get("message") or ""),
        "data": given.get("data"),
    }


# --- shapes ------------------------------------------------------------------------------------


class _Update(msgspec.Struct, rename="camel", kw_only=True):
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class _Content(msgspec.Struct, rename="camel"):
    type: str
    text: str | None = None


class _Chunk(_Update, kw_only=True):
    content: _Content
    message_id: str | None = None


class _Location(msgspec.Struct):
    path: str


class _ToolContent(msgspec.Struct, rename="camel"):
    type: str
    content: _Content | None = None


class ToolCall(_Update, kw_only=True):
    """`tool_call` and `tool_call_update`; None where the agent said nothing."""

    tool_call_id: str
    title: str | None = None
    kind: str | None = None
    status: Status | None = None
    content: list[_ToolContent] | None = None
    locations: list[_Location] | None = None
    raw_input: Any = None
    raw_output: Any = None


class _PlanEntry(msgspec.Struct):
    content: str
    status: str = "pending"


class _Plan(_Update, kw_only=True):
    entries: list[_PlanEntry]


class _Usage(_Update):
    used: int | None = None
    size: int | None = None


class _SessionInfo(_Update):
    title: str | None = None


class PermissionOption(msgspec.Struct, rename="camel"):
    """One choice the agent offers."""

    option_id: str
    kind: str = ""


class PermissionParams(msgspec.Struct, rename="camel"):
    """The parameters of `session/request_permission`."""

    session_id: str
    tool_call: ToolCall
    options: list[PermissionOption]


class _ListedSession(msgspec.Struct, rename="camel"):
    session_id: str
    cwd: str | None = None
    title: str | None = None
    updated_at: str | None = None


class SessionPage(msgspec.Struct, rename="camel"):
    """One page of `session/list`."""

    sessions: list[_ListedSession]
    next_cursor: str | None = None


class _AgentInfo(msgspec.Struct):
    name: str = ""
    version: str = ""


class _AgentCapabilities(msgspec.Struct, rename="camel"):
    load_session: bool | None = None
    session_capabilities: dict[str, Any] | None = None


class Initialized(msgspec.Struct, rename="camel"):
    """The answer to `initialize`."""

    protocol_version: Any
    agent_capabilities: _AgentCapabilities | None = None
    agent_info: _AgentInfo | None = None

    def can(self, capability: str) -> bool:
        """Whether a session capability was announced; `{}` announces it, null does not."""
        capabilities = self.agent_capabilities
        announced = capabilities.session_capabilities if capabilities else None
        return announced is not None and announced.get(capability) not in (None, False)


def shaped(value: object, shape: type[_Shape]) -> _Shape | None:
    """Return `value` in that shape, None when it does not fit."""
    try:
        return msgspec.convert(value, ready(shape))
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None  # UnicodeEncodeError: a member's name holds a lone surrogate


# --- updates to events -------------------------------------------------------------------------


def events_of(
    kind: str, update: dict[str, Any], *, session: UpstreamSessionId | None
) -> tuple[AgentEvent, ...]:
    """Return what one update says, as events of `session`; unknown kinds as they came."""
    if kind in SILENT_UPDATES:
        return ()
    reader = _READERS.get(kind)
    told = reader(update, session) if reader else None
    if told is None:
        return (events.UnknownReceived(upstream_session_id=session, kind=kind, raw=update),)
    return told


_Events: TypeAlias = "tuple[AgentEvent, ...] | None"


def _text(
    update: object,
    session: UpstreamSessionId | None,
    *,
    of: Callable[..., AgentEvent] = events.TextReceived,
) -> _Events:
    text, message_id = _text_of(update)
    if text is None:
        return None
    return (of(upstream_session_id=session, text=text, message_id=message_id),)


def _user_text(update: object, session: UpstreamSessionId | None) -> _Events:
    return _text(update, session, of=events.UserTextReplayed)


def _reasoning(update: object, session: UpstreamSessionId | None) -> _Events:
    text, _ = _text_of(update)
    if text is None:
        return None
    return (events.ReasoningReceived(upstream_session_id=session, text=text),)


def _text_of(update: object) -> tuple[str | None, str | None]:
    """Text and message id of a chunk; text is None for an image or another thing not said."""
    chunk = shaped(update, _Chunk)
    if chunk is None or chunk.content.type != "text":
        return None, None
    return chunk.content.text, chunk.message_id


def _tool_call(update: object, session: UpstreamSessionId | None) -> _Events:
    call = shaped(update, ToolCall)
    if call is None:
        return None
    announced = events.ToolCallAnnounced(
        upstream_session_id=session,
        call_id=call.tool_call_id,
        title=call.title or "",
        tool_kind=call.kind or "other",
        arguments=call.raw_input,
        locations=locations_of(call) or (),
        implied_kinds=implied_kinds(call),
    )
    text = result_text(call)
    # An announced call is pending; that it is at work, or has said something, is news beside that.
    if call.status in {None, "pending"} and text is None:
        return (announced,)
    more = events.ToolCallUpdated(
        upstream_session_id=session,
        call_id=call.tool_call_id,
        status=call.status,
        text=text,
        did_run=_did_run(call),
    )
    return (announced, more)


def _tool_call_update(update: object, session: UpstreamSessionId | None) -> _Events:
    call = shaped(update, ToolCall)
    if call is None:
        return None
    changed = events.ToolCallUpdated(
        upstream_session_id=session,
        call_id=call.tool_call_id,
        status=call.status,
        title=call.title,
        tool_kind=call.kind,
        arguments=call.raw_input,
        locations=locations_of(call),
        implied_kinds=implied_kinds(call),
        text=result_text(call),
        did_run=_did_run(call),
    )
    return (changed,)


def _did_run(call: ToolCall) -> bool:
    return call.status == CALL_FAILED and did_run(member(call.raw_output, "exitCode"))


def locations_of(call: ToolCall) -> tuple[str, ...] | None:
    """Return the paths of a call as given, None when it gave no list."""
    return None if call.locations is None else tuple(place.path for place in call.locations)


def implied_kinds(call: ToolCall) -> tuple[str, ...]:
    """Return what a call's content shows it to be, whatever kind it says it is."""
    types = {part.type for part in call.content or ()}
    shown = tuple(kind for shown, kind in KINDS_OF_CONTENT.items() if shown in types)
    tool = member(call.meta, "claudeCode", "toolName")
    named = KINDS_OF_CLAUDES_TOOLS.get(tool) if isinstance(tool, str) else None
    return (*shown, named) if named else shown


def result_text(call: ToolCall) -> str | None:
    """Return what a call printed: its text content, else its raw output; None without either."""
    said = [
        part.content.text
        for part in call.content or ()
        if part.content is not None and part.content.text is not None
    ]
    if said:
        return "\n".join(said)
    return _output_text(call.raw_output)


def _output_text(output: Any) -> str | None:
    if output is None or isinstance(output, str):
        return output
    inner = member(output, "output")
    return inner if isinstance(inner, str) else json.dumps(output, ensure_ascii=False)


def _plan(update: object, session: UpstreamSessionId | None) -> _Events:
    plan = shaped(update, _Plan)
    if plan is None:
        return None
    entries = tuple((entry.content, entry.status) for entry in plan.entries)
    return (events.PlanChanged(upstream_session_id=session, entries=entries),)


def _usage(update: object, session: UpstreamSessionId | None) -> _Events:
    usage = shaped(update, _Usage)
    if usage is None:
        return None
    reported = events.UsageReported(
        upstream_session_id=session, tokens_used=usage.used, tokens_window=usage.size
    )
    return (reported,)


def _compaction(update: object, session: UpstreamSessionId | None) -> _Events:
    compacted = events.ContextCompacted(upstream_session_id=session)
    return (compacted,) if member(update, "status") == "completed" else ()


def _session_info(update: object, session: UpstreamSessionId | None) -> _Events:
    told = shaped(update, _SessionInfo)
    if told is None:
        return None
    return (
        (events.TitleChanged(upstream_session_id=session, title=told.title),) if told.title else ()
    )


_READERS: Final = {
    "agent_message_chunk": _text,
    "user_message_chunk": _user_text,
    "agent_thought_chunk": _reasoning,
    "tool_call": _tool_call,
    "tool_call_update": _tool_call_update,
    "plan": _plan,
    "usage_update": _usage,
    "compaction_update": _compaction,
    "session_info_update": _session_info,
}
