"""The timeline: all that is kept of a workstream, as one value that every surface renders.

A tree: roles, their turns, what was said and done, sub-agents under the call that started them.
Pure: `timeline_reader` makes it from the store, and nothing here is in the words of a surface.
Children, closed generations and refusals are here as well as the conversations a person would ask
for; what cannot be verified is named, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias

from msgspec import Struct, field

from upthread.core import types
from upthread.core.acts import settlements_in
from upthread.core.commands import RecordAct, RecordDecision
from upthread.core.decision.freshness import change_lines
from upthread.core.decision.handshake import reasons_in_words
from upthread.core.decision.model import freshness_in, price_in
from upthread.core.decision.price import Price, Tokens
from upthread.core.decision.words import became_in_words
from upthread.core.events import PromptSent, RunEvent, TurnEvent, TurnIntended, Usage
from upthread.core.runs.pipeline import RunView, VerdictView
from upthread.core.runs.stops import Stop, stop_in_words
from upthread.core.states import Standing
from upthread.core.turns.effects import (
    Effect,
    Settlement,
    answered_permissions,
    effects_of,
    settled,
)
from upthread.core.turns.spent_tokens import spent_on_turn, together, took_by_prompt
from upthread.core.turns.turn import TurnView
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.store.reads import Quarantined, Run

_Asked: TypeAlias = types.ToolCallPart | types.ErasedPart
_Result: TypeAlias = types.ToolResultPart | types.ErasedPart

_CALLED: Final = "tool_call"
_RETURNED: Final = "tool_result"


class Said(Struct, frozen=True, kw_only=True):
    """A part of a message that is no call; one of a kind nobody knows, or erased, as well."""

    seq: int
    at_ms: int
    speaker: types.Speaker
    upstream_session_id: types.UpstreamSessionId | None
    part: types.Part


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call, and all that is known of it wherever it was kept.

    `asked` is None where only a result is on record, and `result` None where nobody knows how it
    ended. `answer` is what a request for permission got, and `answered_by` who gave it; both empty
    where nobody was asked. `effect` is None for a call that changes nothing.
    """

    seq: int
    call_id: str
    at_ms: int
    ended_at_ms: int | None = None
    upstream_session_id: types.UpstreamSessionId | None = None
    asked: _Asked | None = None
    result: _Result | None = None
    answer: str = ""
    answered_by: str = ""
    effect: Effect | None = None

    @property
    def title(self) -> str:
        """What it was, as the agent called it; empty where that is not on record."""
        if not isinstance(self.asked, types.ToolCallPart):
            return ""
        return self.asked.title or self.asked.tool_kind

    @property
    def tool_kind(self) -> str:
        """ACP's kind, `other` where it is not on record."""
        return self.asked.tool_kind if isinstance(self.asked, types.ToolCallPart) else "other"

    @property
    def status(self) -> str:
        """completed, failed or unknown; `erased` where the result was, `open` without one."""
        if self.result is None:
            return "open"
        return self.result.status if isinstance(self.result, types.ToolResultPart) else "erased"


Item: TypeAlias = Said | ToolCall


class Decided(Struct, frozen=True, kw_only=True):
    """A decision and what it rested on, in the words that every surface says it in.

    `was_refused`: the turn is over and no session took its prompt.
    """

    decision: str
    reasons: tuple[str, ...]
    price: Price
    changes: tuple[str, ...]
    was_refused: bool = False

    @property
    def done(self) -> str:
        """What was done: `RESUMED with an update`."""
        return self._became[0]

    @property
    def because(self) -> str:
        """Why, the deciding reason first."""
        return self._became[1]

    @property
    def _became(self) -> tuple[str, str]:
        reasons = reasons_in_words(self.reasons)
        return became_in_words(self.decision, reasons, was_refused=self.was_refused)


class TurnNode(Struct, frozen=True, kw_only=True, dict=True):
    """A turn. `number` counts from 1 within its conversation.

    `settlements` are what people said of its actions, by call, and `outward_patterns` are the
    person's own, as for effects.
    """

    turn_id: types.TurnId
    run_id: types.RunId | None
    number: int
    opened_at_ms: int
    view: TurnView
    events: tuple[TurnEvent, ...]
    messages: tuple[types.Message, ...]
    quarantined: tuple[Quarantined, ...]
    settlements: dict[str, Settlement]
    outward_patterns: Sequence[str]

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """What was said and done, in order."""
        return items_of(self.messages, said=self.settlements, patterns=self.outward_patterns)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Its calls, in order."""
        return tuple(item for item in self.items if isinstance(item, ToolCall))

    @cached_property
    def decisions(self) -> tuple[Decided, ...]:
        """What was decided; more than once where a session was lost and it was decided again."""
        return tuple(
            decided(event, was_refused=self.view.was_refused)
            for event in self.events
            if isinstance(event, TurnIntended)
        )

    @property
    def decision(self) -> Decided | None:
        """What was decided last, None where the turn ended before that."""
        return self.decisions[-1] if self.decisions else None

    @property
    def spent(self) -> Tokens | None:
        """The tokens that it took, None while no prompt has left."""
        sent = any(isinstance(event, PromptSent) for event in self.events)
        return spent_on_turn(self.events) if sent else None

    @property
    def usage(self) -> Usage | None:
        """What its agent counted: until each time that it was parked, and until its end."""
        usage: Usage | None = None
        for took in took_by_prompt(self.events):
            usage = together(usage, took.usage)
        return usage

    @property
    def prompt(self) -> str:
        """The text of its first prompt."""
        return next((m.text for m in self.messages if m.speaker is types.Speaker.USER), "")

    @property
    def last_at_ms(self) -> int:
        """When the last of it was said."""
        times = (message.recorded_at_ms for message in self.messages)
        return max(times, default=self.opened_at_ms)

    @property
    def stop(self) -> Stop | None:
        """What it came to, None while it has no end."""
        if self.view.ended is not None:
            return stop_in_words(self.view.ended.outcome, self.view.ended.detail)
        if self.view.parked is not None:
            return stop_in_words(self.view.parked.reason, self.view.parked.detail)
        return None

    @property
    def outcome(self) -> str:
        """The code of its end; `parked` and `open` for what has none yet."""
        if self.view.ended is not None:
            return str(self.view.ended.outcome)
        return "parked" if self.view.parked is not None else "open"


class Branch(Struct, frozen=True, kw_only=True):
    """A conversation: one of a role's, or a sub-agent's within another one.

    `child_messages` were recorded in a turn of its parent's, and `messages` counts all of them.
    `first_unverified_seq` is the first message that does not match its digest, None when all do.
    `standing` is None for a child and for a closed generation, which nothing goes on with.
    `verdict` is its last one and whether that still holds. `depth` is 0 where no other called it.
    """

    conversation: types.Conversation
    chain: tuple[types.Link, ...]
    turns: Sequence[TurnNode]
    child_messages: Iterable[types.Message]
    refusals: tuple[RecordDecision, ...]
    acts: tuple[RecordAct, ...]
    messages: int
    first_unverified_seq: int | None
    standing: Standing | None
    verdict: VerdictView | None
    children: tuple[Branch, ...]
    depth: int
    outward_patterns: Sequence[str]

    @property
    def is_child(self) -> bool:
        """Whether it is a sub-agent's that nobody configured."""
        return self.conversation.key.slot == types.CHILD_SLOT

    @property
    def name(self) -> str:
        """Its address; a child has none, and is called by its role."""
        key = self.conversation.key
        return key.role if self.is_child else key.address

    @property
    def call_id(self) -> str | None:
        """The call that started it, None for what no call of another started."""
        return self.conversation.parent_call_id

    def items(self) -> tuple[Item, ...]:
        """Return what is recorded of it in turns of the conversation that called it."""
        said, patterns = settlements_in(self.acts), self.outward_patterns
        return items_of(tuple(self.child_messages), said=said, patterns=patterns)

    def children_of(self, call: ToolCall) -> tuple[Branch, ...]:
        """Return the sub-agents that a call started."""
        return tuple(child for child in self.children if child.call_id == call.call_id)

    def other_children(self, calls: Iterable[str]) -> tuple[Branch, ...]:
        """Return the sub-agents that none of these calls started, as far as is recorded."""
        known = frozenset(calls)
        return tuple(child for child in self.children if child.call_id not in known)


class RunNode(Struct, frozen=True, kw_only=True):
    """One run. `number` counts from 1 within the workstream.

    `standing` is that of the newest one, None for one before it and for one that was forgotten:
    those are over.
    """

    run: Run
    number: int
    view: RunView
    events: tuple[RunEvent, ...]
    acts: tuple[RecordAct, ...]
    standing: Standing | None


class Timeline(Struct, frozen=True, kw_only=True):
    """A workstream's whole record, its conversations in the order they were opened.

    `branches` are those conversations that no other one called.
    """

    workstream: WorkstreamView
    conversations: tuple[Branch, ...]
    branches: tuple[Branch, ...]
    runs: tuple[RunNode, ...]

    @property
    def name(self) -> str:
        """The workstream's name."""
        return self.workstream.workstream.workstream

    @property
    def faults(self) -> tuple[tuple[types.Conversation, int], ...]:
        """Each conversation that does not verify, with the message where it begins."""
        return tuple(
            (branch.conversation, branch.first_unverified_seq)
            for branch in self.conversations
            if branch.first_unverified_seq is not None
        )

    def branch(self, conversation_id: str) -> Branch | None:
        """Return one conversation, None where there is none."""
        found = (b for b in self.conversations if b.conversation.conversation_id == conversation_id)
        return next(found, None)


def decided(intended: TurnIntended | RecordDecision, *, was_refused: bool = False) -> Decided:
    """Return a decision with what it rested on, as it was kept."""
    return Decided(
        decision=intended.decision,
        reasons=tuple(intended.reasons),
        price=price_in(intended.inputs),
        changes=change_lines(freshness_in(intended.inputs)),
        was_refused=was_refused,
    )


# --- what was said and done ---------------------------------------------------------------------


def items_of(
    messages: Sequence[types.Message],
    *,
    said: dict[str, Settlement] | None = None,
    patterns: Sequence[str] = (),
) -> tuple[Item, ...]:
    """Return what was said and done in messages, each call with its result and who allowed it.

    `said` is what people said of actions, by the id of each one's call.
    """
    effects = effects_of(messages, outward_patterns=patterns)
    known = _Known(effects={each.call_id: each for each in settled(effects, said or {})})
    for message in messages:
        for part in message.parts:
            for call_id, answer in answered_permissions(part).items():
                known.answers[call_id] = (answer, _answered_by(part))
            if (returned := _result(part)) is not None:
                known.results[returned.call_id or ""] = (message, returned)
            elif (asked := _call(part)) is not None:
                known.asked.add(asked.call_id or "")
    return tuple(item for message in messages for item in _items(message, known))


class _Known(Struct, kw_only=True):
    """What is told with a call, by its id, wherever in the messages it stands.

    `told` are the calls that an item was made of.
    """

    effects: dict[str, Effect]
    answers: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    results: dict[str, tuple[types.Message, _Result]] = field(
        default_factory=dict[str, "tuple[types.Message, _Result]"]
    )
    asked: set[str] = field(default_factory=set[str])
    told: set[str] = field(default_factory=set[str])


def _items(message: types.Message, known: _Known) -> Iterator[Item]:
    for part in message.parts:
        if (asked := _call(part)) is not None:
            # An id that comes twice has one result, which the first is shown with.
            is_first = (asked.call_id or "") not in known.told
            known.told.add(asked.call_id or "")
            yield _call_item(message, known, asked=asked, is_first=is_first)
        elif (returned := _result(part)) is not None:
            call_id = returned.call_id or ""
            # Told with its call, unless that is in an earlier turn, or got more than one.
            if call_id not in known.told or known.results[call_id][1] is not returned:
                yield _call_item(message, known, result=returned)
        elif not _is_told_with_a_call(part, known):
            yield Said(
                seq=message.seq,
                at_ms=message.recorded_at_ms,
                speaker=message.speaker,
                upstream_session_id=message.upstream_session_id,
                part=part,
            )


def _call_item(
    message: types.Message,
    known: _Known,
    *,
    asked: _Asked | None = None,
    result: _Result | None = None,
    is_first: bool = False,
) -> ToolCall:
    part = asked or result
    call_id = (part.call_id if part else None) or ""
    ended: types.Message | None = message
    if asked is not None:
        ended, result = known.results.get(call_id, (None, None)) if is_first else (None, None)
    answer, answered_by = known.answers.get(call_id, ("", ""))
    return ToolCall(
        seq=message.seq,
        call_id=call_id,
        at_ms=message.recorded_at_ms,
        ended_at_ms=ended.recorded_at_ms if ended else None,
        upstream_session_id=message.upstream_session_id,
        asked=asked,
        result=result,
        answer=answer,
        answered_by=answered_by,
        effect=known.effects.get(call_id),
    )


def _is_told_with_a_call(part: types.Part, known: _Known) -> bool:
    given = answered_permissions(part)
    return bool(given) and all(
        call_id in known.asked and known.answers[call_id] == (answer, _answered_by(part))
        for call_id, answer in given.items()
    )


def _call(part: types.Part) -> _Asked | None:
    if isinstance(part, types.ToolCallPart):
        return part
    return part if isinstance(part, types.ErasedPart) and part.kind == _CALLED else None


def _result(part: types.Part) -> _Result | None:
    if isinstance(part, types.ToolResultPart):
        return part
    return part if isinstance(part, types.ErasedPart) and part.kind == _RETURNED else None


def _answered_by(part: types.Part) -> str:
    raw = part.raw if isinstance(part, types.UnknownPart) else None
    return str(raw.get("answered_by", "")) if isinstance(raw, Mapping) else ""
