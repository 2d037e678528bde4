"""Commands: what the core asks to be done, always in the imperative or as a record to write.

Writes are what a store commits. Each names its durability; a batch is as durable as its most
durable write. Content (`parts`, event payloads) is untrusted and never becomes anything but data.
"""

from __future__ import annotations

# What JsonValue says is read in this module by whoever asks for a signature.
from collections.abc import Iterable, Iterator, Mapping, Sequence  # noqa: F401  # pyright: ignore[reportUnusedImport]
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.decision.freshness import ExaminedFile
from upthread.core.events import (
    QuestionAnswered,
    RecoveryStarted,
    RunEvent,
    RunResumed,
    RunStarted,
    TurnEvent,
    TurnIntended,
)
from upthread.core.outward.calls import Action
from upthread.core.turns.effects import Effect, EffectState, Settlement
from upthread.core.types import (
    Conversation,
    ConversationId,
    Durability,
    JsonValue,
    Link,
    Part,
    ProjectId,
    ProjectIdentity,
    RunId,
    Speaker,
    TurnId,
    UpstreamSessionId,
)


class _Command(Struct, frozen=True, kw_only=True):
    """What is written."""

    durability: Durability = Durability.PROCESS


class _OfConversation(_Command, frozen=True, kw_only=True):
    """What is written of a conversation."""

    conversation_id: ConversationId


class _OfTurn(_OfConversation, frozen=True, kw_only=True):
    """What is written of a turn."""

    turn_id: TurnId


class RecordProject(_Command, frozen=True, kw_only=True):
    """Know `project_id` under one more identity. Idempotent."""

    project_id: ProjectId
    identity: ProjectIdentity


class OpenWorkstream(_Command, frozen=True, kw_only=True):
    """Give a workstream its base name. Conflict: the workstream has one, or the name is taken."""

    project_id: ProjectId
    workstream: str
    base_name: str
    opened_at_ms: int


class OpenConversation(_Command, frozen=True, kw_only=True):
    """Mint a conversation in a workstream that was opened, under its base name.

    Conflict: its key and generation exist under another id, or the base name is another.
    """

    conversation: Conversation


class OpenLink(_Command, frozen=True, kw_only=True):
    """Bank an upstream id. Synced: losing it is what this project exists to prevent."""

    link: Link
    durability: Durability = Durability.SYNCED


class EndLink(_OfConversation, frozen=True, kw_only=True):
    """Close a link with the cause. The first cause stands; any later one changes nothing."""

    seq: int
    ended_because: str
    ended_at_ms: int


class OpenTurn(_OfTurn, frozen=True, kw_only=True):
    """Mint a turn. `run_id` is None for a `tell`."""

    opened_at_ms: int
    run_id: RunId | None = None

    def with_events(self, *events: TurnEvent) -> tuple[RecordTurnEvent, ...]:
        """Return the writes of all that happens in a turn that is over when it is recorded."""
        return tuple(
            RecordTurnEvent(
                conversation_id=self.conversation_id,
                turn_id=self.turn_id,
                seq=seq,
                event=event,
                recorded_at_ms=self.opened_at_ms,
            )
            for seq, event in enumerate(events, start=1)
        )


class RecordParts(_OfTurn, frozen=True, kw_only=True):
    """Append parts to message `seq` of a conversation, from position `first_ordinal` (0-based).

    `seq` is the last message's or the one after it, and `first_ordinal` continues without a gap.
    """

    seq: int
    first_ordinal: int
    speaker: Speaker
    upstream_session_id: UpstreamSessionId | None
    recorded_at_ms: int
    parts: tuple[Part, ...]


class RecordTurnEvent(_OfTurn, frozen=True, kw_only=True):
    """Append to the life of a conversation's turn. `seq` counts from 1."""

    seq: int
    event: TurnEvent
    recorded_at_ms: int


class OpenRun(_Command, frozen=True, kw_only=True):
    """Mint a run over a workstream."""

    run_id: RunId
    project_id: ProjectId
    workstream: str
    opened_at_ms: int


class RecordRunEvent(_Command, frozen=True, kw_only=True):
    """Append to a run's life. `seq` counts from 1."""

    run_id: RunId
    seq: int
    event: RunEvent
    recorded_at_ms: int


class EnqueueTransition(_Command, frozen=True, kw_only=True):
    """Hand a run's next transition to whoever drives runs, in the commit that made it due.

    `run_seq` is the seq of the event it follows. `due_at_ms` is by the writer's clock; `delay_ms`
    says the same for whoever has another one: how long after the commit. `queue` is where it may
    run, a name of core/runs/pipeline.py; empty: wherever the run's project is.
    """

    run_id: RunId
    run_seq: int
    due_at_ms: int
    delay_ms: int = 0
    queue: str = ""


class RecordQuarantine(_OfTurn, frozen=True, kw_only=True):
    """Keep an event of a turn whose owner is unknown, away from every conversation's messages."""

    ordinal: int
    reason: str
    raw: JsonValue
    recorded_at_ms: int


class RecordDecision(_OfConversation, frozen=True, kw_only=True):
    """Keep a decision that led to no turn: a refusal."""

    decision: str
    reasons: tuple[str, ...]
    inputs: JsonValue
    decided_at_ms: int


class RecordExamined(_OfTurn, frozen=True, kw_only=True):
    """Keep files as an upstream session knows them from now on.

    `first_ordinal` numbers the files of the turn, gaps allowed; each number is written once.
    """

    first_ordinal: int
    upstream_session_id: UpstreamSessionId
    files: tuple[ExaminedFile, ...]
    recorded_at_ms: int


class RecordBriefingEdit(_OfConversation, frozen=True, kw_only=True):
    """Keep what a person made of a conversation's briefing. `seq` counts from 1; the newest stands.

    `edit` is a core/context/briefing.py BriefingEdit as plain data.
    """

    seq: int
    edit: JsonValue
    recorded_at_ms: int
    durability: Durability = Durability.SYNCED


OnceState: TypeAlias = Literal["intent", "done", "failed"]


class RecordOnce(_Command, frozen=True, kw_only=True):
    """Append to the life of an action that is to be done once. Synced: a lost intent is a repeat.

    `attempt_id` tells one caller from another: of many that write an intent, one gets in. `receipt`
    is what the action returned, with `done`; before that, what it is about, if the caller says. A
    `failed` attempt makes room for the next.
    """

    project_id: ProjectId
    key: str
    attempt_id: str
    state: OnceState
    recorded_at_ms: int
    receipt: JsonValue = None
    durability: Durability = Durability.SYNCED


class EraseConversation(_OfConversation, frozen=True, kw_only=True):
    """Forget what was said in a conversation before a time; None: all of it. Synced.

    What is left tells that something was said, when, by whom, how long it was, and its digest.
    """

    before_ms: int | None = None
    durability: Durability = Durability.SYNCED


class EraseRun(_Command, frozen=True, kw_only=True):
    """Forget what was said in a run before a time, by one role or (None) by all. Synced."""

    run_id: RunId
    before_ms: int | None = None
    role: str | None = None
    durability: Durability = Durability.SYNCED


ActKind: TypeAlias = Literal[
    "told",
    "went_on",
    "started",
    "resumed",
    "answered",
    "forked",
    "reset",
    "adopted",
    "edited",
    "forgot",
    "settled",
    "named",
    "freed",
    "restored",
]
"""What a person can do to the record."""


class RecordAct(_Command, frozen=True, kw_only=True):
    """Keep who did something, to a conversation or to a run. Once: the same again changes nothing.

    `detail` is the id of what it was about: a turn, a question, a session; empty without one.
    """

    what: ActKind
    by_user: str
    recorded_at_ms: int
    conversation_id: ConversationId | None = None
    run_id: RunId | None = None
    detail: str = ""


Write: TypeAlias = (
    RecordProject
    | OpenWorkstream
    | OpenConversation
    | OpenLink
    | EndLink
    | OpenTurn
    | RecordParts
    | RecordTurnEvent
    | OpenRun
    | RecordRunEvent
    | EnqueueTransition
    | RecordQuarantine
    | RecordDecision
    | RecordExamined
    | RecordBriefingEdit
    | RecordOnce
    | EraseConversation
    | EraseRun
    | RecordAct
)


# --- acts: what a person has done, told from the writes that do it --------------------------------

# Nobody who writes has to think of it: the act is in the batch of what it caused, or neither is.
# What upthread does by itself, a step of a run or a limit that has passed, is nobody's act.


FORKED = "forked"
"""The decision of the turn that a fork's messages are kept under."""

ADOPTED = "adopted"
"""Why a link was opened that a person has handed over."""

SETTLED: ActKind = "settled"
"""The act of a person who says what came of an action; see `settlement_of`."""

LIMIT_PASSED = "the limit has passed"
"""Why a run goes on that nobody set going."""


def acts_in(writes: Sequence[Write], *, by_user: str, now_ms: int) -> tuple[RecordAct, ...]:
    """Return the acts that these writes are, of one person; `now_ms` is for what has no time."""
    return tuple(
        replace(act, by_user=by_user, recorded_at_ms=act.recorded_at_ms or now_ms)
        for write in writes
        for act in (*_on_conversation(write, writes), *_on_run(write))
    )


def _on_conversation(write: Write, writes: Sequence[Write]) -> Iterator[RecordAct]:
    """Yield the act that a write is, without who, and without when where the write has no time."""
    match write:
        case OpenTurn(run_id=None):  # a step of a run was begun by whoever set the run going
            is_fork = any(
                isinstance(each, RecordTurnEvent)
                and each.turn_id == write.turn_id
                and isinstance(each.event, TurnIntended)
                and each.event.decision == FORKED
                for each in writes
            )
            what: ActKind = "forked" if is_fork else "told"
            yield _act(write, what, write.opened_at_ms, write.turn_id)
        case RecordTurnEvent(event=RecoveryStarted(refused_as=None)):
            yield _act(write, "went_on", write.recorded_at_ms, write.turn_id)
        case OpenConversation(conversation=new) if new.generation > 1:
            yield _act(new, "reset", new.opened_at_ms)
        case OpenLink(link=link) if link.opened_because == ADOPTED:
            yield _act(link, "adopted", link.opened_at_ms, link.upstream_session_id)
        case RecordBriefingEdit():
            yield _act(write, "edited", write.recorded_at_ms, str(write.seq))
        case EraseConversation():
            yield _act(write, "forgot", 0)
        case _:
            pass


def _on_run(write: Write) -> Iterator[RecordAct]:
    match write:
        case EraseRun():
            yield _act(write, "forgot", 0, write.role or "")
        case RecordRunEvent(event=RunStarted()):
            yield _act(write, "started", write.recorded_at_ms)
        case RecordRunEvent(event=QuestionAnswered(question_id=question)):
            yield _act(write, "answered", write.recorded_at_ms, question)
        case RecordRunEvent(event=RunResumed(because=because)) if because != LIMIT_PASSED:
            yield _act(write, "resumed", write.recorded_at_ms)
        case _:
            pass


def _act(about: object, what: ActKind, at_ms: int, detail: str = "") -> RecordAct:
    """Return an act on the conversation or the run that a value names."""
    return RecordAct(
        conversation_id=getattr(about, "conversation_id", None),
        run_id=getattr(about, "run_id", None),
        what=what,
        by_user="",
        detail=detail,
        recorded_at_ms=at_ms,
    )


def settlement(
    conversation_id: ConversationId, call_id: str, said: Settlement, *, by_user: str, at_ms: int
) -> RecordAct:
    """Return the act that keeps what a person said of an action."""
    return RecordAct(
        conversation_id=conversation_id,
        what=SETTLED,
        by_user=by_user,
        detail=f"{said} {call_id}",
        recorded_at_ms=at_ms,
    )


def gaps_in(acts: Iterable[RecordAct]) -> tuple[Effect, ...]:
    """Return what nobody recorded: anything that was done after the backup of a restore."""
    return tuple(
        Effect(
            seq=0,
            call_id=f"restored {act.recorded_at_ms}",
            tool_kind="",
            title="anything done between the backup and its restore",
            state=EffectState.UNKNOWN,
            actions=(Action(family="restored"),),
        )
        for act in acts
        if act.what == "restored"
    )


def settlements_in(acts: Iterable[RecordAct]) -> dict[str, Settlement]:
    """Return what people said of actions, by the id of each one's call; the last word counts."""
    said = [act.detail.partition(" ") for act in acts if act.what == SETTLED]
    return {call_id: Settlement(word) for word, _, call_id in said}
