"""The recorder: agent events in, writes out, each event to the conversation it belongs to.

Events are routed by the upstream session they carry, never by who happens to be streaming. One
without an id is attributed only where the adapter guarantees its owner; else it is quarantined and
never given to the parent. A child becomes a conversation of its own when it starts, and its end is
noted for its parent: outcome, tokens, title. A child that outlived an earlier turn is known by its
session when it speaks again. What is odd about sub-agents, by how many run, is noted.

A stream is what is said in one conversation during one turn, as parts of numbered messages. It
decides where a part begins and ends, which message it belongs to and what is still open; whose
stream an event belongs to is the recorder's question.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import asdict, replace

from upthread.core.codec import objects_at, text_at
from upthread.core.commands import OpenConversation, OpenLink, RecordParts, RecordQuarantine, Write
from upthread.core.events import (
    CALL_ENDED,
    CALL_UNKNOWN,
    INTERRUPTED,
    AgentEvent,
    ChildEnded,
    ChildStarted,
    ContextCompacted,
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
from upthread.core.quotas import one_line_name
from upthread.core.text import PARAGRAPH
from upthread.core.turns.effects import INTENT
from upthread.core.turns.spent_tokens import NOTHING_COUNTED
from upthread.core.types import (
    CHILD_SLOT,
    NO_WORK,
    PERMISSION,
    QUESTION_DISMISSED,
    Conversation,
    ConversationId,
    ConversationKey,
    Durability,
    JsonObject,
    JsonValue,
    Link,
    Outcome,
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

# A part is written when it is whole: a reply without end must not wait in memory for that.
TEXT_CHARACTERS_BUFFERED_MAX = 64 * 1024
"""A longer run of text is recorded in pieces; readers see it joined."""

COMPACTED_BELOW = 0.5
"""A session that holds less than this share of what it held has been compacted."""

Spoken: TypeAlias = TextPart | ReasoningPart


class Sheet(Struct, kw_only=True):
    """What all streams of a turn write on. `now_ms` is the time of the event at hand."""

    conversation_id: ConversationId
    turn_id: TurnId
    call_durability: Durability = Durability.PROCESS
    now_ms: int = 0
    writes: list[Write] = []


class OpenCall(Struct, kw_only=True):
    """A call between its announcement and its result."""

    part: ToolCallPart
    text: str = ""
    is_recorded: bool = False
    write: RecordParts | None = None
    child: ConversationId | None = None


class Stream:
    """One conversation's part of a turn. `next_seq` is the message it starts at.

    `parent` is the stream of the call it came from, None for the turn's own.
    """

    def __init__(
        self,
        sheet: Sheet,
        *,
        conversation_id: ConversationId,
        upstream_session_id: UpstreamSessionId,
        next_seq: int,
        parent: Stream | None = None,
    ) -> None:
        self.conversation_id = conversation_id
        self.parent = parent
        self.tokens_used: int | None = None
        self.tokens_window: int | None = None
        self.title = ""
        self.was_compacted = False
        self.has_called = False
        """Whether a tool was called since the last request to the model that was told of."""
        self.upstream_session_id = upstream_session_id
        self._title_kept = ""
        self._sheet = sheet
        self._seq = next_seq
        self._ordinal = 0
        self._speaker: Speaker | None = None
        self._text: list[str] = []
        self._text_kind: type[Spoken] = TextPart
        self._text_speaker = Speaker.ASSISTANT
        self._text_characters = 0
        self._calls: dict[str, OpenCall] = {}
        self._closed: set[str] = set()
        self._reply: list[str] = []
        self._message_id: str | None = None
        self._is_reply_broken = False

    def hold(self, tokens: int | None, *, window: int | None = None) -> None:
        """Take how many tokens the session holds. Far fewer than before: it was compacted.

        Many agents that speak ACP do not announce a compaction: this is all that they show of one.
        """
        self.tokens_window = window or self.tokens_window
        if tokens is None:
            return
        if self.tokens_used and tokens < self.tokens_used * COMPACTED_BELOW:
            self.was_compacted = True
        self.tokens_used = tokens

    @property
    def next_seq(self) -> int:
        """The message that follows all that was recorded here, drained or not."""
        return self._seq if self._speaker is None else self._seq + 1

    @property
    def reply(self) -> str:
        """All text said so far, in paragraphs where something came between."""
        return "".join(self._reply)

    @property
    def has_worked(self) -> bool:
        """Whether a tool was called."""
        return bool(self._calls or self._closed)

    def open_call(self, call_id: str | None) -> OpenCall | None:
        """Return a call that has no result yet."""
        return self._calls.get(call_id or "")

    # --- words ---------------------------------------------------------------------------------

    def say(self, event: TextReceived) -> None:
        """Take a piece of the reply."""
        if not event.text:
            return
        # A new message of the agent's is a new paragraph, though nothing came between the two.
        if event.message_id is not None and self._message_id not in {None, event.message_id}:
            self._is_reply_broken = True
        self._message_id = event.message_id or self._message_id
        if self._is_reply_broken and self._reply:
            self._reply.append(PARAGRAPH)
        self._is_reply_broken = False
        # Apart from the parts, which are cut where buffers end: the report is read from this.
        self._reply.append(event.text)
        self._buffer(event.text, TextPart)

    def think(self, text: str) -> None:
        """Take a piece of the reasoning."""
        self._is_reply_broken = True
        self._buffer(text, ReasoningPart)

    def hear(self, text: str) -> None:
        """Take a piece of what the user, or the parent agent, said in this conversation."""
        self._buffer(text, TextPart, speaker=Speaker.USER)

    def note(self, part: UnknownPart) -> None:
        """Add to the message that is open: a note is nobody's words and parts no call's results."""
        self.close_text()
        self._append(self._speaker or Speaker.ASSISTANT, part)

    def remark(self, part: UnknownPart) -> None:
        """Add a note of ours: the reply goes on as if it were not there."""
        is_broken = self._is_reply_broken
        self.note(part)
        self._is_reply_broken = is_broken

    def close_text(self) -> None:
        """Make a part of the text that is still running."""
        self._record_text("".join(self._text), kept="")

    def settle_text(self, *, is_end: bool = False) -> None:
        """Make a part of the running text, but for its end: that may be the half of a secret.

        While more text may come, the paragraph at hand waits, too.
        """
        from upthread.core.redaction import running_text  # noqa: PLC0415  # loads all of redaction

        text = "".join(self._text)
        length = (running_text.settled_length if is_end else running_text.settled_paragraphs)(text)
        self._record_text(text[:length], kept=text[length:])

    def _record_text(self, text: str, *, kept: str) -> None:
        self._text = [kept] if kept else []
        self._text_characters = len(kept)
        if text:
            self._append(self._text_speaker, self._text_kind(text=text))

    def _buffer(
        self, text: str, kind: type[Spoken], *, speaker: Speaker = Speaker.ASSISTANT
    ) -> None:
        if self._text and (self._text_kind, self._text_speaker) != (kind, speaker):
            self.close_text()
        self._text_kind, self._text_speaker = kind, speaker
        self._text.append(text)
        self._text_characters += len(text)
        if self._text_characters >= TEXT_CHARACTERS_BUFFERED_MAX:
            self.settle_text()

    # --- calls ---------------------------------------------------------------------------------

    def expect(self, part: ToolCallPart) -> None:
        """Wait for the result of a call that is recorded already."""
        self._calls[part.call_id] = OpenCall(part=part, is_recorded=True)

    def announce(self, event: ToolCallAnnounced) -> None:
        """Open a call; it is recorded when it runs, since some agents learn its arguments late."""
        if event.call_id in self._calls:  # announced twice: the second one says more
            said = asdict(event)
            said["locations"] = event.locations or None
            self.update(ToolCallUpdated(**said))
            return
        self.close_text()
        part = ToolCallPart(
            call_id=event.call_id,
            title=event.title,
            tool_kind=event.tool_kind,
            arguments=event.arguments,
            locations=event.locations,
        )
        self._calls[event.call_id] = OpenCall(part=part)
        self.has_called = True
        # An id that comes again is a call again, and repairing histories tells the two apart.
        self._closed.discard(event.call_id)
        self._is_reply_broken = True

    def intend(self, part: ToolCallPart) -> None:
        """Record a call before it is allowed, synced, as what it will do."""
        self.has_called = True
        call = self._calls.setdefault(part.call_id, OpenCall(part=part))
        self.close_text()
        if call.write and call.part == replace(part, locations=call.part.locations):
            # The intent adds nothing. The same write again is only synced (S2).
            again = replace(call.write, durability=Durability.SYNCED)
            self._sheet.writes.append(again)
        elif call.is_recorded:  # a synced write of its own covers the one that was not
            note = UnknownPart(
                kind=INTENT,
                raw={
                    "call_id": part.call_id,
                    "title": part.title,
                    "tool_kind": part.tool_kind,
                    "arguments": part.arguments,
                },
            )
            self._append(Speaker.ASSISTANT, note, durability=Durability.SYNCED)
        else:
            call.part = part
            self._record_call(call, durability=Durability.SYNCED)

    def update(self, event: ToolCallUpdated, *, child: ConversationId | None = None) -> None:
        """Take more about a call, such as the child it made; with a last status, its result."""
        call = self._calls.get(event.call_id)
        if not call:
            if event.call_id in self._closed:
                return  # it has its result; a second one would make the history invalid
            self.has_called = True
            part = ToolCallPart(call_id=event.call_id, title=event.title or "", tool_kind="other")
            call = self._calls[event.call_id] = OpenCall(part=part)
        if not call.is_recorded:
            # Only until it is recorded: parts are never written twice.
            call.part = _merged(call.part, event)
        if event.text is not None:
            call.text = event.text
        call.child = child or call.child
        if event.status in CALL_ENDED:
            self._close_call(event.call_id, status=event.status, text=call.text)
        elif event.status == "in_progress":
            self._record_call(call)

    def close(self) -> None:
        """Close what is open; a call without a result gets an unknown one. The title is kept."""
        self.close_text()
        for call_id in tuple(self._calls):
            self._close_call(call_id, status=CALL_UNKNOWN, text=INTERRUPTED)
        # Once a turn: an agent may rename its session again and again.
        if self.title != self._title_kept:
            self._title_kept = self.title
            self.remark(UnknownPart(kind="title", raw=self.title))

    def _record_call(self, call: OpenCall, *, durability: Durability | None = None) -> None:
        if not call.is_recorded:
            call.is_recorded = True
            durability = durability or self._sheet.call_durability
            call.write = self._append(Speaker.ASSISTANT, call.part, durability=durability)

    def _close_call(self, call_id: str, *, status: str, text: str) -> None:
        call = self._calls.pop(call_id)
        self._closed.add(call_id)
        self.close_text()
        self._record_call(call)
        result = ToolResultPart(
            call_id=call_id, status=status, text=text, child_conversation_id=call.child
        )
        self._append(Speaker.TOOL, result)

    # --- numbers -------------------------------------------------------------------------------

    def _append(
        self, speaker: Speaker, part: Part, *, durability: Durability = Durability.PROCESS
    ) -> RecordParts:
        if self._speaker is not None and self._speaker is not speaker:
            self._seq += 1
            self._ordinal = 0
        self._speaker = speaker
        if not isinstance(part, TextPart):
            self._is_reply_broken = True
        write = RecordParts(
            conversation_id=self.conversation_id,
            seq=self._seq,
            first_ordinal=self._ordinal,
            speaker=speaker,
            turn_id=self._sheet.turn_id,
            upstream_session_id=self.upstream_session_id,
            recorded_at_ms=self._sheet.now_ms,
            parts=(part,),
            durability=durability,
        )
        self._sheet.writes.append(write)
        self._ordinal += 1
        return write


def calls_open(writes: Iterable[Write]) -> int:
    """Return how many calls these writes close without knowing what they came to."""
    parts = (part for write in writes if isinstance(write, RecordParts) for part in write.parts)
    return sum(isinstance(part, ToolResultPart) and part.status == CALL_UNKNOWN for part in parts)


def _merged(part: ToolCallPart, event: ToolCallUpdated) -> ToolCallPart:
    return ToolCallPart(
        call_id=part.call_id,
        title=event.title or part.title,
        tool_kind=event.tool_kind or part.tool_kind,
        arguments=event.arguments or part.arguments,
        locations=part.locations if event.locations is None else event.locations,
    )


# An agent that names sub-agents without end must not fill the record with conversations.
CHILDREN_MAX = 256

# Alarms only report what is odd, and change no routing: counting starts and ends alone would guess
# when sub-agents run at once or one inside the other. A hand-off within a session is none.
ALARM = "depth_alarm"
"""The kind of the note that keeps an alarm."""

NESTED = "nested"
PARALLEL = "parallel"
UNMATCHED_END = "unmatched_end"
OPEN_AT_END = "open_at_end"

ALARMS = {
    NESTED: "a sub-agent called one of its own",
    PARALLEL: "a sub-agent began while another one ran",
    UNMATCHED_END: "a sub-agent ended that had not begun",
    OPEN_AT_END: "the turn ended while a sub-agent ran",
}
"""Every alarm, in words."""

_IDLE = TextReceived | UsageReported | TitleChanged | UserTextReplayed


# --- the sub-agents of a turn, and the turn -------------------------------------------------------


class KnownChild(Struct, frozen=True, kw_only=True):
    """A child that was recorded before; `next_seq` is its next message.

    One with `open_calls` was cut off, and is closed with the turn if it says nothing more.
    """

    upstream_session_id: UpstreamSessionId
    conversation_id: ConversationId
    next_seq: int
    open_calls: tuple[ToolCallPart, ...] = ()


class Recorder:
    """Records one turn. Feed it with `record`, take the writes with `drain`, end with `finish`.

    `next_seq` is the message the reply starts at. `guarantees_owner` says that an event without an
    id can only be the turn's own session's. What is stored already is given: `quarantined` events
    of the turn, the `children` of this turn and of those before it; and `own` is told its calls.
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
        quarantined: int = 0,
        children: Iterable[KnownChild] = (),
    ) -> None:
        self._parent = conversation
        self._link = link
        self._guarantees_owner = guarantees_owner
        self._sheet = Sheet(
            conversation_id=conversation.conversation_id,
            turn_id=turn_id,
            call_durability=call_durability,
        )
        self.own = Stream(
            self._sheet,
            conversation_id=conversation.conversation_id,
            upstream_session_id=link.upstream_session_id,
            next_seq=next_seq,
        )
        """What is said in the turn's own session, children's left out."""
        self.known = {child.upstream_session_id: child for child in children}
        self._streams: dict[UpstreamSessionId, Stream] = {link.upstream_session_id: self.own}
        self._running: dict[UpstreamSessionId, UpstreamSessionId] = {}
        """The sub-agents that run, each with the session that called it."""
        self._quarantined = quarantined
        self.counted = NOTHING_COUNTED
        """What the requests of this prompt took so far."""
        self._goes_on = False
        self.has_acted = False
        """Whether the agent sent more than text, tokens, the session's title and its prompt."""
        self.asked = ""
        """What the agent asked last that nobody was there to answer."""

    @property
    def next_read(self) -> int | None:
        """What the model will read at least for a request that is still to come, None for none.

        One comes after a call, and after whatever a sub-agent said.
        """
        return (self.own.tokens_used or 0) if self._goes_on else None

    def record(self, event: AgentEvent, *, at_ms: int) -> None:
        """Take one event. Only complete parts are ready to drain."""
        self._sheet.now_ms = at_ms
        # A log line on its stdout, or a notification of its own, names no session.
        is_aside = isinstance(event, UnknownReceived) and (
            event.upstream_session_id is None or event.progress or event.kind.startswith(NO_WORK)
        )
        self.has_acted |= not (is_aside or isinstance(event, _IDLE))
        if isinstance(event, UnknownReceived) and event.kind == QUESTION_DISMISSED:
            asked = objects_at(event.raw, "questions")
            self.asked = "; ".join(text_at(each, "question") for each in asked)
        stream = self._stream_of(event)
        if not stream:
            is_named = event.upstream_session_id is not None
            self.has_acted |= is_named and isinstance(event, TextReceived)
            self._quarantine(event, reason="unknown session id" if is_named else "no session id")
        else:
            self._take(stream, event)

    def intend(
        self, upstream_session_id: UpstreamSessionId, part: ToolCallPart, *, at_ms: int
    ) -> None:
        """Record a call that counts before it is allowed, synced with the drain that follows.

        Does nothing for a session nobody knows; the request's answer is quarantined then.
        """
        self._sheet.now_ms = at_ms
        stream = self._streams.get(upstream_session_id)
        if stream:
            stream.intend(part)

    def drain(self) -> tuple[Write, ...]:
        """Return what is ready to be written, in order, once."""
        writes = tuple(self._sheet.writes)
        self._sheet.writes.clear()
        return writes

    def flush(self, *, is_end: bool = False) -> tuple[Write, ...]:
        """Return also what is settled of the text that is still running, as a part of its own."""
        for stream in self._streams.values():
            stream.settle_text(is_end=is_end)
        return self.drain()

    def finish(self, *, at_ms: int) -> tuple[Write, ...]:
        """Close what is open: calls and children without an end get an unknown one.

        Returns all writes.
        """
        self._sheet.now_ms = at_ms
        for child_id, child in self.known.items():
            # One that said nothing more has its calls closed
            # as well: else its history stays invalid.
            if child.open_calls:
                self._rejoin(child_id)
        self._alarm(OPEN_AT_END, *self._running)
        # The innermost first: its end is noted in the one that called it, before that is closed.
        for child_id in reversed(tuple(self._running)):
            self._end_child(child_id, Outcome.UNKNOWN)
        # Also a child that spoke again after its end.
        for stream in self._streams.values():
            stream.close()
        return self.drain()

    def _take(self, stream: Stream, event: AgentEvent) -> None:
        match event:
            case TextReceived():
                stream.say(event)
            case ReasoningReceived(text=text):
                stream.think(text)
            case ToolCallAnnounced():
                stream.announce(event)
            case ToolCallUpdated():
                self._update(stream, event)
            case ChildStarted():
                self._start_child(stream, event)
            case ChildEnded(child_upstream_session_id=child, outcome=outcome):
                # An end may be all that comes of a child that an earlier turn began.
                self._rejoin(child)
                if child not in self._running:
                    self._alarm(UNMATCHED_END, child)
                self._end_child(child, outcome)
            case _:
                self._note(stream, event)

    def _update(self, stream: Stream, event: ToolCallUpdated) -> None:
        """The child before the result: the result refers to it."""
        child_id = event.child_upstream_session_id
        if child_id is not None and child_id not in self._streams:
            call = stream.open_call(event.call_id)
            known = call.part.arguments if call else None
            self._start_child(stream, as_started(event, known))
        child = self._streams.get(child_id) if child_id is not None else None
        # Not where an agent names its own session as a child: it would hang under itself.
        stream.update(event, child=child.conversation_id if child and child.parent else None)

    def _hold(self, stream: Stream, told: UsageReported) -> None:
        stream.hold(told.tokens_used, window=told.tokens_window)
        is_own = stream is self.own
        counted, self.counted = self.counted, self.counted.and_one(told, is_own=is_own)
        if self.counted is counted:
            return
        self._goes_on = stream.has_called or not is_own
        stream.has_called = False

    def _note(self, stream: Stream, event: AgentEvent) -> None:
        match event:
            case UsageReported():
                self._hold(stream, event)
            case TitleChanged(title=title):
                # Agents name sessions with a model's words: kept on one line, and short.
                stream.title = one_line_name(title)
            case ContextCompacted():
                stream.was_compacted = True
                stream.note(UnknownPart(kind="compacted", raw=None))
            case UserTextReplayed(text=text):
                if stream is not self.own:  # ours is stored before it is sent
                    stream.hear(text)
            case PlanChanged(entries=entries):
                stream.note(UnknownPart(kind="plan", raw=entries))
            case PermissionAnswered():
                names = ("call_id", "title", "answer", "answered_by")
                raw = {name: getattr(event, name) for name in names}
                stream.note(UnknownPart(kind=PERMISSION, raw=raw))
            case UnknownReceived(kind=kind, raw=raw):
                stream.note(UnknownPart(kind=kind, raw=raw))
            case _:
                self._quarantine(event, reason="unknown kind of event")

    # --- routing -------------------------------------------------------------------------------

    def _stream_of(self, event: AgentEvent) -> Stream | None:
        if event.upstream_session_id is None:
            return self.own if self._guarantees_owner else None
        self._rejoin(event.upstream_session_id)
        return self._streams.get(event.upstream_session_id)

    def _quarantine(self, event: AgentEvent, *, reason: str) -> None:
        raw: JsonObject = {"event": type(event).__name__, **asdict(event)}
        self._sheet.writes.append(
            RecordQuarantine(
                conversation_id=self._sheet.conversation_id,
                turn_id=self._sheet.turn_id,
                # Counted over the turn: recording that goes on
                # after a crash does not write over what is there.
                ordinal=self._quarantined,
                reason=reason,
                raw=raw,
                recorded_at_ms=self._sheet.now_ms,
            )
        )
        self._quarantined += 1

    def _start_child(self, parent: Stream, event: ChildStarted) -> None:
        child_id = event.child_upstream_session_id
        if child_id not in self._streams:
            # Not an error: what it says goes into quarantine, as of any session that nobody knows.
            if len(self._streams) > CHILDREN_MAX:
                return
            self._streams[child_id] = self._child_stream(parent, event)
        stream = self._streams[child_id]
        if not stream.parent:  # an agent that names its own session as its child
            return
        if child_id not in self._running:
            above = self._running_above(parent.upstream_session_id)
            # Those it came from run as well, and are no others beside it.
            is_parallel = bool(self._running.keys() - above)
            self._running[child_id] = parent.upstream_session_id
            self._alarm(NESTED, *(child_id,) * bool(above))
            self._alarm(PARALLEL, *(child_id,) * is_parallel)
        call = parent.open_call(event.call_id)
        if call:
            call.child = stream.conversation_id

    def _rejoin(self, child_id: UpstreamSessionId) -> None:
        """Let a child that outlived its turn go on in its own conversation."""
        if child_id in self.known and child_id not in self._streams:
            own = self._link.upstream_session_id
            again = ChildStarted(
                upstream_session_id=own, child_upstream_session_id=child_id, role=""
            )
            self._start_child(self.own, again)

    def _running_above(self, session: UpstreamSessionId) -> set[UpstreamSessionId]:
        """Return the running sub-agent `session` and those it came from."""
        above: set[UpstreamSessionId] = set()
        # Who is whose parent is the agent's word: two that name each other must not hold us here.
        while session in self._running and session not in above:
            above.add(session)
            session = self._running[session]
        return above

    def _alarm(self, alarm: str, *children: UpstreamSessionId) -> None:
        """Keep that something is odd, as a note that breaks no text."""
        for child_id in children:
            raw: JsonValue = {
                "alarm": alarm,
                "depth": len(self._running),
                "upstream_session_id": child_id,
            }
            self.own.remark(UnknownPart(kind=ALARM, raw=raw))

    def _child_stream(self, parent: Stream, event: ChildStarted) -> Stream:
        child_id = event.child_upstream_session_id
        known = self.known.get(child_id)
        stream = Stream(
            self._sheet,
            conversation_id=known.conversation_id if known else self._open_child(parent, event),
            upstream_session_id=child_id,
            next_seq=known.next_seq if known else 1,
            parent=parent,
        )
        for part in known.open_calls if known else ():
            stream.expect(part)
        return stream

    def _open_child(self, parent: Stream, event: ChildStarted) -> ConversationId:
        child = child_conversation(
            self._parent,
            parent_conversation_id=parent.conversation_id,
            started=event,
            opened_at_ms=self._sheet.now_ms,
        )
        link = replace(
            self._link,
            conversation_id=child.conversation_id,
            seq=1,
            upstream_session_id=event.child_upstream_session_id,
            opened_because="child",
            opened_at_ms=self._sheet.now_ms,
            # Where an imported session was found says nothing of this one.
            agent_profile="",
            chose_profile=False,
        )
        self._sheet.writes += [OpenConversation(conversation=child), OpenLink(link=link)]
        return child.conversation_id

    def _end_child(self, child_id: UpstreamSessionId, outcome: Outcome) -> None:
        """Close a child's stream and note its end in the parent's. A second end changes nothing."""
        if child_id not in self._running:
            return
        del self._running[child_id]
        child = self._streams[child_id]
        assert child.parent, "only children run"
        child.close()
        raw: dict[str, JsonValue] = {
            "conversation_id": child.conversation_id,
            "outcome": str(outcome),
            "tokens_used": child.tokens_used,
            "title": child.title,
        }
        child.parent.note(UnknownPart(kind="child_ended", raw=raw))


def child_named(event: AgentEvent) -> UpstreamSessionId | None:
    """Return the session that an event says is a sub-agent's, None for any other event."""
    if isinstance(event, ChildStarted | ToolCallUpdated):
        return event.child_upstream_session_id
    return None


def child_conversation(
    root: Conversation,
    *,
    parent_conversation_id: ConversationId,
    started: ChildStarted,
    opened_at_ms: int,
) -> Conversation:
    """Return the conversation of a sub-agent. Its id follows from parent and upstream id."""
    # Derived, so that a child that is told again after a crash is the one that is there.
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


def as_started(event: ToolCallUpdated, known: JsonValue) -> ChildStarted:
    """Return the start that a call's update tells of; `known` are the call's arguments so far."""
    assert event.child_upstream_session_id is not None
    arguments = event.arguments or known
    role = arguments.get("subagent_type") if isinstance(arguments, Mapping) else None
    return ChildStarted(
        upstream_session_id=event.upstream_session_id,
        child_upstream_session_id=event.child_upstream_session_id,
        role=role if isinstance(role, str) and role else "subagent",
        call_id=event.call_id,
    )
