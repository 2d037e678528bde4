"""Exchanges: what a person or a caller said, and what the agent replied to it.

An agent that narrates its steps says something with every call: a turn of two hundred steps is two
hundred messages, and one reply. What people said and were answered is therefore counted by
exchanges. Of a long reply its beginning and its end are kept, where plans and results stand; what
was called on the way, and the plan as an agent keeps it, are told beside it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, cast

from msgspec import Struct, field

from upthread.core.types import (
    JsonValue,
    Message,
    Speaker,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
)

REPLY_BEGINNING_MAX: Final = 4
"""How many messages of a reply are kept from its beginning, where it is longer than both."""

REPLY_END_MAX: Final = 12
"""And how many from its end."""


class Exchange(Struct, frozen=True, kw_only=True):
    """One prompt and the reply to it, oldest message first.

    `prompt` is None where it says nothing or is not kept.
    """

    prompt: Message | None
    reply: tuple[Message, ...]


class Work(Struct, frozen=True, kw_only=True):
    """What was done beside what was said: calls by their turn, oldest first, and the newest plan.

    A plan is (entry, status).
    """

    calls: Mapping[TurnId, Sequence[str]] = field(default_factory=dict[TurnId, Sequence[str]])
    plan: Sequence[tuple[str, str]] = ()


NO_WORK: Final = Work()


def newest_exchanges(newest_first: Iterable[Message], newest: int) -> tuple[Message, ...]:
    """Return the messages of the newest so many exchanges, oldest first.

    `newest_first` are messages of users and assistants that say something; none is taken that is
    not needed. An exchange begins with each prompt, and with each turn.
    """
    exchanges = islice(_newest_first(newest_first), max(newest, 0))
    return tuple(chain.from_iterable(exchanges))[::-1]


def _newest_first(messages: Iterable[Message]) -> Iterator[list[Message]]:
    end: list[Message] = []
    beginning: deque[Message] = deque(maxlen=REPLY_BEGINNING_MAX)
    for message in messages:
        # A turn without a prompt, such as one that goes on after a crash, is no part of the next.
        if end and message.turn_id != end[0].turn_id:
            yield [*end, *beginning]
            end, beginning = [], deque(maxlen=REPLY_BEGINNING_MAX)
        if message.speaker is Speaker.USER:
            yield [*end, *beginning, message]
            end, beginning = [], deque(maxlen=REPLY_BEGINNING_MAX)
        else:
            # Read backwards: the end fills first, and the
            # bounded queue keeps what was said first of all.
            (end if len(end) < REPLY_END_MAX else beginning).append(message)
    if end:
        yield [*end, *beginning]


def exchanges_of(said: Iterable[Message]) -> Iterator[Exchange]:
    """Yield the exchanges of messages that say something, oldest first."""
    prompt: Message | None = None
    reply: list[Message] = []
    for message in said:
        before = reply[-1] if reply else prompt
        is_next = message.speaker is Speaker.USER or (
            before is not None and message.turn_id != before.turn_id
        )
        if is_next and before is not None:
            yield Exchange(prompt=prompt, reply=tuple(reply))
            prompt, reply = None, []
        if message.speaker is Speaker.USER:
            prompt = message
        else:
            reply.append(message)
    if prompt is not None or reply:
        yield Exchange(prompt=prompt, reply=tuple(reply))


def work_of(messages: Sequence[Message]) -> Work:
    """Return what was done in messages, in sequence order."""
    return Work(calls=calls_of(messages), plan=plan_of(messages))


def calls_of(messages: Iterable[Message]) -> Mapping[TurnId, Sequence[str]]:
    """Return each turn's calls by their titles, with what came of those that are not complete."""
    called: defaultdict[TurnId, dict[str, str]] = defaultdict(dict)
    ended: dict[str, str] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                called[message.turn_id][part.call_id] = part.title
            elif isinstance(part, ToolResultPart):
                ended[part.call_id] = part.status
    return {
        turn_id: tuple(_call(title, ended.get(call_id)) for call_id, title in calls.items())
        for turn_id, calls in called.items()
    }


def _call(title: str, status: str | None) -> str:
    # A call without a result may have been carried out: silence would read as done.
    words = {"completed": "", None: ": no result known"}
    return title + words.get(status, f": {status}")


def plan_of(messages: Iterable[Message]) -> tuple[tuple[str, str], ...]:
    """Return the newest plan as (entry, status); empty before any."""
    plans = [
        part.raw
        for message in messages
        for part in message.parts
        if isinstance(part, UnknownPart) and part.kind == "plan"
    ]
    return _entries(plans[-1]) if plans else ()


def _entries(raw: JsonValue) -> tuple[tuple[str, str], ...]:
    """Return a plan's entries as the recorder keeps them."""
    entries = cast("Sequence[Sequence[str]]", raw)
    return tuple((text, status) for text, status in entries)
