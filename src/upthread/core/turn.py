"""A turn: one prompt and its reply, from intent to end, crashes included.

Theory of operation. A turn's state is the fold of its events through TRANSITIONS; each live state
has one command in NEXT_COMMAND, and the runtime does nothing else than carry that command out and
commit the event it led to. So whoever finds a turn after a crash does exactly what its first
holder would have done next, with one exception: a prompt may have left (SENT). Then the agent's
own history decides (`recognise`): reply complete → adopt it; prompt there, reply incomplete → one
continuation prompt; absent → send once more; cannot be told → park for a human. A prompt leaves at
most SENDS_MAX times in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from upthread.core.events import (
    AgentEvent,
    AttachFailed,
    PromptRecognised,
    PromptSent,
    RecoveryStarted,
    SessionAttached,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
    UserTextReplayed,
)
from upthread.core.reports import MalformedReportError, read_report

SENDS_MAX: Final = 2
"""The prompt itself and at most one more: sent again, or a continuation."""


class TurnState(StrEnum):
    """Where a turn stands."""

    NEW = "new"
    INTENDED = "intended"
    ATTACHED = "attached"
    SENT = "sent"
    UNCERTAIN = "uncertain"
    RECOGNISED = "recognised"
    ENDED = "ended"
    PARKED = "parked"


class TurnCommand(StrEnum):
    """What to do next with a turn."""

    INTEND = "intend"
    ATTACH = "attach"
    SEND = "send"
    STREAM = "stream"
    RECOGNISE = "recognise"
    CONCLUDE = "conclude"
    NOTHING = "nothing"


TRANSITIONS: Final[Mapping[TurnState, Mapping[type[TurnEvent], TurnState]]] = {
    TurnState.NEW: {TurnIntended: TurnState.INTENDED},
    TurnState.INTENDED: {
        TurnIntended: TurnState.INTENDED,
        AttachFailed: TurnState.INTENDED,
        SessionAttached: TurnState.ATTACHED,
        RecoveryStarted: TurnState.INTENDED,
        TurnEnded: TurnState.ENDED,
        TurnParked: TurnState.PARKED,
    },
    TurnState.ATTACHED: {
        PromptSent: TurnState.SENT,
        RecoveryStarted: TurnState.INTENDED,
        TurnEnded: TurnState.ENDED,
        TurnParked: TurnState.PARKED,
    },
    TurnState.SENT: {
        RecoveryStarted: TurnState.UNCERTAIN,
        TurnEnded: TurnState.ENDED,
        TurnParked: TurnState.PARKED,
    },
    TurnState.UNCERTAIN: {
        SessionAttached: TurnState.UNCERTAIN,
        RecoveryStarted: TurnState.UNCERTAIN,
        PromptRecognised: TurnState.RECOGNISED,
        TurnEnded: TurnState.ENDED,
        TurnParked: TurnState.PARKED,
    },
    TurnState.RECOGNISED: {
        PromptSent: TurnState.SENT,
        RecoveryStarted: TurnState.UNCERTAIN,
        TurnEnded: TurnState.ENDED,
        TurnParked: TurnState.PARKED,
    },
    TurnState.ENDED: {},
    TurnState.PARKED: {RecoveryStarted: TurnState.UNCERTAIN, TurnEnded: TurnState.ENDED},
}

NEXT_COMMAND: Final[Mapping[TurnState, TurnCommand]] = {
    TurnState.NEW: TurnCommand.INTEND,
    TurnState.INTENDED: TurnCommand.ATTACH,
    TurnState.ATTACHED: TurnCommand.SEND,
    TurnState.SENT: TurnCommand.STREAM,
    TurnState.UNCERTAIN: TurnCommand.RECOGNISE,
    TurnState.RECOGNISED: TurnCommand.CONCLUDE,
    TurnState.ENDED: TurnCommand.NOTHING,
    TurnState.PARKED: TurnCommand.NOTHING,
}


class Recognition(StrEnum):
    """What an agent's history says of a prompt that may have been sent."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    ABSENT = "absent"
    UNDECIDABLE = "undecidable"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """A turn as its events tell it. `sends` counts how often a prompt left."""

    state: TurnState = TurnState.NEW
    events: int = 0
    sends: int = 0
    intended: TurnIntended | None = None
    attached: SessionAttached | None = None
    sent: PromptSent | None = None
    recognised: Recognition | None = None
    ended: TurnEnded | None = None
    parked: TurnParked | None = None

    @property
    def is_over(self) -> bool:
        """Whether no command is left for it."""
        return NEXT_COMMAND[self.state] is TurnCommand.NOTHING


def fold(events: Iterable[TurnEvent]) -> TurnView:
    """Return the view of a turn's events, in order."""
    view = TurnView()
    for event in events:
        view = apply(view, event)
    return view


def apply(view: TurnView, event: TurnEvent) -> TurnView:
    """Return the view after one more event. An event out of place is a bug of ours."""
    following = TRANSITIONS[view.state].get(type(event))
    assert following is not None, f"{type(event).__name__} cannot follow {view.state}"
    view = replace(view, state=following, events=view.events + 1)
    if isinstance(event, PromptSent):
        return replace(view, sent=event, sends=view.sends + 1)
    if isinstance(event, PromptRecognised):
        return replace(view, recognised=Recognition(event.recognition))
    kept = _KEPT.get(type(event))
    changes: dict[str, Any] = {kept: event} if kept else {}
    return replace(view, **changes)


_KEPT: Final[Mapping[type[TurnEvent], str]] = {
    TurnIntended: "intended",
    SessionAttached: "attached",
    TurnEnded: "ended",
    TurnParked: "parked",
}
"""Where the newest event of a kind is kept in the view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """The judgement, with the reply found so far and the actions known, in words."""

    recognition: Recognition
    reply: str = ""
    effects: tuple[str, ...] = ()
    tail: tuple[AgentEvent, ...] = ()


def recognise(history: Sequence[AgentEvent], *, sent_text: str, prompts_before: int) -> Recognised:
    """Judge from an agent's history whether a prompt arrived and was answered.

    The prompt is looked for among the user messages after the `prompts_before` known ones, by its
    text with white space folded; an agent may add to it. A reply counts as complete only when that
    can be known: no call is open and a report closes it.
    """
    prompts = _user_messages(history)
    ours = [
        (index, end)
        for index, (end, text) in enumerate(prompts)
        if _folded(sent_text) in _folded(text) and index >= prompts_before
    ]
    if not ours:
        known = len(prompts) <= prompts_before
        return Recognised(recognition=Recognition.ABSENT if known else Recognition.UNDECIDABLE)
    index, end = ours[-1]
    if index != len(prompts) - 1:
        return Recognised(recognition=Recognition.UNDECIDABLE)
    tail = tuple(history[end:])
    return replace(_judge_reply(tail), tail=tail)


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
