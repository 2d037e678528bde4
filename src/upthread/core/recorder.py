"""The recorder: agent events in, writes out, each event to the conversation it belongs to.

Events are routed by the upstream session they carry, never by who happens to be streaming. One
without an id is attributed only where the adapter guarantees its owner; else it is quarantined and
never given to the parent. A child becomes a conversation of its own when it starts. A message
alternates between the assistant and the tools, as the providers have it: text and calls, then the
results, then text again.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from upthread.core.commands import (
    OpenConversation,
    OpenLink,
    RecordParts,
    RecordQuarantine,
    Write,
)
from upthread.core.events import (
    AgentEvent,
    ChildEnded,
    ChildStarted,
    PermissionAnswered,
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    TitleChanged,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.types import (
    CHILD_SLOT,
    Conversation,
    ConversationId,
    ConversationKey,
    Durability,
    JsonValue,
    Link,
    Part,
    ReasoningPart,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
    UpstreamSessionId,
)

TEXT_CHARACTERS_BUFFERED_MAX = 64 * 1024
"""A longer run of text is recorded in pieces; readers see it joined."""

CHILDREN_MAX = 256
INTERRUPTED = "interrupted; outcome unknown"


@dataclass(slots=True, kw_only=True)
class _OpenCall:
    """A call between its announcement and its result."""

    part: ToolCallPart
    text: str = ""
    is_recorded: bool = False
    child: ConversationId | None = None


@dataclass(slots=True, kw_only=True)
class _Stream:
    """Where recording stands in one conversation."""

    conversation_id: ConversationId
    upstream_session_id: UpstreamSessionId
    seq: int
    ordinal: int = 0
    speaker: Speaker | None = None
    text: list[str] = field(default_factory=list[str])
    text_is_reasoning: bool = False
    text_characters: int = 0
    calls: dict[str, _OpenCall] = field(default_factory=dict[str, _OpenCall])
    reply: list[str] = field(default_factory=list[str])


class Recorder:
    """Records one turn. Feed it with `record`, take the writes with `drain`, end with `finish`.

    `next_seq` is the message the reply starts at. `guarantees_owner` says that an event without an
    id can only be the turn's own session's.
    """

    def __init__(
        self,
        *,
        conversation: Conversation,
        turn_id: TurnId,
        link: Link,
        next_seq: int,
        guarantees_owner: bool = False,
        call_durability: Durability = Durability.PROCESS,
    ) -> None:
        self._parent = conversation
        self._turn_id = turn_id
        self._link = link
        self._guarantees_owner = guarantees_owner
        self._call_durability = call_durability
        own = _Stream(
            conversation_id=conversation.conversation_id,
            upstream_session_id=link.upstream_session_id,
            seq=next_seq,
        )
        self._own = own
        self._streams: dict[UpstreamSessionId, _Stream] = {link.upstream_session_id: own}
        self._writes: list[Write] = []
        self._quarantined = 0
        self._now_ms = 0
        self.tokens_used: int | None = None
        self.title = ""

    @property
    def reply(self) -> str:
        """The text of the turn's own session so far, children's left out."""
        return "".join(self._own.reply)

    @property
    def quarantined(self) -> int:
        """How many events had no owner."""
        return self._quarantined

    def record(self, event: AgentEvent, *, at_ms: int) -> None:
        """Take one event. Only complete parts are ready to drain."""
        self._now_ms = at_ms
        stream = self._stream_of(event)
        if stream is None:
            self._quarantine(event)
            return
        match event:
            case TextReceived(text=text):
                self._say(stream, text, is_reasoning=False)
            case ReasoningReceived(text=text):
                self._say(stream, text, is_reasoning=True)
            case ToolCallAnnounced():
                self._announce(stream, event)
            case ToolCallUpdated():
                self._update(stream, event)
            case ChildStarted():
                self._start_child(stream, event)
            case _:
                self._note(stream, event)

    def drain(self) -> tuple[Write, ...]:
        """Return what is ready to be written, in order, once."""
        writes = tuple(self._writes)
        self._writes.clear()
        return writes

    def flush(self) -> tuple[Write, ...]:
        """Return also the text that is still running, as a part of its own."""
        for stream in self._streams.values():
            self._close_text(stream)
        return self.drain()

    def finish(self, *, at_ms: int) -> tuple[Write, ...]:
        """Close what is open: a call without a result gets an unknown one. Returns all writes."""
        self._now_ms = at_ms
        for stream in self._streams.values():
            self._close_text(stream)
            for call_id in tuple(stream.calls):
                self._close_call(stream, call_id, status="unknown", text=INTERRUPTED)
        return self.drain()

    # --- routing -------------------------------------------------------------------------------

    def _stream_of(self, event: AgentEvent) -> _Stream | None:
        if event.upstream_session_id is None:
            return self._own if self._guarantees_owner else None
        return self._streams.get(event.upstream_session_id)

    def _quarantine(self, event: AgentEvent) -> None:
        reason = "no session id" if event.upstream_session_id is None else "unknown session id"
        raw: Mapping[str, JsonValue] = {"event": type(event).__name__, **asdict(event)}
        self._writes.append(
            RecordQuarantine(
                turn_id=self._turn_id,
                ordinal=self._quarantined,
                reason=reason,
                raw=raw,
                recorded_at_ms=self._now_ms,
            )
        )
        self._quarantined += 1

    def _start_child(self, parent: _Stream, event: ChildStarted) -> None:
        child_id = event.child_upstream_session_id
        if child_id in self._streams or len(self._streams) > CHILDREN_MAX:
            return
        child = child_conversation(
            self._parent,
            parent_conversation_id=parent.conversation_id,
            started=event,
            opened_at_ms=self._now_ms,
        )
        self._streams[child_id] = _Stream(
            conversation_id=child.conversation_id, upstream_session_id=child_id, seq=1
        )
        self._writes += [
            OpenConversation(conversation=child),
            OpenLink(link=self._child_link(child, child_id)),
        ]
        call = parent.calls.get(event.call_id or "")
        if call is not None:
            call.child = child.conversation_id

    def _child_link(self, child: Conversation, upstream: UpstreamSessionId) -> Link:
        return Link(
            conversation_id=child.conversation_id,
            seq=1,
            upstream_session_id=upstream,
            agent=self._link.agent,
            agent_version=self._link.agent_version,
            working_directory=self._link.working_directory,
            opened_because="child",
            opened_at_ms=self._now_ms,
        )

    # --- parts ---------------------------------------------------------------------------------

    def _say(self, stream: _Stream, text: str, *, is_reasoning: bool) -> None:
        if stream.text and stream.text_is_reasoning != is_reasoning:
            self._close_text(stream)
        stream.text_is_reasoning = is_reasoning
        stream.text.append(text)
        stream.text_characters += len(text)
        if not is_reasoning:
            stream.reply.append(text)
        if stream.text_characters >= TEXT_CHARACTERS_BUFFERED_MAX:
            self._close_text(stream)

    def _close_text(self, stream: _Stream) -> None:
        text = "".join(stream.text)
        stream.text.clear()
        stream.text_characters = 0
        if not text:
            return
        part: Part = ReasoningPart(text=text) if stream.text_is_reasoning else TextPart(text=text)
        self._append(stream, Speaker.ASSISTANT, part)

    def _announce(self, stream: _Stream, event: ToolCallAnnounced) -> None:
        self._close_text(stream)
        part = ToolCallPart(
            call_id=event.call_id,
            title=event.title,
            tool_kind=event.tool_kind,
            arguments=event.arguments,
            locations=event.locations,
        )
        # Not recorded yet: some agents announce a call before they know its arguments.
        stream.calls[event.call_id] = _OpenCall(part=part)

    def _update(self, stream: _Stream, event: ToolCallUpdated) -> None:
        call = stream.calls.get(event.call_id)
        if call is None:
            call = stream.calls[event.call_id] = _OpenCall(part=_late_call(event))
        if not call.is_recorded:
            call.part = _merged(call.part, event)
        if event.text is not None:
            call.text = event.text
        if event.child_upstream_session_id is not None and call.child is None:
            self._start_child(stream, _as_child_started(event, call.part))
        if event.status in {"completed", "failed"}:
            self._close_call(stream, event.call_id, status=event.status, text=call.text)
        elif event.status == "in_progress":
            self._record_call(stream, call)

    def _record_call(self, stream: _Stream, call: _OpenCall) -> None:
        if not call.is_recorded:
            call.is_recorded = True
            self._append(stream, Speaker.ASSISTANT, call.part)

    def _close_call(self, stream: _Stream, call_id: str, *, status: str, text: str) -> None:
        call = stream.calls.pop(call_id)
        self._close_text(stream)
        self._record_call(stream, call)
        result = ToolResultPart(
            call_id=call_id, status=status, text=text, child_conversation_id=call.child
        )
        self._append(stream, Speaker.TOOL, result)

    def _note(self, stream: _Stream, event: AgentEvent) -> None:
        match event:
            case UsageReported(tokens_used=tokens) if stream is self._own:
                self.tokens_used = tokens if tokens is not None else self.tokens_used
            case TitleChanged(title=title) if stream is self._own:
                self.title = title
            case PlanChanged(entries=entries):
                self._close_text(stream)
                self._append(stream, Speaker.ASSISTANT, UnknownPart(kind="plan", raw=entries))
            case PermissionAnswered():
                self._close_text(stream)
                note = UnknownPart(kind="permission", raw=_permission(event))
                self._append(stream, Speaker.ASSISTANT, note)
            case UnknownReceived(kind=kind, raw=raw):
                self._close_text(stream)
                self._append(stream, Speaker.ASSISTANT, UnknownPart(kind=kind, raw=raw))
            case ChildEnded() | UserTextReplayed() | UsageReported() | TitleChanged():
                pass
            case _:
                self._quarantine(event)

    def _append(self, stream: _Stream, speaker: Speaker, part: Part) -> None:
        if stream.speaker is not None and stream.speaker is not speaker:
            stream.seq += 1
            stream.ordinal = 0
        stream.speaker = speaker
        self._writes.append(
            RecordParts(
                conversation_id=stream.conversation_id,
                seq=stream.seq,
                first_ordinal=stream.ordinal,
                speaker=speaker,
                turn_id=self._turn_id,
                upstream_session_id=stream.upstream_session_id,
                recorded_at_ms=self._now_ms,
                parts=(part,),
                durability=self._durability(part),
            )
        )
        stream.ordinal += 1

    def _durability(self, part: Part) -> Durability:
        return self._call_durability if isinstance(part, ToolCallPart) else Durability.PROCESS


def child_conversation(
    root: Conversation,
    *,
    parent_conversation_id: ConversationId,
    started: ChildStarted,
    opened_at_ms: int,
) -> Conversation:
    """Return the conversation of a sub-agent. Its id follows from parent and upstream id."""
    seed = f"{parent_conversation_id}\n{started.child_upstream_session_id}".encode(
        "utf-8", "surrogatepass"
    )
    digest = base64.b32encode(hashlib.sha256(seed).digest()).decode().lower()[:26]
    return Conversation(
        conversation_id=ConversationId(f"con_{digest}"),
        key=ConversationKey(
            project_id=root.key.project_id,
            workstream=root.key.workstream,
            role=started.role,
            slot=CHILD_SLOT,
        ),
        generation=1,
        base_name=root.base_name,
        opened_at_ms=opened_at_ms,
        parent_conversation_id=parent_conversation_id,
        parent_call_id=started.call_id,
    )


def _late_call(event: ToolCallUpdated) -> ToolCallPart:
    return ToolCallPart(call_id=event.call_id, title=event.title or "", tool_kind="other")


def _merged(part: ToolCallPart, event: ToolCallUpdated) -> ToolCallPart:
    return ToolCallPart(
        call_id=part.call_id,
        title=event.title or part.title,
        tool_kind=event.tool_kind or part.tool_kind,
        arguments=event.arguments or part.arguments,
        locations=part.locations if event.locations is None else event.locations,
    )


def _as_child_started(event: ToolCallUpdated, part: ToolCallPart) -> ChildStarted:
    assert event.child_upstream_session_id is not None
    role = part.arguments.get("subagent_type") if isinstance(part.arguments, Mapping) else None
    return ChildStarted(
        upstream_session_id=event.upstream_session_id,
        child_upstream_session_id=event.child_upstream_session_id,
        role=role if isinstance(role, str) and role else "subagent",
        call_id=event.call_id,
    )


def _permission(event: PermissionAnswered) -> JsonValue:
    return {
        "call_id": event.call_id,
        "title": event.title,
        "answer": event.answer,
        "answered_by": event.answered_by,
    }
