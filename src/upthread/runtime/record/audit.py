"""The audit: all that is kept of a workstream, put together, nothing left out.

Blocking reads only. Children, closed generations and refusals are here as well as the conversations
a person would ask for; what cannot be verified is named, never dropped.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from upthread.core.commands import RecordAct, RecordDecision
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import RunView
from upthread.core.states import Standing
from upthread.core.turns import turn as turns
from upthread.core.turns.turn import TurnView
from upthread.core.types import Conversation, Link, Message, TurnId
from upthread.runtime.record.overview import WorkstreamView
from upthread.store.base import Quarantined, Run, Store, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedTurn:
    """One turn. `number` counts from 1 within its conversation."""

    turn: Turn
    number: int
    view: TurnView
    events: tuple[TurnEvent, ...]
    messages: tuple[Message, ...]
    quarantined: tuple[Quarantined, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedConversation:
    """One conversation. `child_messages` were recorded in a turn of its parent's.

    `first_unverified_seq` is the first message that does not match its digest, None when all do.
    `standing` is None for a child and for a closed generation, which nothing goes on with.
    """

    conversation: Conversation
    chain: tuple[Link, ...]
    turns: tuple[AuditedTurn, ...]
    child_messages: tuple[Message, ...]
    refusals: tuple[RecordDecision, ...]
    acts: tuple[RecordAct, ...]
    messages: int
    first_unverified_seq: int | None
    standing: Standing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRun:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
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
    """Read everything about one workstream. Blocking; costs what its history is long."""
    project_id, workstream = view.workstream.project_id, view.workstream.workstream
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
    messages = store.messages(conversation_id)
    by_turn: defaultdict[TurnId, list[Message]] = defaultdict(list)
    for message in messages:
        by_turn[message.turn_id].append(message)
    audited = tuple(
        _turn(store, turn, number, tuple(by_turn.pop(turn.turn_id, ())))
        for number, turn in enumerate(store.turns(conversation_id), start=1)
    )
    return AuditedConversation(
        conversation=conversation,
        chain=store.links(conversation_id),
        turns=audited,
        # What is left is a child's: it has no turns of
        # its own, and its messages those of its parent.
        child_messages=tuple(message for message in messages if message.turn_id in by_turn),
        refusals=store.refusals(conversation_id),
        acts=store.acts(conversation_id),
        messages=len(messages),
        first_unverified_seq=store.verify(conversation_id),
        standing=standing,
    )


def _turn(store: Store, turn: Turn, number: int, messages: tuple[Message, ...]) -> AuditedTurn:
    events = store.turn_events(turn.turn_id)
    return AuditedTurn(
        turn=turn,
        number=number,
        view=turns.fold(events),
        events=events,
        messages=messages,
        quarantined=store.quarantined(turn.turn_id),
    )


def _run(store: Store, run: Run, number: int, standing: Standing | None) -> AuditedRun:
    events = store.run_events(run.run_id)
    return AuditedRun(
        run=run,
        number=number,
        view=pipelines.fold(events),
        events=events,
        acts=store.run_acts(run.run_id),
        standing=standing,
    )
