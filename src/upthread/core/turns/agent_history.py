"""An agent's own history, held against the record: what of a prompt arrived, and what is missing.

Recognition reads it after a crash. It never guesses: a reply is complete only when that can be
known, and a history that cannot be told from another is undecidable.

A copy of the record that is put back is older than the session, which goes on knowing all of it; a
person may have prompted the session in the agent's own interface. Sessions are compared by their
prompts alone, in order: replies come back in other pieces, prompts nearly as they were sent. What
is looked for comes after the last prompt that both know, so that what only one of them has kept
(a prompt that never arrived, the beginning before a compaction) is never taken for missing. A
prompt to which nothing was said is no turn: agents keep such for commands of their own.

A crash loses what was said of one turn after the last commit. The agent replays it in other pieces,
with other white space, calls under their old ids. Nothing is stored twice, nothing new is left out.
The recorded text is always the beginning of the replayed one.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.codec import encode_json
from upthread.core.events import (
    CALL_ENDED,
    CALL_FAILED,
    REQUEST_FAILED,
    AgentEvent,
    ChildEnded,
    ChildStarted,
    ContextCompacted,
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UnknownReceived,
    UsageReported,
    UserTextReplayed,
)
from upthread.core.redaction.values import has_placeholder
from upthread.core.roles.reports import ends_with_report
from upthread.core.text import PARAGRAPH, one_line
from upthread.core.turns.effects import answered_permissions
from upthread.core.turns.turn import Recognition
from upthread.core.types import (
    ErasedPart,
    JsonValue,
    Message,
    Outcome,
    Part,
    ReasoningPart,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    UpstreamSessionId,
)

WAYS_MAX = 2
"""One way to read a text is certain, two are not; more need not be known."""


class Recognised(Struct, frozen=True, kw_only=True):
    """The judgement, with the reply so far and the actions: each call's id, title and status.

    `was_unattended` is whether a call failed while nobody of ours was there, and perhaps did not
    run: for want of a permission that nobody could give. `written_at_ns` is when the agent's store
    was last written to, in epoch nanoseconds; 0 for a history that came otherwise.
    """

    recognition: Recognition
    reply: str = ""
    effects: tuple[tuple[str, str, str], ...] = ()
    tail: tuple[AgentEvent, ...] = ()
    was_unattended: bool = False
    written_at_ns: int = 0


class EarlierPrompt(Struct, frozen=True):
    """A prompt of ours that left for the session before; one that was answered is surely there."""

    text: str
    was_answered: bool = False


def recognise(
    history: Sequence[AgentEvent],
    *,
    sent_text: str,
    earlier: Sequence[EarlierPrompt] = (),
    has_older: bool = False,
    attended_calls: Collection[str] = (),
) -> Recognised:
    """Judge from an agent's history whether a prompt arrived and was answered.

    `earlier` are the prompts that left for this session before, oldest first, `has_older` whether
    there are more. Each message of the history is matched with one of them, by its text with white
    space folded; an agent may add lines to it, and have it in other words where it was answered. A
    history that lacks an answered one is a part of one and tells nothing. Where the messages can be
    matched in more ways, all of them have to agree on whether the prompt is there. A
    reply counts as complete only when that can be known: no call is open, a report is the last
    thing in it, and no call failed but `attended_calls`, those whose end or permission is on
    record, and such as ran: a check that fails is an answer. An agent that outlives us fails at
    what it must ask for, and what it then reports is no outcome of its work. A prompt of which not
    all was kept, a secret in it or all its text, is never called absent: it could not be sent again
    as it was.
    """
    known = (*(prompt.text for prompt in earlier), sent_text)
    children = children_of(history)
    messages = _user_messages(history, children)
    prompts = [prompt for message in messages for prompt in _told_apart(message, known)]
    places = _places(prompts, known, [each.was_answered for each in earlier], has_older=has_older)
    if places == {_Place.LAST}:
        # With what children said: which sessions are children's only the whole history tells.
        tail = tuple(history[prompts[-1].end :])
        own = [event for event in tail if event.upstream_session_id not in children]
        found = _judge_reply(own, attended_calls)
        return replace(found, tail=tail)
    # Redacted, it could not be found by its text, and not be sent again either.
    is_kept = bool(sent_text.strip()) and not has_placeholder(sent_text)
    is_past = not has_older and _begins_otherwise(prompts, known)
    is_ours = _ends_like(prompts, sent_text, known if is_past else ())
    is_absent = places == {_Place.NOWHERE} and is_kept and not is_ours
    return Recognised(recognition=Recognition.ABSENT if is_absent else Recognition.UNDECIDABLE)


class _Prompt(Struct, frozen=True):
    """A user message of the history and the index after it.

    One that `may_be_more` has no id: prompts that follow each other read as one.
    """

    end: int
    text: str
    may_be_more: bool = False


class _Place(Enum):
    """Where in a history a prompt is; in doubt behind it, or in its place, stands a stranger's."""

    LAST = auto()
    IN_DOUBT = auto()
    NOWHERE = auto()


def _places(
    prompts: Sequence[_Prompt], known: Sequence[str], answered: Sequence[bool], *, has_older: bool
) -> set[_Place]:
    """Return where the last of the known prompts can be, over all ways to match them in order.

    A way is told by how many of the known are behind it, and whether a stranger's message came
    after the last of those.
    """
    folded = [folded_prompt(text) for text in known]
    ways = {(0, False)}
    for prompt in prompts:
        alike = _alike(folded_prompt(prompt.text), folded)
        following: set[tuple[int, bool]] = set()
        for first, _ in ways:
            if not alike or (has_older and first == 0):
                following.add((first, True))
            for place in range(first, len(known)):
                is_certain = place < len(answered) and answered[place]
                if place in alike or (is_certain and not alike):
                    following.add((place + 1, False))
                if is_certain:
                    break
        ways = following
    return {
        _Place.IN_DOUBT if is_strange else _Place.LAST if end == len(known) else _Place.NOWHERE
        for end, is_strange in ways
        if not any(answered[end:])
    }


def _alike(message: FoldedPrompt, known: Sequence[FoldedPrompt]) -> set[int]:
    """Return which of the known prompts a message can be: those equal to it, else the longest."""
    held = {place: len(prompt.whole) for place, prompt in enumerate(known) if message.holds(prompt)}
    longest = max(held.values(), default=0)
    return {place for place, length in held.items() if length == longest}


def _told_apart(message: _Prompt, known: Sequence[str]) -> list[_Prompt]:
    """Return the prompts that a message is made of where that is certain, else the message.

    Agents need not give ids to messages, and prompts that were not answered then run together.
    """
    made_of = _only_way(_without_space(message.text), known) if message.may_be_more else ()
    return [_Prompt(message.end, text) for text in made_of] or [message]


def _only_way(whole: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of `known`, in their order, that a text is made of; empty if in doubt.

    All of it has to be made of them, and in one way only. White space does not count.
    """
    ways: dict[int, set[tuple[str, ...]]] = {0: {()}}
    for text in known:
        piece = _without_space(text)
        for end, before in [(end, set(each)) for end, each in ways.items() if piece]:
            if whole.startswith(piece, end):
                ends = ways.setdefault(end + len(piece), set())
                # Bounded, since equal prompts can be put together
                # in very many ways; sorted for the same two.
                ends.update(sorted((*way, text) for way in before)[:WAYS_MAX])
    found = ways.get(len(whole), set())
    return next(iter(found)) if len(found) == 1 else ()


def _without_space(text: str) -> str:
    return "".join(text.split())


def _ends_like(prompts: Sequence[_Prompt], sent_text: str, known: Sequence[str]) -> bool:
    """Whether the last message holds our words, however they are put together.

    One that is a `known` prompt, word for word, is that prompt and not ours.
    """
    last = _without_space(prompts[-1].text) if prompts else None
    if last is None or last in map(_without_space, known):
        return False
    return _without_space(sent_text) in last


def _begins_otherwise(prompts: Sequence[_Prompt], known: Sequence[str]) -> bool:
    """Whether a history has its beginning: the first known prompt, which is not the last one too.

    For example the one that told the role. Of prompts that are all alike nobody can tell.
    """
    first, last = folded_prompt(known[0]), folded_prompt(known[-1])
    is_there = bool(prompts) and folded_prompt(prompts[0].text).holds(first)
    return is_there and not last.holds(first)


class FoldedPrompt(Struct, frozen=True):
    """A prompt's lines with white space folded, and all of it on one line."""

    lines: tuple[str, ...]
    whole: str

    def holds(self, sent: FoldedPrompt) -> bool:
        """Return whether this is a prompt that was sent, or has lines before and after it."""
        if not sent.lines:
            return False
        if self.whole == sent.whole:
            return True
        starts = range(len(self.lines) - len(sent.lines) + 1)
        return any(
            self.lines[start] == sent.lines[0]
            and self.lines[start : start + len(sent.lines)] == sent.lines
            for start in starts
        )


def folded_prompt(text: str) -> FoldedPrompt:
    """Return a prompt as it is compared with what an agent has of it."""
    lines = tuple(folded for line in text.splitlines() if (folded := one_line(line)))
    return FoldedPrompt(lines, " ".join(lines))


def children_of(history: Iterable[AgentEvent]) -> frozenset[UpstreamSessionId]:
    """Return the sessions of all children that a history names."""
    return frozenset(
        child
        for event in history
        if isinstance(event, ChildStarted | ToolCallUpdated)
        and (child := event.child_upstream_session_id) is not None
    )


def _judge_reply(tail: Sequence[AgentEvent], attended: Collection[str]) -> Recognised:
    calls = _calls(tail)
    effects = tuple((call_id, title, status) for call_id, (title, status) in calls.items())
    is_open = any(status not in CALL_ENDED for _, status in calls.values())
    failed = {call_id for call_id, (_, status) in calls.items() if status == CALL_FAILED}
    # Refused for want of a person and failed on its own
    # look alike, but for a call that ran (ADR 88).
    was_unattended = not failed <= {*attended, *_ran(tail)}
    reply = _reply(tail)
    is_settled = not is_open and not was_unattended
    # A report last: without that, a reply and one that was cut off after a sentence are the same.
    is_complete = is_settled and _says_something_last(tail) and ends_with_report(reply)
    return Recognised(
        recognition=Recognition.COMPLETE if is_complete else Recognition.INCOMPLETE,
        reply=reply,
        effects=effects,
        was_unattended=was_unattended,
    )


def _ran(tail: Sequence[AgentEvent]) -> Iterator[str]:
    """Yield the calls that failed and ran."""
    for event in tail:
        if isinstance(event, ToolCallUpdated) and event.did_run:
            yield event.call_id


def _reply(tail: Sequence[AgentEvent]) -> str:
    """Return the text, in paragraphs where something came between, as a recorder has it."""
    pieces: list[str] = []
    previous: TextReceived | None = None
    for event in tail:
        if not isinstance(event, TextReceived):
            previous = None
            continue
        is_same = previous is not None and previous.message_id == event.message_id
        if pieces and not is_same:
            pieces.append(PARAGRAPH)
        pieces.append(event.text)
        previous = event
    return "".join(pieces)


def _says_something_last(tail: Sequence[AgentEvent]) -> bool:
    # Updates and numbers may come after the last word, and say nothing of it.
    telling = [
        event
        for event in tail
        if isinstance(event, TextReceived | ReasoningReceived | ToolCallAnnounced)
    ]
    return bool(telling) and isinstance(telling[-1], TextReceived)


def _calls(tail: Sequence[AgentEvent]) -> dict[str, tuple[str, str]]:
    calls: dict[str, tuple[str, str]] = {}
    for event in tail:
        if isinstance(event, ToolCallAnnounced):
            calls[event.call_id] = (event.title, "outcome unknown")
        elif isinstance(event, ToolCallUpdated):
            title, status = calls.get(event.call_id, (event.call_id, "outcome unknown"))
            ended = event.status if event.status in CALL_ENDED else None
            calls[event.call_id] = (event.title or title, ended or status)
    return calls


def _user_messages(
    history: Sequence[AgentEvent], children: Collection[UpstreamSessionId]
) -> list[_Prompt]:
    """Return the user messages; chunks that follow each other under one id are one message."""
    messages: list[_Prompt] = []
    previous: UserTextReplayed | None = None
    for end, event in enumerate(history, start=1):
        if event.upstream_session_id in children:
            continue
        if not isinstance(event, UserTextReplayed):
            previous = None
            continue
        if previous and previous.message_id == event.message_id:
            text = messages.pop().text + event.text
        else:
            text = event.text
        messages.append(_Prompt(end, text, may_be_more=event.message_id is None))
        previous = event
    return messages


# --- a session as its agent's own store has it ----------------------------------------------------
# When an agent is killed, nobody sees its turn end. What the turn was asked and did lies in the
# agent's own store, as a session that may hold earlier and later turns as well. The store is read
# by agents/stored.py.


class UndecidedCall(Struct, frozen=True, kw_only=True):
    """A call of a sub-agent that no hook could record: its agent's store has the hook's line."""

    main_session: str
    call_id: str
    role: str
    prompt: str
    directory: str


class StoredFailure(Struct, frozen=True, kw_only=True):
    """That the newest turn of a session failed, as its agent's store says."""

    outcome: Outcome
    detail: str


class StoredSession(Struct, frozen=True, kw_only=True):
    """A sub-agent's session as its agent's store holds it, oldest first.

    `written_at_ns` is when the store last wrote to it, in epoch nanoseconds: what was touched later
    was not touched under its eyes. `failure` is None unless the newest turn ended in one, and the
    store says which. Where the agent refused to begin a sub-agent, the session has no id.
    """

    upstream_session_id: UpstreamSessionId
    events: tuple[AgentEvent, ...]
    written_at_ns: int
    failure: StoredFailure | None = None


UNANSWERED = " unanswered"
"""The end of a session's stamp while its store has no reply to the newest prompt."""


class StoredTurn(Struct, frozen=True, kw_only=True):
    """One prompt of a stored session, and what came after it, up to the next prompt."""

    upstream_session_id: UpstreamSessionId | None
    prompt: str
    events: tuple[AgentEvent, ...]

    @property
    def told(self) -> tuple[UsageReported, ...]:
        """What its requests took and the session then held, none where its store does not tell."""
        return tuple(event for event in self.events if isinstance(event, UsageReported))


def stored_turns(events: Sequence[AgentEvent]) -> tuple[StoredTurn, ...]:
    """Return a stored session as its turns, without what its own sub-agents heard and said."""
    children = children_of(events)
    own = [event for event in events if event.upstream_session_id not in children]
    at = [i for i, event in enumerate(own) if isinstance(event, UserTextReplayed)]
    return tuple(_turn(own, *each) for each in pairwise((*at, len(own))))


def _turn(events: Sequence[AgentEvent], begin: int, end: int) -> StoredTurn:
    asked, *tail = events[begin:end]
    assert isinstance(asked, UserTextReplayed)
    children = children_of(tail)
    return StoredTurn(
        upstream_session_id=asked.upstream_session_id,
        prompt=asked.text,
        events=tuple(
            replace(event, child_upstream_session_id=None)
            if isinstance(event, ToolCallUpdated)
            else event
            for event in tail
            if event.upstream_session_id not in children
            and not isinstance(event, ChildStarted | ChildEnded)
        ),
    )


PAIRS_MAX = 1_000_000
"""How many pairs of prompts are compared at most; beyond, nobody can tell in good time."""

UNKNOWN_PROMPTS = "none of its prompts is one of the record's"
TOO_MANY = "it has too many prompts to be compared"


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
    lost: Outcome | None = None
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


NOTHING_LACKED = Lacked()


def lacked(
    history: Sequence[AgentEvent], recorded: Sequence[Message], session: UpstreamSessionId
) -> Lacked:
    """Compare a session with all messages of its conversation, oldest first.

    The history is as it would have been recorded (runtime/turns/recovery.py). Prompts that went
    to earlier sessions are among the recorded ones, and do no harm. A session in which nobody is
    known to have answered us (adopted, forked, begun a moment ago) need not know any of ours.
    """
    held = answered_turns(history)
    asked = sum(message.speaker is Speaker.USER for message in recorded)
    # Before anything is compared: a person waits for the prompt.
    if len(held) * asked > PAIRS_MAX:
        return Lacked(fault=TOO_MANY)
    end, turns = _after_known(held, recorded)
    if end == 0:
        # Without an answer of it on record the session may be one that never had a prompt of ours.
        has_answered = any(
            message.upstream_session_id == session and message.speaker is not Speaker.USER
            for message in recorded
        )
        return Lacked(fault=UNKNOWN_PROMPTS) if held and has_answered else NOTHING_LACKED
    return Lacked(turns=turns)


def not_recorded(held: Sequence[StoredTurn], recorded: Sequence[Message]) -> tuple[StoredTurn, ...]:
    """Return a session's turns after the last one that is on record, all of them without one."""
    return _after_known(held, recorded)[1]


def _after_known(
    held: Sequence[StoredTurn], recorded: Sequence[Message]
) -> tuple[int, tuple[StoredTurn, ...]]:
    """Return how many turns lead to the last one that is on record, and those after it."""
    asked = [_texts(message) for message in recorded if message.speaker is Speaker.USER]
    end = _known_to_both([folded_prompt(turn.prompt) for turn in held], asked)
    known = {
        part.call_id
        for message in recorded
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
    return end, tuple(turn for turn in held[end:] if not _is_recorded(turn, known))


def gone_turns(
    history: Sequence[AgentEvent],
    recorded: Sequence[Message],
    session: UpstreamSessionId,
    *,
    was_streamed: bool = False,
) -> Iterator[Message]:
    """Yield the prompts on record that a session answered and no longer holds, newest first.

    The first prompt that the session holds ends the search. A session holds nothing from before its
    last compaction. `was_streamed`: the agent may have streamed words that its history leaves out,
    for example a warning, so one message that both have is enough.
    """
    at = [at for at, each in enumerate(history) if isinstance(each, ContextCompacted)]
    turns = answered_turns(history[at[-1] + 1 :] if at else history)
    held = [(folded_prompt(turn.prompt), _said(turn.events)) for turn in turns]
    reply: list[Message] = []
    for message in reversed(recorded):
        if message.speaker is not Speaker.USER:
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
    reply: Sequence[Part],
    *,
    was_streamed: bool,
) -> bool:
    text = "".join(part.text for part in reply if isinstance(part, TextPart))
    is_whole = not has_placeholder(text) and all(not isinstance(part, ErasedPart) for part in reply)
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


def _said(told: Iterable[AgentEvent]) -> list[str]:
    """Return the messages of a turn that are not empty, without white space."""
    texts = (event.text for event in told if isinstance(event, TextReceived))
    return list(filter(None, ("".join(text.split()) for text in texts)))


def has_prompt(history: Iterable[AgentEvent]) -> bool:
    """Return whether a session holds any prompt, answered or not."""
    return any(isinstance(event, UserTextReplayed) for event in history)


def answered_turns(history: Sequence[AgentEvent]) -> tuple[StoredTurn, ...]:
    """Return all of a session's turns, oldest first, for a record that has nothing of it yet."""
    return tuple(turn for turn in stored_turns(history) if _is_answered(turn))


def is_finished(turn: StoredTurn) -> bool:
    """Return whether a turn came to its end: its calls have one, and the agent spoke last."""
    open_calls: set[str] = set()
    has_spoken_last = False
    for event in turn.events:
        match event:
            case ToolCallAnnounced(call_id=call_id):
                open_calls.add(call_id)
                has_spoken_last = False
            case ToolCallUpdated(call_id=call_id, status=status) if status in CALL_ENDED:
                open_calls.discard(call_id)
            case TextReceived():
                has_spoken_last = True
            case _:
                pass
    return has_spoken_last and not open_calls


def _is_answered(turn: StoredTurn) -> bool:
    kinds = (TextReceived, ReasoningReceived, ToolCallAnnounced)
    return any(
        isinstance(event, kinds) or getattr(event, "kind", "") == REQUEST_FAILED
        for event in turn.events
    )


def _is_recorded(turn: StoredTurn, known: set[str]) -> bool:
    """Whether what a turn called is on record: the agent went on by itself within one of ours."""
    called = {event.call_id for event in turn.events if isinstance(event, ToolCallAnnounced)}
    return bool(called) and called <= known


def _texts(message: Message) -> tuple[FoldedPrompt, ...] | None:
    """Return what a recorded prompt may have been sent as, None where it was not kept."""
    if any(isinstance(part, ErasedPart) for part in message.parts):
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
    tail: Sequence[AgentEvent],
    recorded: Iterable[Message],
    *,
    children: Container[str | None] | None = None,
) -> tuple[AgentEvent, ...]:
    """Return the events of a replayed tail that are not in the store yet.

    `recorded` are the turn's messages after its prompt. The tail follows the last prompt of the
    turn, so only what was recorded after that counts. The words of `children` are left out, because
    they are on record in conversations of their own. None means each child in the tail.
    """
    known = _Known(_parts_after_last_prompt(recorded))
    children = children_of(tail) if children is None else children
    owned = (event for event in tail if event.upstream_session_id not in children)
    return tuple(left for event in owned if (left := known.without(event)) is not None)


def open_calls(recorded: Iterable[Message]) -> tuple[ToolCallPart, ...]:
    """Return the recorded calls of a turn that have no result, oldest first."""
    parts = [part for message in recorded for part in message.parts]
    answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    calls = {part.call_id: part for part in parts if isinstance(part, ToolCallPart)}
    return tuple(part for call_id, part in calls.items() if call_id not in answered)


def attended_calls(recorded: Iterable[Message]) -> frozenset[str]:
    """Return the calls whose end is recorded, or that somebody of ours allowed or refused."""
    parts = [part for message in recorded for part in message.parts]
    ended = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    return frozenset(ended.union(*map(answered_permissions, parts)))


def _parts_after_last_prompt(recorded: Iterable[Message]) -> list[Part]:
    parts: list[Part] = []
    for message in recorded:
        if message.speaker is Speaker.USER:
            parts.clear()
        else:
            parts += message.parts
    return parts


class _Known:
    """What is recorded and has not been met in the tail yet."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
        self._announced = {part.call_id for part in parts if isinstance(part, ToolCallPart)}
        self._text = "".join(part.text for part in parts if isinstance(part, TextPart))
        self._reasoning = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
        self._notes = [_note(p.kind, p.raw) for p in parts if isinstance(p, UnknownPart)]

    def without(self, event: AgentEvent) -> AgentEvent | None:
        """Return what is new in an event, None for nothing."""
        match event:
            case TextReceived(text=text):
                new, self._text = _beyond(text, self._text)
                return replace(event, text=new) if new else None
            case ReasoningReceived(text=text):
                new, self._reasoning = _beyond(text, self._reasoning)
                return replace(event, text=new) if new else None
            case _:
                return None if self._is_stored(event) else event

    def _is_stored(self, event: AgentEvent) -> bool:
        match event:
            case ToolCallAnnounced(call_id=call_id):
                return call_id in self._announced
            case ToolCallUpdated(call_id=call_id):
                # By its result: an update of a call that is still open may bring it.
                return call_id in self._answered
            case PlanChanged(entries=entries):
                return self._meet(_note("plan", entries))
            case ContextCompacted():
                return self._meet(_note("compacted", None))
            case UnknownReceived(kind=kind, raw=raw):
                return self._meet(_note(kind, raw))
            case _:
                return False

    def _meet(self, note: bytes) -> bool:
        if note not in self._notes:
            return False
        # Once for each: the same plan may really have come twice.
        self._notes.remove(note)
        return True


def _note(kind: str, raw: JsonValue) -> bytes:
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
