"""The audit: all that is kept of a workstream, put together.

Nothing is left out but the values that agent frameworks keep: what was said in them is there.

Blocking reads only. Children, closed generations and refusals are here as well as the conversations
a person would ask for; what cannot be verified is named, never dropped.

`open_audit` reads turns and messages when somebody goes through them, and anew each time, so that
a record of any length is written out in little memory; the store must be open until then.
`read_audit` is the same as a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeGuard, overload

from msgspec import Struct, structs

from upthread.core.codec import encode_json
from upthread.core.commands import RecordAct, RecordDecision
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import RunView
from upthread.core.states import Standing
from upthread.core.turns import turn as turns
from upthread.core.turns.turn import TurnView
from upthread.core.types import (
    FRAMEWORK_PREFIX,
    Conversation,
    ConversationId,
    Link,
    Message,
    Part,
    TurnId,
    UnknownPart,
)
from upthread.runtime.record.events import run_events, turn_events
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.store.base import Store
from upthread.store.values import Quarantined, Run, Turn

PAGE_MESSAGES: Final = 100
"""How many messages are read at a time where nobody knows how many are wanted."""


class AuditedTurn(Struct, frozen=True, kw_only=True):
    """One turn. `number` counts from 1 within its conversation."""

    turn: Turn
    number: int
    view: TurnView
    events: tuple[TurnEvent, ...]
    messages: tuple[Message, ...]
    quarantined: tuple[Quarantined, ...]


class AuditedConversation(Struct, frozen=True, kw_only=True):
    """One conversation. `child_messages` were recorded in a turn of its parent's.

    `first_unverified_seq` is the first message that does not match its digest, None when all do.
    `standing` is None for a child and for a closed generation, which nothing goes on with.
    """

    conversation: Conversation
    chain: tuple[Link, ...]
    turns: Sequence[AuditedTurn]
    child_messages: Iterable[Message]
    refusals: tuple[RecordDecision, ...]
    acts: tuple[RecordAct, ...]
    messages: int
    first_unverified_seq: int | None
    standing: Standing | None


class AuditedRun(Struct, frozen=True, kw_only=True):
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


class Audit(Struct, frozen=True, kw_only=True):
    """A workstream's whole record, conversations in the order they were opened."""

    workstream: WorkstreamView
    conversations: tuple[AuditedConversation, ...]
    runs: tuple[AuditedRun, ...]

    @property
    def faults(self) -> tuple[tuple[Conversation, int], ...]:
        """Each conversation that does not verify, with the message where it begins."""
        return tuple(
            (audited.conversation, audited.first_unverified_seq)
            for audited in self.conversations
            if audited.first_unverified_seq is not None
        )


def read_audit(store: Store, view: WorkstreamView) -> Audit:
    """Read everything about one workstream, as a value. Costs what its history is long."""
    audit = open_audit(store, view)
    conversations = tuple(
        structs.replace(each, turns=tuple(each.turns), child_messages=tuple(each.child_messages))
        for each in audit.conversations
    )
    return structs.replace(audit, conversations=conversations)


def open_audit(store: Store, view: WorkstreamView) -> Audit:
    """Return the audit of one workstream whose turns and messages are read when they are asked for.

    What is recorded after this is not in it, but for the end of a turn that is running. StoreError
    for damage that no message shows: a stream of the workstream may not be found.
    """
    project_id, workstream = view.workstream.project_id, view.workstream.workstream
    for proof in store.proofs(project_id, workstream):
        if proof.damage is not None and "seq" not in proof.damage.ids:
            raise proof.damage
    roles = {role.conversation.conversation_id: role.standing for role in view.roles}
    runs = store.runs(project_id, workstream)
    return Audit(
        workstream=view,
        conversations=tuple(
            _conversation(store, conversation, roles.get(conversation.conversation_id))
            for conversation in store.conversations(project_id, workstream)
        ),
        runs=tuple(
            _run(store, run, number, view.run_standing if number == len(runs) else None)
            for number, run in enumerate(runs, start=1)
        ),
    )


def _conversation(
    store: Store, conversation: Conversation, standing: Standing | None
) -> AuditedConversation:
    conversation_id = conversation.conversation_id
    recorded = store.turns(conversation_id)
    last_seq = store.message_count(conversation_id)
    spans = _spans(store, conversation_id, recorded, last_seq)
    # What is no turn's is a child's: it has no turns of its own, and its messages those of its
    # parent.
    of_children = spans[None]
    return AuditedConversation(
        conversation=conversation,
        chain=store.links(conversation_id),
        turns=_Turns(store, recorded, spans) if recorded else (),
        child_messages=_Messages(store, conversation_id, of_children) if of_children else (),
        refusals=store.refusals(conversation_id),
        acts=store.acts(conversation_id),
        messages=last_seq,
        first_unverified_seq=store.verify(conversation_id),
        standing=standing,
    )


# --- what is read when it is asked for ---------------------------------------------------------

_Span = tuple[int, int]
"""The first and the last of messages that follow one another."""

_Spans = Mapping[TurnId | None, Sequence[_Span]]
"""Where the messages of each turn stand; of None those that are no turn's of the conversation."""


class _Messages:
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


class _Turns(Sequence[AuditedTurn]):
    """Turns of a conversation; each is read when it is asked for, with all that was said in it."""

    def __init__(self, store: Store, turns: Sequence[Turn], spans: _Spans) -> None:
        self._store = store
        self._turns = turns
        self._spans = spans

    def __len__(self) -> int:
        return len(self._turns)

    @overload
    def __getitem__(self, index: int) -> AuditedTurn: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[AuditedTurn]: ...
    def __getitem__(self, index: int | slice) -> AuditedTurn | Sequence[AuditedTurn]:
        places = range(len(self._turns))[index]
        return self._read(places) if isinstance(places, int) else tuple(map(self._read, places))

    def __iter__(self) -> Iterator[AuditedTurn]:
        return map(self._read, range(len(self._turns)))

    def _read(self, place: int) -> AuditedTurn:
        turn = self._turns[place]
        said = _Messages(self._store, turn.conversation_id, self._spans[turn.turn_id])
        events = turn_events(self._store, turn.conversation_id, turn.turn_id)
        return AuditedTurn(
            turn=turn,
            number=place + 1,
            view=turns.fold(events),
            events=events,
            messages=tuple(said),
            quarantined=self._store.quarantined(turn.conversation_id, turn.turn_id),
        )


def _spans(
    store: Store, conversation_id: ConversationId, turns: Sequence[Turn], last_seq: int
) -> _Spans:
    """Read all messages, and return where those of each turn stand."""
    found: dict[TurnId | None, list[_Span]] = {turn.turn_id: [] for turn in turns}
    found[None] = []
    messages = _between(store, conversation_id, 1, last_seq)
    whose = groupby(messages, key=lambda each: each.turn_id if each.turn_id in found else None)
    for turn_id, together in whose:
        seqs = [message.seq for message in together]
        found[turn_id].append((seqs[0], seqs[-1]))
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


def _run(store: Store, run: Run, number: int, standing: Standing | None) -> AuditedRun:
    events = run_events(store, run.run_id)
    return AuditedRun(
        run=run,
        number=number,
        view=pipelines.fold(events),
        events=events,
        acts=store.acts(run.run_id),
        standing=standing,
    )
