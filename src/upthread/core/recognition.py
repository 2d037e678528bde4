"""Recognition: what an agent's own history says of a prompt that may have been sent.

Read after a crash. It never guesses: a reply is complete only when that can be known, and a history
that cannot be told from another is undecidable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from upthread.core.events import (
    AgentEvent,
    PlanChanged,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UserTextReplayed,
)
from upthread.core.reports import MalformedReportError, read_report
from upthread.core.turn import Recognition
from upthread.core.types import (
    Message,
    ReasoningPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """The judgement, with the reply found so far and the actions known, in words."""

    recognition: Recognition
    reply: str = ""
    effects: tuple[str, ...] = ()
    tail: tuple[AgentEvent, ...] = ()


def recognise(
    history: Sequence[AgentEvent],
    *,
    sent_text: str,
    prompts_before: int,
    earlier_texts: Collection[str] = (),
) -> Recognised:
    """Judge from an agent's history whether a prompt arrived and was answered.

    The prompt is looked for among the user messages after the `prompts_before` known ones, by its
    text with white space folded; an agent may add to it. `earlier_texts` are prompts of ours that
    failed or were cut off: they may be there too, and are nobody else's. A reply counts as complete
    only when that can be known: no call is open and a report closes it.
    """
    prompts = _user_messages(history)
    ours = [
        (index, end)
        for index, (end, text) in enumerate(prompts)
        if _folded(sent_text) in _folded(text) and index >= prompts_before
    ]
    if not ours:
        after = [text for _, text in prompts[prompts_before:]]
        known = all(_is_one_of(text, earlier_texts) for text in after)
        return Recognised(recognition=Recognition.ABSENT if known else Recognition.UNDECIDABLE)
    index, end = ours[-1]
    if index != len(prompts) - 1:
        return Recognised(recognition=Recognition.UNDECIDABLE)
    tail = tuple(history[end:])
    return replace(_judge_reply(tail), tail=tail)


def _is_one_of(text: str, ours: Collection[str]) -> bool:
    folded = _folded(text)
    return any(_folded(own) in folded for own in ours)


def _judge_reply(tail: Sequence[AgentEvent]) -> Recognised:
    reply = "".join(event.text for event in tail if isinstance(event, TextReceived))
    calls = _calls(tail)
    effects = tuple(f"{title}: {status}" for title, status in calls.values())
    is_open = any(status not in {"completed", "failed"} for _, status in calls.values())
    try:
        read_report(reply)
    except MalformedReportError:
        is_closed = False
    else:
        is_closed = not is_open
    return Recognised(
        recognition=Recognition.COMPLETE if is_closed else Recognition.INCOMPLETE,
        reply=reply,
        effects=effects,
    )


def _calls(tail: Sequence[AgentEvent]) -> dict[str, tuple[str, str]]:
    calls: dict[str, tuple[str, str]] = {}
    for event in tail:
        if isinstance(event, ToolCallAnnounced):
            calls[event.call_id] = (event.title, "outcome unknown")
        elif isinstance(event, ToolCallUpdated):
            title, status = calls.get(event.call_id, (event.title or event.call_id, ""))
            ended = event.status if event.status in {"completed", "failed"} else None
            calls[event.call_id] = (event.title or title, ended or status or "outcome unknown")
    return calls


def _user_messages(history: Sequence[AgentEvent]) -> list[tuple[int, str]]:
    """Return (index after the message, text) for each user message; chunks of one are joined."""
    messages: list[tuple[int, str]] = []
    previous: UserTextReplayed | None = None
    for index, event in enumerate(history, start=1):
        if not isinstance(event, UserTextReplayed):
            previous = None
            continue
        if previous is not None and previous.message_id == event.message_id:
            messages[-1] = (index, messages[-1][1] + event.text)
        else:
            messages.append((index, event.text))
        previous = event
    return messages


def _folded(text: str) -> str:
    return " ".join(text.split())


def unrecorded(tail: Iterable[AgentEvent], recorded: Iterable[Message]) -> tuple[AgentEvent, ...]:
    """Return the events of a replayed tail that are not in the store yet.

    Calls are known by their id; of text and reasoning, what begins like the recorded one is left
    out. What children said was recorded in their own conversations.
    """
    messages = tuple(recorded)
    parts = [part for message in messages for part in message.parts]
    answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    announced = {part.call_id for part in parts if isinstance(part, ToolCallPart)}
    plans = sum(isinstance(part, UnknownPart) and part.kind == "plan" for part in parts)
    text = _Known("".join(message.text for message in messages))
    reasoning = _Known("".join(p.text for p in parts if isinstance(p, ReasoningPart)))
    left: list[AgentEvent] = []
    for event in tail:
        match event:
            case TextReceived():
                left += text.rest_of(event)
            case ReasoningReceived():
                left += reasoning.rest_of(event)
            case PlanChanged() if plans > 0:
                plans -= 1
            case ToolCallAnnounced(call_id=call_id) if call_id in announced:
                pass
            case ToolCallUpdated(call_id=call_id) if call_id in answered:
                pass
            case _:
                left.append(event)
    return tuple(left)


class _Known:
    """Recorded text, used up by the events that repeat it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def rest_of(self, event: TextReceived | ReasoningReceived) -> tuple[AgentEvent, ...]:
        """Return the event without what is recorded of it; nothing when all is."""
        common = _common_prefix(event.text, self._text)
        self._text = self._text[common:] if common == len(event.text) else ""
        return (replace(event, text=event.text[common:]),) if common < len(event.text) else ()


def _common_prefix(text: str, known: str) -> int:
    length = 0
    for ours, theirs in zip(text, known, strict=False):
        if ours != theirs:
            break
        length += 1
    return length
