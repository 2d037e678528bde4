"""The timeline: all that is kept of a workstream, as one value that every surface renders.

A tree: roles, their turns, what was said and done, sub-agents under the call that started them.
Values that `TimelineReader`, at the end, reads from the store; nothing here is in the words of a
surface.
Children, closed generations and refusals are here as well as the conversations a person would ask
for; what cannot be verified is named, never dropped.

The reads block. Nothing is left out but the values that agent frameworks keep: what was said in
them is there. Turns and messages are read when somebody goes through them, and anew each time, so
that a record of any length is written out in little memory; the store must be open until then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from itertools import groupby
from typing import TypeAlias, TypeGuard, overload

from msgspec import Struct, field
from msgspec.structs import replace

from upthread.core.codec import encode_json
from upthread.core.commands import RecordAct, RecordDecision, RecordExamined, settlements_in
from upthread.core.decision.freshness import change_lines
from upthread.core.decision.handshake import reasons_in_words
from upthread.core.decision.model import freshness_in, price_in
from upthread.core.decision.words import Price, Tokens, became_in_words
from upthread.core.events import RunEvent, TurnEvent, TurnIntended, Usage
from upthread.core.runs import pipeline as pipelines
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
from upthread.core.turns.turn import TurnView, fold
from upthread.core.types import (
    CHILD_SLOT,
    FRAMEWORK_PREFIX,
    Conversation,
    ConversationId,
    ErasedPart,
    Link,
    Message,
    Part,
    RunId,
    Speaker,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
    UpstreamSessionId,
)
from upthread.runtime.record.turn_views import run_events, turn_events
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.store.base import Store
from upthread.store.reads import Quarantined, Run, Turn

_Asked: TypeAlias = ToolCallPart | ErasedPart
_Result: TypeAlias = ToolResultPart | ErasedPart

_CALLED = "tool_call"
_RETURNED = "tool_result"


class Said(Struct, frozen=True, kw_only=True):
    """A part of a message that is no call; one of a kind nobody knows, or erased, as well."""

    seq: int
    at_ms: int
    speaker: Speaker
    upstream_session_id: UpstreamSessionId | None
    part: Part


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
    upstream_session_id: UpstreamSessionId | None = None
    asked: _Asked | None = None
    result: _Result | None = None
    answer: str = ""
    answered_by: str = ""
    effect: Effect | None = None

    @property
    def title(self) -> str:
        """What it was, as the agent called it; empty where that is not on record."""
        if not isinstance(self.asked, ToolCallPart):
            return ""
        return self.asked.title or self.asked.tool_kind

    @property
    def tool_kind(self) -> str:
        """ACP's kind, `other` where it is not on record."""
        return self.asked.tool_kind if isinstance(self.asked, ToolCallPart) else "other"

    @property
    def status(self) -> str:
        """completed, failed or unknown; `erased` where the result was, `open` without one."""
        if not self.result:
            return "open"
        return self.result.status if isinstance(self.result, ToolResultPart) else "erased"


Item: TypeAlias = Said | ToolCall


class Decided(Struct, frozen=True, kw_only=True):
    """A decision and what it rested on, in the words that every surface says it in.

    `done` is what was done, for example `RESUMED with an update`. `because` is why, the deciding
    reason first.
    """

    decision: str
    reasons: tuple[str, ...]
    price: Price
    changes: tuple[str, ...]
    done: str
    because: str


class TurnNode(Struct, frozen=True, kw_only=True, dict=True):
    """A turn. `number` counts from 1 within its conversation.

    `settlements` are what people said of its actions, by call, and `outward_patterns` are the
    person's own, as for effects.
    """

    turn_id: TurnId
    run_id: RunId | None
    number: int
    opened_at_ms: int
    view: TurnView
    events: tuple[TurnEvent, ...]
    messages: tuple[Message, ...]
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
        return spent_on_turn(self.events) if self.view.sent else None

    @property
    def usage(self) -> Usage | None:
        """What its agent counted: until each time that it was parked, and until its end."""
        return reduce(together, (took.usage for took in took_by_prompt(self.events)), None)

    @property
    def prompt(self) -> str:
        """The text of its first prompt."""
        return next((m.text for m in self.messages if m.speaker is Speaker.USER), "")

    @property
    def last_at_ms(self) -> int:
        """When the last of it was said."""
        times = (message.recorded_at_ms for message in self.messages)
        return max(times, default=self.opened_at_ms)

    @property
    def stop(self) -> Stop | None:
        """What it came to, None while it has no end."""
        is_stopped = self.view.ended is not None or self.view.parked is not None
        return stop_in_words(*self.view.stopped_by) if is_stopped else None

    @property
    def outcome(self) -> str:
        """The code of its end; `parked` and `open` for what has none yet."""
        if self.view.ended:
            return str(self.view.ended.outcome)
        return "parked" if self.view.parked else "open"


class Branch(Struct, frozen=True, kw_only=True):
    """A conversation: one of a role's, or a sub-agent's within another one.

    `child_messages` were recorded in a turn of its parent's, and `messages` counts all of them.
    `first_unverified_seq` is the first message that does not match its digest, None when all do.
    `standing` is None for a child and for a closed generation, which nothing goes on with.
    `verdict` is its last one and whether that still holds. `depth` is 0 where no other called it.
    """

    conversation: Conversation
    chain: tuple[Link, ...]
    turns: Sequence[TurnNode]
    child_messages: Iterable[Message]
    refusals: tuple[RecordDecision, ...]
    acts: tuple[RecordAct, ...]
    examinations: tuple[RecordExamined, ...]
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
        return self.conversation.key.slot == CHILD_SLOT

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
    def faults(self) -> tuple[tuple[Conversation, int], ...]:
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
    """Return a decision with what it rested on, as it was kept.

    `was_refused`: the turn is over and no session took its prompt.
    """
    reasons = reasons_in_words(intended.reasons)
    done, because = became_in_words(intended.decision, reasons, was_refused=was_refused)
    return Decided(
        decision=intended.decision,
        reasons=tuple(intended.reasons),
        price=price_in(intended.inputs),
        changes=change_lines(freshness_in(intended.inputs)),
        done=done,
        because=because,
    )


# --- what was said and done ---------------------------------------------------------------------


def items_of(
    messages: Sequence[Message],
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
            if returned := _result(part):
                known.results[returned.call_id or ""] = (message, returned)
            elif asked := _call(part):
                known.asked.add(asked.call_id or "")
    return tuple(item for message in messages for item in _items(message, known))


class _Known(Struct, kw_only=True):
    """What is told with a call, by its id, wherever in the messages it stands.

    `told` are the calls that an item was made of.
    """

    effects: dict[str, Effect]
    answers: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    results: dict[str, tuple[Message, _Result]] = field(
        default_factory=dict[str, tuple[Message, _Result]]
    )
    asked: set[str] = field(default_factory=set[str])
    told: set[str] = field(default_factory=set[str])


def _items(message: Message, known: _Known) -> Iterator[Item]:
    for part in message.parts:
        if asked := _call(part):
            # An id that comes twice has one result, which the first is shown with.
            is_first = (asked.call_id or "") not in known.told
            known.told.add(asked.call_id or "")
            yield _call_item(message, known, asked=asked, is_first=is_first)
        elif returned := _result(part):
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
    message: Message,
    known: _Known,
    *,
    asked: _Asked | None = None,
    result: _Result | None = None,
    is_first: bool = False,
) -> ToolCall:
    part = asked or result
    call_id = (part.call_id if part else None) or ""
    ended: Message | None = message
    if asked:
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


def _is_told_with_a_call(part: Part, known: _Known) -> bool:
    given = answered_permissions(part)
    return bool(given) and all(
        call_id in known.asked and known.answers[call_id] == (answer, _answered_by(part))
        for call_id, answer in given.items()
    )


def _call(part: Part) -> _Asked | None:
    if isinstance(part, ToolCallPart):
        return part
    return part if isinstance(part, ErasedPart) and part.kind == _CALLED else None


def _result(part: Part) -> _Result | None:
    if isinstance(part, ToolResultPart):
        return part
    return part if isinstance(part, ErasedPart) and part.kind == _RETURNED else None


def _answered_by(part: Part) -> str:
    raw = part.raw if isinstance(part, UnknownPart) else None
    return str(raw.get("answered_by", "")) if isinstance(raw, Mapping) else ""


DEPTH_MAX = 32
"""How deep sub-agents are nested; a damaged record may hang more below one another."""

PAGE_MESSAGES = 100
"""How many messages are read at a time where nobody knows how many are wanted."""


def open_timeline(
    store: Store,
    view: WorkstreamView,
    *,
    outward_patterns: Sequence[str] = (),
    is_whole: bool = False,
) -> Timeline:
    """Return a workstream's timeline whose turns and messages are read when they are asked for.

    With `is_whole` all of it is read now. Otherwise, what is recorded after this is not in it, but
    for the end of a turn that is running. StoreError for damage that no message shows: a stream of
    the workstream may not be found.
    """
    return _Opening(store, view, outward_patterns, is_whole=is_whole).timeline()


class _Opening:
    """Puts a timeline together, each conversation after its sub-agents."""

    def __init__(
        self, store: Store, view: WorkstreamView, patterns: Sequence[str], *, is_whole: bool
    ) -> None:
        self._store, self._view = store, view
        self._patterns, self._is_whole = tuple(patterns), is_whole
        self._roles = {role.conversation.conversation_id: role for role in view.roles}
        self._children: defaultdict[str | None, list[Conversation]] = defaultdict(list)
        self._made: dict[str, Branch] = {}

    def timeline(self) -> Timeline:
        store, view = self._store, self._view
        project_id, workstream = view.workstream.project_id, view.workstream.workstream
        for proof in store.proofs(project_id, workstream):
            if proof.damage and "seq" not in proof.damage.ids:
                raise proof.damage
        opened = store.conversations(project_id, workstream)
        known = {each.conversation_id for each in opened}
        for each in opened:
            # A child whose parent is elsewhere or gone is still shown.
            parent = each.parent_conversation_id
            self._children[parent if parent in known else None].append(each)
        branches = tuple(self._branch(each, depth=0) for each in self._children[None])
        # What only a damaged record has, in a circle or too deep, stands beside the others.
        conversations = tuple(
            self._made.get(each.conversation_id) or self._branch(each, depth=DEPTH_MAX)
            for each in opened
        )
        runs = store.runs(project_id, workstream)
        return Timeline(
            workstream=view,
            conversations=conversations,
            branches=branches,
            runs=tuple(
                _run(store, run, number, view.run_standing if number == len(runs) else None)
                for number, run in enumerate(runs, start=1)
            ),
        )

    def _branch(self, conversation: Conversation, *, depth: int) -> Branch:
        store, conversation_id = self._store, conversation.conversation_id
        below = self._children[conversation_id] if depth < DEPTH_MAX else ()
        children = tuple(self._branch(child, depth=depth + 1) for child in below)
        recorded = store.turns(conversation_id)
        last_seq = store.message_count(conversation_id)
        spans = _spans(store, conversation_id, recorded, last_seq)
        acts = store.acts(conversation_id)
        read = partial(self._turn, recorded, spans, settlements_in(acts))
        turns: Sequence[TurnNode] = _Turns(read, range(len(recorded)))
        # What is no turn's is a child's: it has no turns of its own, and its messages those of its
        # parent.
        child_messages: Iterable[Message] = _Messages(store, conversation_id, spans.get(None, ()))
        if self._is_whole:
            turns, child_messages = tuple(turns), tuple(child_messages)
        role = self._roles.get(conversation_id)
        branch = Branch(
            conversation=conversation,
            chain=store.links(conversation_id),
            turns=turns,
            child_messages=child_messages,
            refusals=store.refusals(conversation_id),
            acts=acts,
            examinations=store.examinations(conversation_id),
            messages=last_seq,
            first_unverified_seq=store.verify(conversation_id),
            standing=role.standing if role else None,
            verdict=role.verdict if role else None,
            children=children,
            depth=depth,
            outward_patterns=self._patterns,
        )
        self._made[conversation_id] = branch
        return branch

    def _turn(
        self, turns: Sequence[Turn], spans: _Spans, settlements: dict[str, Settlement], place: int
    ) -> TurnNode:
        turn = turns[place]
        events = turn_events(self._store, turn.conversation_id, turn.turn_id)
        return TurnNode(
            turn_id=turn.turn_id,
            run_id=turn.run_id,
            number=place + 1,
            opened_at_ms=turn.opened_at_ms,
            view=fold(events),
            events=events,
            messages=tuple(_Messages(self._store, turn.conversation_id, spans.get(place, ()))),
            quarantined=self._store.quarantined(turn.conversation_id, turn.turn_id),
            settlements=settlements,
            outward_patterns=self._patterns,
        )


# --- what is read when it is asked for ---------------------------------------------------------

_Span = tuple[int, int]
"""The first and the last of messages that follow one another."""

_Spans = Mapping[int | None, Sequence[_Span]]
"""Where the messages of each turn stand, by its place among the turns; of None the others'."""


class _Messages(Iterable[Message]):
    """Messages of a conversation that are read when they are gone through, a page at a time."""

    def __init__(
        self, store: Store, conversation_id: ConversationId, spans: Sequence[_Span]
    ) -> None:
        self._store = store
        self._conversation_id = conversation_id
        self._spans = spans

    def __iter__(self) -> Iterator[Message]:
        for first, last in self._spans:
            yield from _between(self._store, self._conversation_id, first, last)


class _Turns(Sequence[TurnNode]):
    """Turns of a conversation; each is read when it is asked for, with all that was said in it."""

    def __init__(self, read: Callable[[int], TurnNode], places: range) -> None:
        self._read, self._places = read, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> TurnNode: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TurnNode]: ...
    def __getitem__(self, index: int | slice) -> TurnNode | Sequence[TurnNode]:
        places = self._places[index]
        return self._read(places) if isinstance(places, int) else _Turns(self._read, places)


def _spans(
    store: Store, conversation_id: ConversationId, turns: Sequence[Turn], last_seq: int
) -> _Spans:
    """Read all messages, and return where those of each turn stand."""
    found: defaultdict[int | None, list[_Span]] = defaultdict(list)
    places = {turn.turn_id: place for place, turn in enumerate(turns)}
    messages = _between(store, conversation_id, 1, last_seq)
    for place, of_turn in groupby(messages, key=lambda message: places.get(message.turn_id)):
        seqs = [message.seq for message in of_turn]
        found[place].append((seqs[0], seqs[-1]))
    return found


def _between(
    store: Store, conversation_id: ConversationId, first_seq: int, last_seq: int
) -> Iterator[Message]:
    after_seq = first_seq - 1
    while after_seq < last_seq:
        wanted = min(PAGE_MESSAGES, last_seq - after_seq)
        # Where a whole page is missing, what comes after it names the first that is.
        page = store.messages(conversation_id, after_seq=after_seq, first=wanted) or store.messages(
            conversation_id, after_seq=after_seq
        )
        yield from map(_without_values, page)
        if not page:
            return
        after_seq = page[-1].seq


def _without_values(message: Message) -> Message:
    """Return a message without what a framework keeps whole: of that, only its size is shown.

    It may hold secrets in a form that no redactor reads, such as MessagePack in base 64. What was
    said in it stands beside it, redacted.
    """
    if not any(_is_value(part) for part in message.parts):
        return message
    return replace(message, parts=tuple(map(_sized, message.parts)))


def _sized(part: Part) -> Part:
    if not _is_value(part):
        return part
    return replace(part, raw={"size_bytes": len(encode_json(part.raw))})


def _is_value(part: Part) -> TypeGuard[UnknownPart]:
    return isinstance(part, UnknownPart) and part.kind.startswith(FRAMEWORK_PREFIX)


def _run(store: Store, run: Run, number: int, standing: Standing | None) -> RunNode:
    events = run_events(store, run.run_id)
    return RunNode(
        run=run,
        number=number,
        view=pipelines.fold(events),
        events=events,
        acts=store.acts(run.run_id),
        standing=standing,
    )
