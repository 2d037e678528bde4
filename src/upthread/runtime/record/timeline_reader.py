"""Reads a timeline from the store.

Blocking reads only. Nothing is left out but the values that agent frameworks keep: what was said in
them is there. Turns and messages are read when somebody goes through them, and anew each time, so
that a record of any length is written out in little memory; the store must be open until then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final, TypeGuard, overload

from msgspec import structs

from upthread.core.acts import settlements_in
from upthread.core.codec import encode_json
from upthread.core.runs import pipeline as pipelines
from upthread.core.states import Standing
from upthread.core.turns.effects import Settlement
from upthread.core.turns.turn import fold
from upthread.core.types import (
    FRAMEWORK_PREFIX,
    Conversation,
    ConversationId,
    Message,
    Part,
    UnknownPart,
)
from upthread.runtime.record.timeline import Branch, RunNode, Timeline, TurnNode
from upthread.runtime.record.turn_views import run_events, turn_events
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.store.base import Store
from upthread.store.reads import Run, Turn

DEPTH_MAX: Final = 32
"""How deep sub-agents are nested; a damaged record may hang more below one another."""

PAGE_MESSAGES: Final = 100
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
            if proof.damage is not None and "seq" not in proof.damage.ids:
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

    def __iter__(self) -> Iterator[TurnNode]:
        return map(self._read, self._places)


def _spans(
    store: Store, conversation_id: ConversationId, turns: Sequence[Turn], last_seq: int
) -> _Spans:
    """Read all messages, and return where those of each turn stand."""
    found: defaultdict[int | None, list[_Span]] = defaultdict(list)
    places = {turn.turn_id: place for place, turn in enumerate(turns)}
    messages = _between(store, conversation_id, 1, last_seq)
    for place, together in groupby(messages, key=lambda message: places.get(message.turn_id)):
        seqs = [message.seq for message in together]
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
    return structs.replace(message, parts=tuple(map(_sized, message.parts)))


def _sized(part: Part) -> Part:
    if not _is_value(part):
        return part
    return structs.replace(part, raw={"size_bytes": len(encode_json(part.raw))})


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
