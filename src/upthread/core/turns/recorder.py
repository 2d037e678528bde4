"""The recorder: agent events in, writes out, each event to the conversation it belongs to.

Events are routed by the upstream session they carry, never by who happens to be streaming. One
without an id is attributed only where the adapter guarantees its owner; else it is quarantined and
never given to the parent. A child becomes a conversation of its own when it starts, and its end is
noted for its parent: outcome, tokens, title. A child that outlived an earlier turn is known by its
session when it speaks again. A depth counter runs beside all this and only reports what is odd. How
events become messages is core/turns/stream.py.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, structs

from upthread.core import events
from upthread.core.commands import (
    OpenConversation,
    OpenLink,
    RecordQuarantine,
    Write,
)
from upthread.core.events import AgentEvent, ChildStarted, ToolCallUpdated
from upthread.core.quotas import one_line_name
from upthread.core.turns.spent_tokens import NOTHING_COUNTED
from upthread.core.turns.stream import Sheet, Stream
from upthread.core.types import (
    CHILD_SLOT,
    PERMISSION,
    Conversation,
    ConversationId,
    ConversationKey,
    Durability,
    JsonValue,
    Link,
    Outcome,
    ToolCallPart,
    TurnId,
    UnknownPart,
    UpstreamSessionId,
)

# An agent that names sub-agents without end must not fill the record with conversations.
CHILDREN_MAX = 256

_IDLE = events.TextReceived | events.UsageReported | events.TitleChanged | events.UserTextReplayed


class _KnownChild(Struct, frozen=True):
    """A child that has a conversation already; `next_seq` is its next message."""

    conversation_id: ConversationId
    next_seq: int
    open_calls: tuple[ToolCallPart, ...]


class Recorder:
    """Records one turn. Feed it with `record`, take the writes with `drain`, end with `finish`.

    `next_seq` is the message the reply starts at. `guarantees_owner` says that an event without an
    id can only be the turn's own session's. Recording that goes on after a crash is told what is
    stored already: `quarantined` events of the turn, open calls, children.
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
        self._known: dict[UpstreamSessionId, _KnownChild] = {}
        self._streams: dict[UpstreamSessionId, Stream] = {link.upstream_session_id: self.own}
        self._running: dict[UpstreamSessionId, None] = {}
        self._depth = DepthCounter()
        self._quarantined = quarantined
        self.counted = NOTHING_COUNTED
        """What the requests of this prompt took so far."""
        self._goes_on = False
        self.has_acted = False
        """Whether the agent sent more than text, tokens, the session's title and its prompt."""

    def know_open_call(self, part: ToolCallPart) -> None:
        """Expect the result of a call that was recorded before."""
        self.own.expect(part)

    def know_child(
        self,
        upstream_session_id: UpstreamSessionId,
        child: ConversationId,
        *,
        next_seq: int,
        open_calls: tuple[ToolCallPart, ...] = (),
    ) -> None:
        """Know a child that was recorded before, so that its start does not open it again.

        One with `open_calls` was cut off, and is closed with the turn if it says nothing more.
        """
        self._known[upstream_session_id] = _KnownChild(child, next_seq, open_calls)

    @property
    def next_read(self) -> int | None:
        """What the model will read at least for a request that is still to come, None for none.

        One comes after a call, and after whatever a sub-agent said.
        """
        return (self.own.tokens_used or 0) if self._goes_on else None

    def record(self, event: events.AgentEvent, *, at_ms: int) -> None:
        """Take one event. Only complete parts are ready to drain."""
        self._sheet.now_ms = at_ms
        # A log line on its stdout, or a notification of its own, names no session.
        is_aside = isinstance(event, events.UnknownReceived) and (
            bool(event.progress) or event.upstream_session_id is None
        )
        self.has_acted |= not (is_aside or isinstance(event, _IDLE))
        stream = self._stream_of(event)
        if stream is None:
            is_named = event.upstream_session_id is not None
            self.has_acted |= is_named and isinstance(event, events.TextReceived)
            self._quarantine(event, reason="unknown session id" if is_named else "no session id")
        else:
            self._take(stream, event)

    def intend(
        self,
        upstream_session_id: UpstreamSessionId,
        part: ToolCallPart,
        *,
        at_ms: int,
    ) -> None:
        """Record a call that counts before it is allowed, synced with the drain that follows.

        Does nothing for a session nobody knows; the request's answer is quarantined then.
        """
        self._sheet.now_ms = at_ms
        stream = self._streams.get(upstream_session_id)
        if stream is not None:
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
        for child_id, child in self._known.items():
            # One that said nothing more has its calls closed
            # as well: else its history stays invalid.
            if child.open_calls:
                self._rejoin(child_id)
        self._alarm(OPEN_AT_END, *self._depth.finish())
        # The innermost first: its end is noted in the one that called it, before that is closed.
        for child_id in reversed(tuple(self._running)):
            self._end_child(child_id, Outcome.UNKNOWN)
        # Also a child that spoke again after its end.
        for stream in self._streams.values():
            stream.close()
        return self.drain()

    def _take(self, stream: Stream, event: events.AgentEvent) -> None:
        match event:
            case events.TextReceived():
                stream.say(event)
            case events.ReasoningReceived(text=text):
                stream.think(text)
            case events.ToolCallAnnounced():
                stream.announce(event)
            case events.ToolCallUpdated():
                self._update(stream, event)
            case events.ChildStarted():
                self._start_child(stream, event)
            case events.ChildEnded(child_upstream_session_id=child, outcome=outcome):
                # An end may be all that comes of a child that an earlier turn began.
                self._rejoin(child)
                for alarm in self._depth.end(child):
                    self._alarm(alarm, child)
                self._end_child(child, outcome)
            case _:
                self._note(stream, event)

    def _update(self, stream: Stream, event: events.ToolCallUpdated) -> None:
        """The child before the result: the result refers to it."""
        child_id = event.child_upstream_session_id
        if child_id is not None and child_id not in self._streams:
            call = stream.open_call(event.call_id)
            known = call.part.arguments if call else None
            self._start_child(stream, as_started(event, known))
        child = self._streams.get(child_id) if child_id is not None else None
        # Not where an agent names its own session as a child: it would hang under itself.
        stream.update(event, child=child.conversation_id if child and child.parent else None)

    def _hold(self, stream: Stream, told: events.UsageReported) -> None:
        stream.hold(told.tokens_used, window=told.tokens_window)
        if told.tokens_read is None:
            return
        is_own = stream is self.own
        self.counted = self.counted.and_one(told, is_own=is_own)
        self._goes_on = stream.has_called or not is_own
        stream.has_called = False

    def _note(self, stream: Stream, event: events.AgentEvent) -> None:
        match event:
            case events.UsageReported():
                self._hold(stream, event)
            case events.TitleChanged(title=title):
                # Agents name sessions with a model's words: kept on one line, and short.
                stream.title = one_line_name(title)
            case events.ContextCompacted():
                stream.was_compacted = True
                stream.note(UnknownPart(kind="compacted", raw=None))
            case events.UserTextReplayed(text=text):
                if stream is not self.own:  # ours is stored before it is sent
                    stream.hear(text)
            case events.PlanChanged(entries=entries):
                stream.note(UnknownPart(kind="plan", raw=entries))
            case events.PermissionAnswered():
                stream.note(UnknownPart(kind=PERMISSION, raw=_permission(event)))
            case events.UnknownReceived(kind=kind, raw=raw):
                stream.note(UnknownPart(kind=kind, raw=raw))
            case _:
                self._quarantine(event, reason="unknown kind of event")

    # --- routing -------------------------------------------------------------------------------

    def _stream_of(self, event: events.AgentEvent) -> Stream | None:
        if event.upstream_session_id is None:
            return self.own if self._guarantees_owner else None
        self._rejoin(event.upstream_session_id)
        return self._streams.get(event.upstream_session_id)

    def _quarantine(self, event: events.AgentEvent, *, reason: str) -> None:
        raw: Mapping[str, JsonValue] = {"event": type(event).__name__, **structs.asdict(event)}
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

    def _start_child(self, parent: Stream, event: events.ChildStarted) -> None:
        child_id = event.child_upstream_session_id
        if child_id not in self._streams:
            # Not an error: what it says goes into quarantine, as of any session that nobody knows.
            if len(self._streams) > CHILDREN_MAX:
                return
            self._streams[child_id] = self._child_stream(parent, event)
        stream = self._streams[child_id]
        if stream.parent is None:  # an agent that names its own session as its child
            return
        self._running[child_id] = None
        for alarm in self._depth.start(child_id, parent=parent.upstream_session_id):
            self._alarm(alarm, child_id)
        call = parent.open_call(event.call_id)
        if call is not None:
            call.child = stream.conversation_id

    def _rejoin(self, child_id: UpstreamSessionId) -> None:
        """Let a child that outlived its turn go on in its own conversation."""
        if child_id in self._known and child_id not in self._streams:
            own = self._link.upstream_session_id
            again = events.ChildStarted(
                upstream_session_id=own, child_upstream_session_id=child_id, role=""
            )
            self._start_child(self.own, again)

    def _alarm(self, alarm: str, *children: UpstreamSessionId) -> None:
        """Keep what the depth counter found odd, as a note that breaks no text."""
        for child_id in children:
            raw: JsonValue = {
                "alarm": alarm,
                "depth": self._depth.depth,
                "upstream_session_id": child_id,
            }
            self.own.remark(UnknownPart(kind=ALARM, raw=raw))

    def _child_stream(self, parent: Stream, event: events.ChildStarted) -> Stream:
        child_id = event.child_upstream_session_id
        known = self._known.get(child_id)
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

    def _open_child(self, parent: Stream, event: events.ChildStarted) -> ConversationId:
        child = child_conversation(
            self._parent,
            parent_conversation_id=parent.conversation_id,
            started=event,
            opened_at_ms=self._sheet.now_ms,
        )
        self._sheet.writes += [
            OpenConversation(conversation=child),
            OpenLink(link=self._child_link(child, event.child_upstream_session_id)),
        ]
        return child.conversation_id

    def _end_child(self, child_id: UpstreamSessionId, outcome: Outcome) -> None:
        """Close a child's stream and note its end in the parent's. A second end changes nothing."""
        if child_id not in self._running:
            return
        del self._running[child_id]
        child = self._streams[child_id]
        assert child.parent is not None, "only children run"
        child.close()
        raw: dict[str, JsonValue] = {
            "conversation_id": child.conversation_id,
            "outcome": str(outcome),
            "tokens_used": child.tokens_used,
            "title": child.title,
        }
        child.parent.note(UnknownPart(kind="child_ended", raw=raw))

    def _child_link(self, child: Conversation, upstream: UpstreamSessionId) -> Link:
        return Link(
            conversation_id=child.conversation_id,
            seq=1,
            upstream_session_id=upstream,
            agent=self._link.agent,
            agent_version=self._link.agent_version,
            working_directory=self._link.working_directory,
            opened_because="child",
            opened_at_ms=self._sheet.now_ms,
        )


def _permission(event: events.PermissionAnswered) -> JsonValue:
    return {
        "call_id": event.call_id,
        "title": event.title,
        "answer": event.answer,
        "answered_by": event.answered_by,
    }


# --- sub-agents -----------------------------------------------------------------------------------
# The depth is a counter beside the routing, as an alarm, and changes nothing: counting starts and
# ends alone would have to guess when sub-agents run at once or one inside the other, and an end
# without a start would leave the counter wrong for good. Each alarm is reported with the depth at
# that moment. A hand-off within a session is no delegation and does not move the counter.


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


# --- the depth of delegations ---------------------------------------------------------------------

ALARM: Final = "depth_alarm"
"""The kind of the note that keeps an alarm."""

NESTED: Final = "nested"
PARALLEL: Final = "parallel"
UNMATCHED_END: Final = "unmatched_end"
OPEN_AT_END: Final = "open_at_end"

ALARMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        NESTED: "a sub-agent called one of its own",
        PARALLEL: "a sub-agent began while another one ran",
        UNMATCHED_END: "a sub-agent ended that had not begun",
        OPEN_AT_END: "the turn ended while a sub-agent ran",
    }
)
"""Every alarm, in words."""


class DepthCounter:
    """Counts the sub-agents that run. `depth` is how many do."""

    def __init__(self) -> None:
        self._running: dict[UpstreamSessionId, UpstreamSessionId] = {}

    @property
    def depth(self) -> int:
        return len(self._running)

    def start(self, child: UpstreamSessionId, *, parent: UpstreamSessionId) -> tuple[str, ...]:
        """Count a start; returns its alarms, none for one that is counted already."""
        if child in self._running:
            return ()
        is_nested = parent in self._running
        # Those it came from run as well, and are no others beside it.
        is_parallel = any(other not in self._above(parent) for other in self._running)
        self._running[child] = parent
        return (NESTED,) * is_nested + (PARALLEL,) * is_parallel

    def end(self, child: UpstreamSessionId) -> tuple[str, ...]:
        """Count an end; one without a start is an alarm, and the counter stays."""
        return () if self._running.pop(child, None) is not None else (UNMATCHED_END,)

    def finish(self) -> tuple[UpstreamSessionId, ...]:
        """Return the sub-agents that still run at the end of the turn, the first one first."""
        return tuple(self._running)

    def _above(self, session: UpstreamSessionId) -> set[UpstreamSessionId]:
        """Return the running sub-agent `session` and those it came from."""
        above: set[UpstreamSessionId] = set()
        # Who is whose parent is the agent's word: two that name each other must not hold us here.
        while session in self._running and session not in above:
            above.add(session)
            session = self._running[session]
        return above
