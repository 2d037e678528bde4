"""What an agent's own session holds and the record does not: whole turns, and the end of one. Pure.

A copy of the record that is put back is older than the session, which goes on knowing all of it; a
person may have prompted the session in the agent's own interface. Sessions are compared by their
prompts alone, in order: replies come back in other pieces, prompts nearly as they were sent. What
is looked for comes after the last prompt that both know, so that what only one of them has kept
(a prompt that never arrived, the beginning before a compaction) is never taken for missing. A
prompt to which nothing was said is no turn: agents keep such for commands of their own.

A crash loses what was said of one turn after the last commit. The agent replays it in other pieces,
with other white space, calls under their old ids; what is stored lost its secrets on the way, so
the replay loses them likewise before the two are compared. Nothing is stored twice, nothing new is
left out. The recorded text is always the beginning of the replayed one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from upthread.core import events, types
from upthread.core.codec import encode_json
from upthread.core.events import CALL_ENDED
from upthread.core.redaction.values import has_placeholder
from upthread.core.turns.effects import answered_permissions
from upthread.core.turns.recognition import (
    FoldedPrompt,
    StoredTurn,
    children_of,
    folded_prompt,
    stored_turns,
)

if TYPE_CHECKING:
    from upthread.core.redaction.redactor import Redactor

PAIRS_MAX: Final = 1_000_000
"""How many pairs of prompts are compared at most; beyond, nobody can tell in good time."""

UNKNOWN_PROMPTS: Final = "none of its prompts is one of the record's"
TOO_MANY: Final = "it has too many prompts to be compared"


class Lacked(Struct, frozen=True, kw_only=True):
    """What a record lacks of a session, oldest first.

    `fault` says why that cannot be told, empty where it can. `gone` names the turns on record that
    the session does not hold, because its store was put back from an older copy. `is_empty` is
    whether the session is known to hold no prompt at all: its store has none. `lost` is then why
    the session before it was given up, None where that was not lost. `other_profile` is
    the variable with the place that the session is in, empty where that is here. `stamp` is what
    the session's store was known by when it was looked at, empty where nobody looked;
    `written_at_ns` is when it was last written to.
    """

    turns: tuple[StoredTurn, ...] = ()
    fault: str = ""
    gone: str = ""
    is_empty: bool = False
    lost: types.Outcome | None = None
    other_profile: str = ""
    stamp: str = ""
    written_at_ns: int = 0

    @property
    def as_inputs(self) -> Mapping[str, Any]:
        """Return the inputs of a decision that tell it."""
        return {
            "turns_lacking": len(self.turns) or None,
            "not_compared": self.fault,
            "turns_gone": self.gone,
            "is_session_empty": self.is_empty,
            "other_profile": self.other_profile,
        } | ({"session_lost": self.lost} if self.lost else {})


NOTHING_LACKED: Final = Lacked()


def lacked(
    history: Sequence[events.AgentEvent],
    recorded: Sequence[types.Message],
    session: types.UpstreamSessionId,
) -> Lacked:
    """Compare a session with all messages of its conversation, oldest first.

    The history is as it would have been recorded: core/turns/replayed_history.py. Prompts that went
    to earlier sessions are among the recorded ones, and do no harm. A session in which nobody is
    known to have answered us (adopted, forked, begun a moment ago) need not know any of ours.
    """
    held = answered_turns(history)
    asked = [message for message in recorded if message.speaker is types.Speaker.USER]
    # Before anything is compared: a person waits for the prompt.
    if len(held) * len(asked) > PAIRS_MAX:
        return Lacked(fault=TOO_MANY)
    end, turns = _after_known(held, asked, recorded)
    if end == 0:
        # Without an answer of it on record the session may be one that never had a prompt of ours.
        has_answered = any(
            message.upstream_session_id == session and message.speaker is not types.Speaker.USER
            for message in recorded
        )
        return Lacked(fault=UNKNOWN_PROMPTS) if held and has_answered else NOTHING_LACKED
    return Lacked(turns=turns)


def not_recorded(
    held: Sequence[StoredTurn], recorded: Sequence[types.Message]
) -> tuple[StoredTurn, ...]:
    """Return a session's turns after the last one that is on record, all of them without one."""
    asked = [message for message in recorded if message.speaker is types.Speaker.USER]
    return _after_known(held, asked, recorded)[1]


def _after_known(
    held: Sequence[StoredTurn],
    asked: Sequence[types.Message],
    recorded: Sequence[types.Message],
) -> tuple[int, tuple[StoredTurn, ...]]:
    """Return how many turns lead to the last one that is on record, and those after it."""
    end = _known_to_both(
        [folded_prompt(turn.prompt) for turn in held], [_texts(each) for each in asked]
    )
    known = {
        part.call_id
        for message in recorded
        for part in message.parts
        if isinstance(part, types.ToolCallPart)
    }
    return end, tuple(turn for turn in held[end:] if not _is_recorded(turn, known))


def gone_turns(
    history: Sequence[events.AgentEvent],
    recorded: Sequence[types.Message],
    session: types.UpstreamSessionId,
    *,
    was_streamed: bool = False,
) -> Iterator[types.Message]:
    """Yield the prompts on record that a session answered and no longer holds, newest first.

    The first prompt that the session holds ends the search. A session holds nothing from before its
    last compaction. `was_streamed`: the agent may have streamed words that its history leaves out,
    for example a warning, so one message that both have is enough.
    """
    at = [at for at, each in enumerate(history) if isinstance(each, events.ContextCompacted)]
    turns = answered_turns(history[at[-1] + 1 :] if at else history)
    held = [(folded_prompt(turn.prompt), _said(turn.events)) for turn in turns]
    reply: list[types.Message] = []
    for message in reversed(recorded):
        if message.speaker is not types.Speaker.USER:
            reply += [message] if message.upstream_session_id == session else []
        elif reply:
            parts = [part for each in reversed(reply) for part in each.parts]
            if _is_held(held, _texts(message), parts, was_streamed=was_streamed):
                return
            yield message
            reply.clear()


def _is_held(
    held: Sequence[tuple[FoldedPrompt, Sequence[str]]],
    texts: tuple[FoldedPrompt, ...] | None,
    reply: Sequence[types.Part],
    *,
    was_streamed: bool,
) -> bool:
    text = "".join(part.text for part in reply if isinstance(part, types.TextPart))
    is_whole = not has_placeholder(text) and all(
        not isinstance(part, types.ErasedPart) for part in reply
    )
    wanted = "".join(text.split()) if is_whole else ""
    # Without ids of messages, prompts that nobody answered run together with the next one.
    same = (
        at
        for at, (prompt, _) in enumerate(held)
        if _is_same(prompt, texts)
        or (was_streamed and any(prompt.whole.endswith(each.whole) for each in texts or ()))
    )
    if was_streamed:
        return any(not wanted or any(each in wanted for each in held[at][1]) for at in same)
    # From each prompt to the end, because an agent may go on by itself, with a prompt of its own.
    return any(
        "".join(each for _, said in held[at:] for each in said).startswith(wanted) for at in same
    )


def _said(told: Iterable[events.AgentEvent]) -> list[str]:
    """Return the messages of a turn that are not empty, without white space."""
    texts = (event.text for event in told if isinstance(event, events.TextReceived))
    return list(filter(None, ("".join(text.split()) for text in texts)))


def has_prompt(history: Iterable[events.AgentEvent]) -> bool:
    """Return whether a session holds any prompt, answered or not."""
    return any(isinstance(event, events.UserTextReplayed) for event in history)


def answered_turns(history: Sequence[events.AgentEvent]) -> tuple[StoredTurn, ...]:
    """Return all of a session's turns, oldest first, for a record that has nothing of it yet."""
    return tuple(turn for turn in stored_turns(history) if _is_answered(turn))


def is_finished(turn: StoredTurn) -> bool:
    """Return whether a turn came to its end: its calls have one, and the agent spoke last."""
    open_calls: set[str] = set()
    has_spoken_last = False
    for event in turn.events:
        match event:
            case events.ToolCallAnnounced(call_id=call_id):
                open_calls.add(call_id)
                has_spoken_last = False
            case events.ToolCallUpdated(call_id=call_id, status=status) if status in CALL_ENDED:
                open_calls.discard(call_id)
            case events.TextReceived():
                has_spoken_last = True
            case _:
                pass
    return has_spoken_last and not open_calls


def _is_answered(turn: StoredTurn) -> bool:
    kinds = (events.TextReceived, events.ReasoningReceived, events.ToolCallAnnounced)
    return any(isinstance(event, kinds) for event in turn.events)


def _is_recorded(turn: StoredTurn, known: set[str]) -> bool:
    """Whether what a turn called is on record: the agent went on by itself within one of ours."""
    called = {event.call_id for event in turn.events if isinstance(event, events.ToolCallAnnounced)}
    return bool(called) and called <= known


def _texts(message: types.Message) -> tuple[FoldedPrompt, ...] | None:
    """Return what a recorded prompt may have been sent as, None where it was not kept."""
    if any(isinstance(part, types.ErasedPart) for part in message.parts):
        return None
    return tuple(map(folded_prompt, {message.sent_text, message.text}))


def _known_to_both(
    held: Sequence[FoldedPrompt], asked: Sequence[tuple[FoldedPrompt, ...] | None]
) -> int:
    """Return how many of a session's prompts there are up to the last that both know; 0 for none.

    As many are paired as can be, in order, and of all ways to do so the one that ends first counts.
    What is on record whole is then never missing, and what follows a record that is, always.
    """
    # By column: the most pairs between the session's first prompts and all recorded so far.
    most = [0] * (len(held) + 1)
    for texts in asked:
        diagonal = 0
        for at, prompt in enumerate(held, start=1):
            above = most[at]
            paired = diagonal + _is_same(prompt, texts)
            most[at] = max(above, most[at - 1], paired)
            diagonal = above
    return most.index(most[-1])


def _is_same(prompt: FoldedPrompt, texts: tuple[FoldedPrompt, ...] | None) -> bool:
    # One that was forgotten fits any: taken for another, all after it would be read back again.
    return texts is None or any(map(prompt.holds, texts))


# --- the end of a turn ----------------------------------------------------------------------------


def unrecorded(
    tail: Sequence[events.AgentEvent],
    recorded: Iterable[types.Message],
    *,
    children: Container[str | None] | None = None,
) -> tuple[events.AgentEvent, ...]:
    """Return the events of a replayed tail that are not in the store yet.

    `recorded` are the turn's messages after its prompt. The tail follows the last prompt of the
    turn, so only what was recorded after that counts. The words of `children` are left out, because
    they are on record in conversations of their own. None means each child in the tail.
    """
    known = _Known(_parts_after_last_prompt(recorded))
    children = children_of(tail) if children is None else children
    owned = (event for event in tail if event.upstream_session_id not in children)
    return tuple(left for event in owned if (left := known.without(event)) is not None)


def open_calls(recorded: Iterable[types.Message]) -> tuple[types.ToolCallPart, ...]:
    """Return the recorded calls of a turn that have no result, oldest first."""
    parts = [part for message in recorded for part in message.parts]
    answered = {part.call_id for part in parts if isinstance(part, types.ToolResultPart)}
    calls = {part.call_id: part for part in parts if isinstance(part, types.ToolCallPart)}
    return tuple(part for call_id, part in calls.items() if call_id not in answered)


def attended_calls(recorded: Iterable[types.Message]) -> frozenset[str]:
    """Return the calls whose end is recorded, or that somebody of ours allowed or refused."""
    parts = [part for message in recorded for part in message.parts]
    ended = {part.call_id for part in parts if isinstance(part, types.ToolResultPart)}
    return frozenset(ended.union(*map(answered_permissions, parts)))


def _parts_after_last_prompt(recorded: Iterable[types.Message]) -> list[types.Part]:
    parts: list[types.Part] = []
    for message in recorded:
        if message.speaker is types.Speaker.USER:
            parts.clear()
        else:
            parts += message.parts
    return parts


class _Known:
    """What is recorded and has not been met in the tail yet."""

    def __init__(self, parts: Sequence[types.Part]) -> None:
        self._answered = {part.call_id for part in parts if isinstance(part, types.ToolResultPart)}
        self._announced = {part.call_id for part in parts if isinstance(part, types.ToolCallPart)}
        self._text = "".join(part.text for part in parts if isinstance(part, types.TextPart))
        self._reasoning = "".join(
            part.text for part in parts if isinstance(part, types.ReasoningPart)
        )
        self._notes = [_note(p.kind, p.raw) for p in parts if isinstance(p, types.UnknownPart)]

    def without(self, event: events.AgentEvent) -> events.AgentEvent | None:
        """Return what is new in an event, None for nothing."""
        match event:
            case events.TextReceived(text=text):
                new, self._text = _beyond(text, self._text)
                return structs.replace(event, text=new) if new else None
            case events.ReasoningReceived(text=text):
                new, self._reasoning = _beyond(text, self._reasoning)
                return structs.replace(event, text=new) if new else None
            case _:
                return None if self._is_stored(event) else event

    def _is_stored(self, event: events.AgentEvent) -> bool:
        match event:
            case events.ToolCallAnnounced(call_id=call_id):
                return call_id in self._announced
            case events.ToolCallUpdated(call_id=call_id):
                # By its result: an update of a call that is still open may bring it.
                return call_id in self._answered
            case events.PlanChanged(entries=entries):
                return self._meet(_note("plan", entries))
            case events.ContextCompacted():
                return self._meet(_note("compacted", None))
            case events.UnknownReceived(kind=kind, raw=raw):
                return self._meet(_note(kind, raw))
            case _:
                return False

    def _meet(self, note: bytes) -> bool:
        if note not in self._notes:
            return False
        # Once for each: the same plan may really have come twice.
        self._notes.remove(note)
        return True


def _note(kind: str, raw: types.JsonValue) -> bytes:
    return encode_json([kind, raw])


def _beyond(text: str, known: str) -> tuple[str, str]:
    """Return what of a text is not known, and what of the known text is left.

    White space counts for nothing: agents give it back as they like. From the first difference on,
    all is new.
    """
    if text.startswith(known):
        return text[len(known) :], ""
    if known.startswith(text):
        return "", known[len(text) :]
    at, met = 0, 0
    while True:
        following, waiting = _next_visible(text, at), _next_visible(known, met)
        if following == len(text):
            return "", known[met:]
        if waiting == len(known):
            return text[at:] if met == len(known) else text[following:], ""
        if text[following] != known[waiting]:
            return text[at:], ""
        at, met = following + 1, waiting + 1


def _next_visible(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


# --- a replayed history as it would have been recorded --------------------------------------------


_SPOKEN: Final = (events.UserTextReplayed, events.TextReceived, events.ReasoningReceived)


def redacted_history(
    history: Iterable[events.AgentEvent], redactor: Redactor
) -> tuple[events.AgentEvent, ...]:
    """Return a history without its secrets, the pieces of each text joined."""
    return tuple(_redacted(event, redactor) for event in joined(history))


def joined(history: Iterable[events.AgentEvent]) -> Iterator[events.AgentEvent]:
    """Yield a history with whole texts: pieces that follow each other in one message are one."""
    for _, together in groupby(history, key=_text_of):
        first, *others = together
        if isinstance(first, _SPOKEN):
            text = "".join(piece.text for piece in (first, *others) if isinstance(piece, _SPOKEN))
            yield structs.replace(first, text=text)
        else:
            yield from (first, *others)


def _text_of(event: events.AgentEvent) -> object:
    """Return what says that two events are pieces of one text; for any other kind, its class."""
    if isinstance(event, _SPOKEN):
        # A child speaks between the pieces of its parent's text: by session, they are not joined.
        return type(event), event.upstream_session_id, getattr(event, "message_id", None)
    return type(event)


def _redacted(event: events.AgentEvent, redactor: Redactor) -> events.AgentEvent:
    match event:
        case events.UserTextReplayed() | events.TextReceived() | events.ReasoningReceived():
            return structs.replace(event, text=redactor.redact(event.text))
        case events.ToolCallAnnounced():
            return structs.replace(
                event,
                title=redactor.redact(event.title),
                arguments=redactor.redact_json(event.arguments),
                locations=tuple(map(redactor.redact, event.locations)),
            )
        case events.ToolCallUpdated():
            return _redacted_update(event, redactor)
        case events.PlanChanged(entries=entries):
            redacted = ((redactor.redact(text), status) for text, status in entries)
            return structs.replace(event, entries=tuple(redacted))
        case events.UnknownReceived():
            return structs.replace(event, raw=redactor.redact_json(event.raw))
        case _:
            return event


def _redacted_update(event: events.ToolCallUpdated, redactor: Redactor) -> events.ToolCallUpdated:
    def redacted(value: types.JsonValue) -> str | None:
        return redactor.redact(value) if isinstance(value, str) else None

    locations = event.locations
    return structs.replace(
        event,
        title=redacted(event.title),
        text=redacted(event.text),
        arguments=redactor.redact_json(event.arguments),
        locations=None if locations is None else tuple(map(redactor.redact, locations)),
    )
