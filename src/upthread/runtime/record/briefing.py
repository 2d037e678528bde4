"""A conversation's briefing: what it is made of, shown to a person, and kept as a person edits it.

Blocking. Every look back has its limit: a briefing of a long conversation costs what one of a short
one does.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from upthread.core.commands import RecordBriefingEdit
from upthread.core.context.briefing import (
    BriefingEdit,
    BriefingInputs,
    Reported,
    Section,
    build_briefing,
    given_edit,
    goal_of,
    read_edit,
    sections_of,
)
from upthread.core.context.prior_context import PRIOR_EXCHANGES_MAX, plan_of
from upthread.core.decision.freshness import UNNAMED, ExaminedFile
from upthread.core.roles.reports import Report
from upthread.core.runs.pipeline import RunView, answer_told
from upthread.core.turns.effects import EffectState, effects_of
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Message,
    Outcome,
    Speaker,
    TurnId,
    readable_chain,
    ready,
)
from upthread.runtime.record.turn_views import (
    CutOffTurn,
    cut_off_turn,
    of_turn,
    run_view,
    turn_view,
)
from upthread.store.base import Store
from upthread.store.reads import Turn

MESSAGES_MAX = 256
"""How far back replies, plans and actions are looked for, tool results counted."""

TURNS_MAX = 32
"""How far back reports are looked for."""

CUT_OFF_MAX = 3
"""How many turns that were cut off are told of, the newest."""

FILES_MAX = 200
RUNS_MAX = 16
"""How many runs answers are taken from, the newest."""


def briefing_inputs(
    store: Store,
    conversation: Conversation,
    *,
    changes: tuple[str, ...] | None,
    before_seq: int | None = None,
    task: str = "",
    is_independent: bool,
) -> BriefingInputs:
    """Return what a briefing of this conversation is made of.

    `changes` are sentences on what has changed, None where nobody looked; `before_seq` leaves out
    the message at hand and all after it, None nothing; `task` is what that message asks. An
    independent role is not told what it said, decided or found itself.
    """
    conversation_id = conversation.conversation_id
    found = store.messages(conversation_id, newest=MESSAGES_MAX)
    messages = [each for each in found if before_seq is None or each.seq < before_seq]
    files = store.examined(conversation_id)[-FILES_MAX:]
    role = conversation.key.role
    runs = _runs(store, conversation.key)
    run = runs[-1] if runs else None
    turn_ids = dict.fromkeys(each.turn_id for each in messages)
    cut_off = (cut_off_turn(store, messages, turn_id) for turn_id in turn_ids)
    stopped = list(filter(None, cut_off))[-CUT_OFF_MAX:]
    newest = store.turns(conversation_id, newest=TURNS_MAX)
    reports = [] if is_independent else _reports(store, newest, role, messages)
    return BriefingInputs(
        goal=run.specification
        if run
        else goal_of(next((m.text for m in store.messages(conversation_id, first=1)), "")),
        asked=() if is_independent else _asked(store, conversation_id, newest, before_seq),
        reports=reports,
        summary=reports[-1].report.summary if reports else "",
        changes=changes,
        # Nobody has answered them, then or later.
        cut_off=[
            line
            for each in stopped
            for line in each.lines(is_last=each.turn_id == messages[-1].turn_id)
        ],
        effects=_effects(messages, stopped),
        answers=_answers(runs, role),
        open_questions=[q.text for q in run.open_questions if q.role == role] if run else (),
        plan=plan_of(messages),
        files_read=_paths(files, {"read", "shown"}),
        files_edited=_paths(files, {"wrote", "ran"}),
        last_reply="" if is_independent else _last_reply(messages),
        task=task,
        edit=briefing_edit(store, conversation_id)[1],
        is_independent=is_independent,
    )


class Briefing(Struct, frozen=True, kw_only=True):
    """A briefing as it would be told now. `edits` counts how often persons have edited it.

    `changes` are what has changed, as it is told in it, None where nothing was looked at. An
    independent role is not told what it said itself.
    """

    conversation: Conversation
    text: str
    sections: tuple[Section, ...]
    edits: int
    changes: tuple[str, ...] | None
    is_independent: bool


def briefing_of(
    store: Store,
    conversation: Conversation,
    changes: tuple[str, ...] | None,
    *,
    is_independent: bool,
) -> Briefing:
    """Return the briefing of a conversation."""
    inputs = briefing_inputs(store, conversation, changes=changes, is_independent=is_independent)
    return Briefing(
        conversation=conversation,
        text=build_briefing(inputs),
        sections=sections_of(inputs),
        edits=briefing_edit(store, conversation.conversation_id)[0],
        changes=changes,
        is_independent=is_independent,
    )


def keep_edited(
    store: Store, shown: Briefing, text: str, *, at_ms: int
) -> tuple[Briefing, tuple[str, ...]]:
    """Keep what a person made of a briefing; returns it as it is now, and what went amiss.

    Raises ConflictError when somebody else has edited it since it was shown.
    """
    conversation, told = shown.conversation, shown.is_independent
    _, before = briefing_edit(store, conversation.conversation_id)
    # As it was without the edit, and with the changes
    # that the person saw: what differs is theirs.
    inputs = briefing_inputs(store, conversation, changes=shown.changes, is_independent=told)
    made = sections_of(replace(inputs, edit=None))
    read = read_edit(text, shown=shown.sections, made=made, before=before)
    if read.edit != before:
        # By number, so that of two who edited the same
        # text the second is told, and nobody overwrites.
        store.commit((_write(conversation, shown.edits + 1, read.edit, at_ms),))
    return briefing_of(store, conversation, shown.changes, is_independent=told), read.faults


def keep_given(
    store: Store, conversation: Conversation, text: str, *, at_ms: int, is_independent: bool
) -> tuple[RecordBriefingEdit, ...]:
    """Return the write that keeps a briefing that came with a prompt, none for an empty text.

    `conversation` may be new.
    """
    if not text:
        return ()
    inputs = briefing_inputs(store, conversation, changes=None, is_independent=is_independent)
    seq, before = briefing_edit(store, conversation.conversation_id)
    made = sections_of(replace(inputs, edit=None))
    return (_write(conversation, seq + 1, given_edit(text, made=made, before=before), at_ms),)


def _write(
    conversation: Conversation, seq: int, edit: BriefingEdit, at_ms: int
) -> RecordBriefingEdit:
    return RecordBriefingEdit(
        conversation_id=conversation.conversation_id,
        seq=seq,
        edit=to_builtins(edit),
        recorded_at_ms=at_ms,
    )


def _runs(store: Store, key: ConversationKey) -> tuple[RunView, ...]:
    """Return the newest runs on a conversation's workstream, oldest first."""
    newest = store.runs(key.project_id, key.workstream)[-RUNS_MAX:]
    return tuple(run_view(store, each.run_id) for each in newest)


def briefing_edit(store: Store, conversation_id: ConversationId) -> tuple[int, BriefingEdit]:
    """Return what persons have made of a briefing, and its number; 0 and nothing before any."""
    kept = store.briefing_edit(conversation_id)
    if not kept:
        return 0, BriefingEdit()
    return kept.seq, convert(kept.edit, ready(BriefingEdit))


def _asked(
    store: Store, conversation_id: ConversationId, newest: Iterable[Turn], last: int | None
) -> list[str]:
    """Return the prompts after the first that are no steps of a run, whose goal is all of them."""
    steps = {turn.turn_id for turn in newest if turn.run_id is not None}
    links = store.links(conversation_id)
    said = store.prior_messages(
        conversation_id,
        upstream_session_ids=readable_chain(link.upstream_session_id for link in links),
        newest=PRIOR_EXCHANGES_MAX,
    )
    prompts = (each for each in said if each.speaker is Speaker.USER and each.text.strip())
    # The first is the goal already, and a step's prompt was made from the specification.
    asked = (each for each in prompts if each.seq > 1 and each.turn_id not in steps)
    return [each.text for each in asked if last is None or each.seq < last]


def _reports(
    store: Store, newest: Iterable[Turn], role: str, messages: Iterable[Message]
) -> list[Reported]:
    ends: dict[TurnId, int] = {}
    for message in messages:
        if message.speaker is Speaker.ASSISTANT:
            ends[message.turn_id] = message.seq
    reported: list[Reported] = []
    for turn in newest:
        ended = turn_view(store, turn.conversation_id, turn.turn_id).ended
        if not ended or ended.outcome is not Outcome.OK or ended.report is None:
            continue
        seq = ends.get(turn.turn_id)
        place = f"message {seq}" if seq else ""
        reported.append(Reported(role, convert(ended.report, ready(Report)), place))
    return reported


def _effects(messages: Sequence[Message], stopped: Sequence[CutOffTurn]) -> list[str]:
    """Return what reaches beyond this machine, what nobody knows the end of, and what no turn told.

    A turn that was cut off told nothing of what it did.
    """
    untold = {message.seq for each in stopped for message in of_turn(messages, each.turn_id)}
    return [
        effect.in_words
        for effect in effects_of(messages)
        if effect.actions
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


_NO_FILE = frozenset({"missing", UNNAMED.state})


def _paths(files: Iterable[ExaminedFile], how: set[str]) -> list[str]:
    return [each.path for each in files if each.how in how and each.state not in _NO_FILE]


def _last_reply(messages: Sequence[Message]) -> str:
    newest = (m.text for m in reversed(messages) if m.speaker is Speaker.ASSISTANT)
    return next((text for text in newest if text.strip()), "")
