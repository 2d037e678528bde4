"""What a conversation's briefing is made of, read from the store. Blocking reads, nothing written.

Every look back has its limit: a briefing of a long conversation costs what one of a short one does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from upthread.core import pipeline as pipelines
from upthread.core import turn as turns
from upthread.core.briefing import BriefingInputs, Reported
from upthread.core.briefing_edit import BriefingEdit
from upthread.core.cut_off import CutOffTurn
from upthread.core.effects import EffectState, effects_of
from upthread.core.examined import ExaminedFile
from upthread.core.pipeline import RunView
from upthread.core.reports import Report
from upthread.core.telling import answer_told
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    JsonValue,
    Message,
    Outcome,
    Speaker,
    TurnId,
    UnknownPart,
)
from upthread.runtime.cut_off import cut_off_turn, of_turn
from upthread.store.base import Store

MESSAGES_MAX: Final = 256
"""How far back replies, plans and actions are looked for, tool results counted."""

TURNS_MAX: Final = 32
"""How far back reports are looked for."""

FILES_MAX: Final = 200
RUNS_MAX: Final = 16
"""How many runs answers are taken from, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingRequest:
    """Whose briefing, and what is known of the moment.

    `changes` are sentences on what has changed; `before_seq` leaves out the message at hand and all
    after it, None nothing. An independent role is not told what it said itself.
    """

    conversation: Conversation
    changes: tuple[str, ...] = ()
    focus: str = ""
    before_seq: int | None = None
    is_independent: bool = False


def briefing_inputs(store: Store, request: BriefingRequest) -> BriefingInputs:
    """Return what a briefing of this conversation is made of."""
    conversation_id = request.conversation.conversation_id
    messages = _messages(store, request)
    files = store.examined(conversation_id)[-FILES_MAX:]
    role = request.conversation.key.role
    runs = _runs(store, request.conversation.key)
    run = runs[-1] if runs else None
    stopped = cut_off_turn(store, messages)
    return BriefingInputs(
        goal=run.specification if run else _first_words(store, conversation_id),
        reports=_reports(store, conversation_id, role, messages),
        changes=request.changes,
        cut_off=stopped.lines if stopped else (),
        effects=_effects(messages, stopped),
        answers=_answers(runs, role),
        open_questions=[q.text for q in run.open_questions if q.role == role] if run else (),
        plan=_plan(messages),
        files_read=_paths(files, {"read"}),
        files_edited=_paths(files, {"wrote", "ran"}),
        last_reply="" if request.is_independent else _last_reply(messages),
        focus=request.focus,
        edit=briefing_edit(store, conversation_id)[1],
    )


def _runs(store: Store, key: ConversationKey) -> tuple[RunView, ...]:
    """Return the newest runs on a conversation's workstream, oldest first."""
    newest = store.runs(key.project_id, key.workstream)[-RUNS_MAX:]
    return tuple(pipelines.fold(store.run_events(each.run_id)) for each in newest)


def briefing_edit(store: Store, conversation_id: ConversationId) -> tuple[int, BriefingEdit]:
    """Return what persons have made of a briefing, and its number; 0 and nothing before any."""
    kept = store.briefing_edit(conversation_id)
    if kept is None:
        return 0, BriefingEdit()
    return kept.seq, msgspec.convert(kept.edit, BriefingEdit)


def _messages(store: Store, request: BriefingRequest) -> tuple[Message, ...]:
    found = store.messages(request.conversation.conversation_id, newest=MESSAGES_MAX)
    last = request.before_seq
    return tuple(message for message in found if last is None or message.seq < last)


def _first_words(store: Store, conversation_id: ConversationId) -> str:
    first = store.message(conversation_id, 1)
    return first.text if first else ""


def _reports(
    store: Store, conversation_id: ConversationId, role: str, messages: Iterable[Message]
) -> list[Reported]:
    ends: dict[TurnId, int] = {}
    for message in messages:
        if message.speaker is Speaker.ASSISTANT:
            ends[message.turn_id] = message.seq
    reported: list[Reported] = []
    for turn in store.turns(conversation_id, newest=TURNS_MAX):
        ended = turns.fold(store.turn_events(turn.turn_id)).ended
        if ended is None or ended.outcome is not Outcome.OK or ended.report is None:
            continue
        seq = ends.get(turn.turn_id)
        place = f"message {seq}" if seq else ""
        reported.append(Reported(role, msgspec.convert(ended.report, Report), place))
    return reported


def _effects(messages: Sequence[Message], stopped: CutOffTurn | None) -> list[str]:
    """Return what reaches beyond this machine, what nobody knows the end of, and what no turn told.

    A turn that was cut off told nothing of what it did.
    """
    own = of_turn(messages, stopped.turn_id) if stopped else []
    untold = {message.seq for message in own}
    return [
        effect.in_words
        for effect in effects_of(messages)
        if effect.is_outward
        or effect.state in {EffectState.INTENT, EffectState.UNKNOWN}
        or effect.seq in untold
    ]


def _answers(runs: Iterable[RunView], role: str) -> list[tuple[str, str]]:
    """Return what a role asked, in any run, with the newest answer to each question."""
    answers: dict[str, str] = {}
    for run in runs:
        for asked in run.questions:
            if asked.role == role and asked.question_id in run.answers:
                by = run.answered_by.get(asked.question_id)
                told = answer_told(run.answers[asked.question_id], by)
                answers[f"{asked.question_id}: {asked.text}"] = told
    return list(answers.items())


def _plan(messages: Sequence[Message]) -> list[tuple[str, str]]:
    plans = [
        part.raw
        for message in messages
        for part in message.parts
        if isinstance(part, UnknownPart) and part.kind == "plan"
    ]
    return _entries(plans[-1]) if plans else []


def _entries(raw: JsonValue) -> list[tuple[str, str]]:
    """Return a plan's (text, status) pairs, as the recorder keeps them."""
    entries = cast("Sequence[Sequence[str]]", raw)
    return [(text, status) for text, status in entries]


def _paths(files: Iterable[ExaminedFile], how: set[str]) -> list[str]:
    return [each.path for each in files if each.how in how and each.state != "missing"]


def _last_reply(messages: Sequence[Message]) -> str:
    replies = [m.text for m in messages if m.speaker is Speaker.ASSISTANT and m.text.strip()]
    return replies[-1] if replies else ""


def sections_as_data(edit: BriefingEdit) -> Mapping[str, JsonValue]:
    """Return an edit as plain data for the store."""
    data: Mapping[str, JsonValue] = msgspec.to_builtins(edit)
    return data
