"""A stream: what is said in one conversation during one turn, as parts of numbered messages.

Decides where a part begins and ends, which message it belongs to and what is still open. Whose
stream an event belongs to is the recorder's question (core/turns/recorder.py), not this one's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec import Struct, field, structs

from upthread.core import types
from upthread.core.commands import RecordParts, Write
from upthread.core.events import (
    CALL_ENDED,
    CALL_UNKNOWN,
    INTERRUPTED,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
)
from upthread.core.text import PARAGRAPH
from upthread.core.turns.effects import INTENT

# A part is written when it is whole: a reply without end must not wait in memory for that.
TEXT_CHARACTERS_BUFFERED_MAX: Final = 64 * 1024
"""A longer run of text is recorded in pieces; readers see it joined."""

COMPACTED_BELOW: Final = 0.5
"""A session that holds less than this share of what it held has been compacted."""

Spoken: TypeAlias = types.TextPart | types.ReasoningPart


class Sheet(Struct, kw_only=True):
    """What all streams of a turn write on. `now_ms` is the time of the event at hand."""

    conversation_id: types.ConversationId
    turn_id: types.TurnId
    call_durability: types.Durability = types.Durability.PROCESS
    now_ms: int = 0
    writes: list[Write] = field(default_factory=list[Write])


class OpenCall(Struct, kw_only=True):
    """A call between its announcement and its result."""

    part: types.ToolCallPart
    text: str = ""
    is_recorded: bool = False
    write: RecordParts | None = None
    child: types.ConversationId | None = None


class Stream:
    """One conversation's part of a turn. `next_seq` is the message it starts at.

    `parent` is the stream of the call it came from, None for the turn's own.
    """

    def __init__(
        self,
        sheet: Sheet,
        *,
        conversation_id: types.ConversationId,
        upstream_session_id: types.UpstreamSessionId,
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
        self._speaker: types.Speaker | None = None
        self._text: list[str] = []
        self._text_kind: type[Spoken] = types.TextPart
        self._text_speaker = types.Speaker.ASSISTANT
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
        self._buffer(event.text, types.TextPart)

    def think(self, text: str) -> None:
        """Take a piece of the reasoning."""
        self._is_reply_broken = True
        self._buffer(text, types.ReasoningPart)

    def hear(self, text: str) -> None:
        """Take a piece of what the user, or the parent agent, said in this conversation."""
        self._buffer(text, types.TextPart, speaker=types.Speaker.USER)

    def note(self, part: types.UnknownPart) -> None:
        """Add to the message that is open: a note is nobody's words and parts no call's results."""
        self.close_text()
        self._append(self._speaker or types.Speaker.ASSISTANT, part)

    def remark(self, part: types.UnknownPart) -> None:
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
        self, text: str, kind: type[Spoken], *, speaker: types.Speaker = types.Speaker.ASSISTANT
    ) -> None:
        if self._text and (self._text_kind, self._text_speaker) != (kind, speaker):
            self.close_text()
        self._text_kind, self._text_speaker = kind, speaker
        self._text.append(text)
        self._text_characters += len(text)
        if self._text_characters >= TEXT_CHARACTERS_BUFFERED_MAX:
            self.settle_text()

    # --- calls ---------------------------------------------------------------------------------

    def expect(self, part: types.ToolCallPart) -> None:
        """Wait for the result of a call that is recorded already."""
        self._calls[part.call_id] = OpenCall(part=part, is_recorded=True)

    def announce(self, event: ToolCallAnnounced) -> None:
        """Open a call; it is recorded when it runs, since some agents learn its arguments late."""
        if event.call_id in self._calls:  # announced twice: the second one says more
            self.update(_as_update(event))
            return
        self.close_text()
        part = types.ToolCallPart(
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

    def intend(self, part: types.ToolCallPart) -> None:
        """Record a call before it is allowed, synced, as what it will do."""
        self.has_called = True
        call = self._calls.setdefault(part.call_id, OpenCall(part=part))
        self.close_text()
        if call.write is not None and call.part == structs.replace(
            part, locations=call.part.locations
        ):
            # The intent adds nothing. The same write again is only synced (S2).
            again = structs.replace(call.write, durability=types.Durability.SYNCED)
            self._sheet.writes.append(again)
        elif call.is_recorded:  # a synced write of its own covers the one that was not
            note = types.UnknownPart(
                kind=INTENT,
                raw={
                    "call_id": part.call_id,
                    "title": part.title,
                    "tool_kind": part.tool_kind,
                    "arguments": part.arguments,
                },
            )
            self._append(types.Speaker.ASSISTANT, note, durability=types.Durability.SYNCED)
        else:
            call.part = part
            self._record_call(call, durability=types.Durability.SYNCED)

    def update(self, event: ToolCallUpdated, *, child: types.ConversationId | None = None) -> None:
        """Take more about a call, such as the child it made; with a last status, its result."""
        call = self._calls.get(event.call_id)
        if call is None:
            if event.call_id in self._closed:
                return  # it has its result; a second one would make the history invalid
            self.has_called = True
            part = types.ToolCallPart(
                call_id=event.call_id, title=event.title or "", tool_kind="other"
            )
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
            self.remark(types.UnknownPart(kind="title", raw=self.title))

    def _record_call(self, call: OpenCall, *, durability: types.Durability | None = None) -> None:
        if not call.is_recorded:
            call.is_recorded = True
            durability = durability or self._sheet.call_durability
            call.write = self._append(types.Speaker.ASSISTANT, call.part, durability=durability)

    def _close_call(self, call_id: str, *, status: str, text: str) -> None:
        call = self._calls.pop(call_id)
        self._closed.add(call_id)
        self.close_text()
        self._record_call(call)
        result = types.ToolResultPart(
            call_id=call_id, status=status, text=text, child_conversation_id=call.child
        )
        self._append(types.Speaker.TOOL, result)

    # --- numbers -------------------------------------------------------------------------------

    def _append(
        self,
        speaker: types.Speaker,
        part: types.Part,
        *,
        durability: types.Durability = types.Durability.PROCESS,
    ) -> RecordParts:
        if self._speaker is not None and self._speaker is not speaker:
            self._seq += 1
            self._ordinal = 0
        self._speaker = speaker
        if not isinstance(part, types.TextPart):
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
    return sum(
        isinstance(part, types.ToolResultPart) and part.status == CALL_UNKNOWN for part in parts
    )


def _as_update(event: ToolCallAnnounced) -> ToolCallUpdated:
    return ToolCallUpdated(
        upstream_session_id=event.upstream_session_id,
        call_id=event.call_id,
        title=event.title,
        tool_kind=event.tool_kind,
        arguments=event.arguments,
        locations=event.locations or None,
    )


def _merged(part: types.ToolCallPart, event: ToolCallUpdated) -> types.ToolCallPart:
    return types.ToolCallPart(
        call_id=part.call_id,
        title=event.title or part.title,
        tool_kind=event.tool_kind or part.tool_kind,
        arguments=event.arguments or part.arguments,
        locations=part.locations if event.locations is None else event.locations,
    )
