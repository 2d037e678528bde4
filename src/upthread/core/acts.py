"""Acts: what a person has done to the record, told from the writes that do it.

Nobody who writes has to think of it: the act is in the batch of what it caused, or neither is. What
upthread does by itself, a step of a run or a limit that has passed, is nobody's act.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec import structs

from upthread.core.commands import (
    ActKind,
    EraseConversation,
    EraseRun,
    OpenConversation,
    OpenLink,
    OpenTurn,
    RecordAct,
    RecordBriefingEdit,
    RecordRunEvent,
    RecordTurnEvent,
    Write,
)
from upthread.core.events import (
    QuestionAnswered,
    RecoveryStarted,
    RunResumed,
    RunStarted,
    TurnIntended,
)
from upthread.core.outward.actions import Action
from upthread.core.turns.effects import Effect, EffectState, Settlement
from upthread.core.types import ConversationId, RunId, TurnId

FORKED: Final = "forked"
"""The decision of the turn that a fork's messages are kept under."""

ADOPTED: Final = "adopted"
"""Why a link was opened that a person has handed over."""

SETTLED: Final[ActKind] = "settled"
"""The act of a person who says what came of an action; see `settlement_of`."""

LIMIT_PASSED: Final = "the limit has passed"
"""Why a run goes on that nobody set going."""


def acts_in(writes: Sequence[Write], *, by_user: str, now_ms: int) -> tuple[RecordAct, ...]:
    """Return the acts that these writes are, of one person; `now_ms` is for what has no time."""
    acts: list[RecordAct] = []
    for write in writes:
        tell = _TOLD_BY.get(type(write))
        act = tell(write, writes) if tell else None
        if act is not None:
            at_ms = act.recorded_at_ms or now_ms
            acts.append(structs.replace(act, by_user=by_user, recorded_at_ms=at_ms))
    return tuple(acts)


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


# Each returns an act that says neither who, nor when where the write does not; None for none.


def _turn_event(write: RecordTurnEvent, _: Sequence[Write]) -> RecordAct | None:
    event = write.event
    if not isinstance(event, RecoveryStarted) or event.refused_as is not None:
        return None
    return _of(write.conversation_id, "went_on", write.recorded_at_ms, write.turn_id)


def _opened_turn(write: OpenTurn, writes: Sequence[Write]) -> RecordAct | None:
    if write.run_id is not None:  # a step: whoever set the run going did it
        return None
    what: ActKind = "forked" if _is_fork(write.turn_id, writes) else "told"
    return _of(write.conversation_id, what, write.opened_at_ms, write.turn_id)


def _is_fork(turn_id: TurnId, writes: Sequence[Write]) -> bool:
    return any(
        isinstance(write, RecordTurnEvent)
        and write.turn_id == turn_id
        and isinstance(write.event, TurnIntended)
        and write.event.decision == FORKED
        for write in writes
    )


def _opened_conversation(write: OpenConversation, _: Sequence[Write]) -> RecordAct | None:
    new = write.conversation
    if new.generation == 1:
        return None
    return _of(new.conversation_id, "reset", new.opened_at_ms)


def _opened_link(write: OpenLink, _: Sequence[Write]) -> RecordAct | None:
    link = write.link
    if link.opened_because != ADOPTED:
        return None
    return _of(link.conversation_id, "adopted", link.opened_at_ms, link.upstream_session_id)


def _edited(write: RecordBriefingEdit, _: Sequence[Write]) -> RecordAct:
    return _of(write.conversation_id, "edited", write.recorded_at_ms, str(write.seq))


def _erased(write: EraseConversation, _: Sequence[Write]) -> RecordAct:
    return _of(write.conversation_id, "forgot", 0)


def _erased_run(write: EraseRun, _: Sequence[Write]) -> RecordAct:
    return _of_run(write.run_id, "forgot", 0, write.role or "")


def _run_event(write: RecordRunEvent, _: Sequence[Write]) -> RecordAct | None:
    match write.event:
        case RunStarted():
            return _of_run(write.run_id, "started", write.recorded_at_ms)
        case QuestionAnswered(question_id=question):
            return _of_run(write.run_id, "answered", write.recorded_at_ms, question)
        case RunResumed(because=because) if because != LIMIT_PASSED:
            return _of_run(write.run_id, "resumed", write.recorded_at_ms)
        case _:
            return None


def _of(owner: ConversationId, what: ActKind, at_ms: int, detail: str = "") -> RecordAct:
    return RecordAct(
        conversation_id=owner, what=what, by_user="", detail=detail, recorded_at_ms=at_ms
    )


def _of_run(run_id: RunId, what: ActKind, at_ms: int, detail: str = "") -> RecordAct:
    return RecordAct(run_id=run_id, what=what, by_user="", detail=detail, recorded_at_ms=at_ms)


_TOLD_BY: Final[Mapping[type[Any], Callable[[Any, Sequence[Write]], RecordAct | None]]] = (
    MappingProxyType(
        {
            OpenTurn: _opened_turn,
            RecordTurnEvent: _turn_event,
            OpenConversation: _opened_conversation,
            OpenLink: _opened_link,
            RecordBriefingEdit: _edited,
            EraseConversation: _erased,
            EraseRun: _erased_run,
            RecordRunEvent: _run_event,
        }
    )
)
