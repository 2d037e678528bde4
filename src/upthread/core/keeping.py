"""Keeping: what of a write is written down, by what is to be recorded.

One place for all that is stored: every batch passes here before its commit. In `full` a write is
kept as it is. In `redacted` its texts lose their secrets. In `index` it keeps what it is, when and
whose, with size and keyed digest, and no text at all. Names are never changed: workstreams, roles,
sessions and paths are what things are found by; only a child's role is an agent's word.

What forgetting leaves of an event is the same as what `index` keeps of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast, get_args

from upthread.core.codec import encode_part
from upthread.core.commands import (
    OpenConversation,
    RecordBriefingEdit,
    RecordDecision,
    RecordExamined,
    RecordOnce,
    RecordParts,
    RecordQuarantine,
    RecordRunEvent,
    RecordTurnEvent,
    Write,
)
from upthread.core.events import (
    AttachFailed,
    Question,
    QuestionAnswered,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunResumed,
    RunStarted,
    StepEnded,
    TurnEnded,
    TurnEvent,
    TurnParked,
)
from upthread.core.redaction.redactor import Redactor, gather
from upthread.core.reports import Status, VerdictResult
from upthread.core.types import (
    MAIN_SLOT,
    STRICTNESS,
    ContextPart,
    ErasedPart,
    FilePart,
    JsonValue,
    Part,
    ReasoningPart,
    RecordMode,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)

NO_EDIT: Final[dict[str, JsonValue]] = {}
"""What is left of a person's edit of a briefing."""

Event = TypeVar("Event", bound=TurnEvent | RunEvent)
Kept = TypeVar("Kept")
Member = TypeVar("Member")
Said = TypeVar("Said", TextPart, ContextPart, ReasoningPart, ToolResultPart)


def strictest(*modes: RecordMode) -> RecordMode:
    """Return the mode that records least. At least one must be given."""
    return max(modes, key=STRICTNESS.index)


def kept(write: Write, mode: RecordMode, redactor: Redactor) -> Write:
    """Return a write as it is to be stored; the same object when nothing of it changes."""
    keep = _KEEPERS.get(type(write))
    return write if keep is None or mode == "full" else keep(write, mode, redactor)


def stays_as_it_is(writes: Sequence[Write], redactor: Redactor) -> bool:
    """Return whether `redacted` changes none of these writes, by one look at all their texts.

    False also where one look cannot tell. Most batches hold no secret, and looks are what they pay.
    """
    texts: list[str] = []
    # Every batch pays for these loops: no call for what most of it is.
    for write in writes:
        if isinstance(write, RecordParts):
            for part in write.parts:
                if type(part) in _SAYING:
                    texts.append(cast("TextPart", part).text)
                elif not _gather_part(part, texts):
                    return False
        elif isinstance(write, RecordTurnEvent):
            for name in _NAMES_OF_TEXTS.get(type(write.event), ()):
                value = getattr(write.event, name)
                if value and not gather(value, texts):
                    return False
        elif type(write) in _KEEPERS:
            return False
    return not texts or redactor.finds_nothing_in(texts)


def without_text(event: Event) -> Event:
    """Return what is left of an event when its text is forgotten.

    Codes, numbers and ids stay, and of a report its status and its verdict, so that a run still
    reads as it went. A run's pipeline is configuration and stays, too.
    """
    names = _SAID.get(type(event), ())
    blanks = {name: _blank(getattr(event, name)) for name in names}
    return cast("Event", replace(cast("Any", event), **blanks)) if blanks else event


def forgotten(events: Sequence[RunEvent], role: str | None) -> tuple[RunEvent, ...]:
    """Return a run's events without the text of one role and of the answers to it, None: of all."""
    asked = {
        question.question_id
        for event in events
        if isinstance(event, QuestionsAsked) and role in {None, event.role}
        for question in event.questions
    }
    return tuple(
        without_text(event) if role is None or _is_of(event, role, asked) else event
        for event in events
    )


def _is_of(event: RunEvent, role: str, asked: set[str]) -> bool:
    if isinstance(event, QuestionAnswered):
        return event.question_id in asked
    return getattr(event, "role", None) == role


# --- parts -------------------------------------------------------------------------------------


def _keep_parts(write: RecordParts, mode: RecordMode, redactor: Redactor) -> RecordParts:
    if mode == "index":
        return replace(write, parts=tuple(_outlined(part, redactor) for part in write.parts))
    parts = [_redacted(part, redactor) for part in write.parts]
    return write if _are_the_same(parts, write.parts) else replace(write, parts=tuple(parts))


def _outlined(part: Part, redactor: Redactor) -> Part:
    stored = encode_part(part)
    if stored.content is None:
        return part
    return ErasedPart(
        kind=stored.kind,
        call_id=stored.call_id,
        digest=redactor.digest(stored.content),
        size_bytes=len(stored.content),
    )


def _redacted(part: Part, redactor: Redactor) -> Part:
    redact = _PART_REDACTORS.get(type(part))  # none for an erased one: there is nothing in it
    return part if redact is None else redact(part, redactor)


def _redacted_text(part: Said, redactor: Redactor) -> Said:
    text = redactor.redact(part.text)
    return part if text is part.text else replace(part, text=text)


def _redacted_call(part: ToolCallPart, redactor: Redactor) -> ToolCallPart:
    return _with(
        part,
        title=redactor.redact(part.title),
        arguments=redactor.redact_json(part.arguments),
        locations=_same_or_new(part.locations, map(redactor.redact, part.locations)),
    )


def _redacted_file(part: FilePart, redactor: Redactor) -> FilePart:
    return _with(part, uri=redactor.redact(part.uri))


def _redacted_unknown(part: UnknownPart, redactor: Redactor) -> UnknownPart:
    return _with(part, raw=redactor.redact_json(part.raw))


_PART_REDACTORS: Final[Mapping[type[Part], Callable[[Any, Redactor], Part]]] = MappingProxyType(
    {
        TextPart: _redacted_text,
        ContextPart: _redacted_text,
        ReasoningPart: _redacted_text,
        ToolResultPart: _redacted_text,
        ToolCallPart: _redacted_call,
        FilePart: _redacted_file,
        UnknownPart: _redacted_unknown,
    }
)
"""By type: every part of every turn goes this way, and a row of `isinstance` costs more."""


_SAYING: Final = frozenset({TextPart, ToolResultPart, ContextPart, ReasoningPart})


def _gather_part(part: Part, texts: list[str]) -> bool:
    """Add what those above look at, of a part that is not its text alone; False as `gather`."""
    match part:
        case ToolCallPart():
            texts += (part.title, *part.locations)
            return gather(part.arguments, texts)
        case FilePart():
            texts.append(part.uri)
            return True
        case UnknownPart():
            return gather(part.raw, texts)
        case _:
            return isinstance(part, ErasedPart)


def _with(value: Kept, **fields: object) -> Kept:
    """Return the value with these fields, the same object when each is what it has: most are."""
    for name, new in fields.items():
        if getattr(value, name) is not new:
            return cast("Kept", replace(cast("Any", value), **fields))
    return value


def _same_or_new(old: tuple[Member, ...], new: Iterable[Member]) -> tuple[Member, ...]:
    """Return the new members, the same tuple when each is the old one."""
    members = tuple(new)
    return old if _are_the_same(members, old) else members


def _are_the_same(new: Sequence[object], old: Sequence[object]) -> bool:
    return all(map(operator.is_, new, old))


# --- events ------------------------------------------------------------------------------------


def _keep_event(
    write: RecordTurnEvent | RecordRunEvent, mode: RecordMode, redactor: Redactor
) -> Write:
    event: Any = write.event
    if mode == "index":
        return replace(write, event=without_text(event))
    texts = _NAMES_OF_TEXTS.get(type(write.event))
    if texts is None:
        return write
    fields = {name: _redacted_value(getattr(event, name), redactor) for name in texts}
    return _with(write, event=_with(event, **fields))


def _redacted_value(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, tuple):
        members = cast("tuple[str | Question, ...]", value)
        return _same_or_new(members, (_redacted_member(each, redactor) for each in members))
    return redactor.redact_json(value)


def _redacted_member(member: str | Question, redactor: Redactor) -> str | Question:
    if isinstance(member, Question):
        return _with(member, text=redactor.redact(member.text))
    return redactor.redact(member)


def _blank(value: Any) -> Any:
    """Return what is left of a text, of several, or of a report."""
    if isinstance(value, str):
        return ""
    if isinstance(value, tuple):
        members = cast("tuple[str | Question, ...]", value)
        return tuple(replace(each, text="") for each in members if isinstance(each, Question))
    return _outline(cast("JsonValue", value))


def _outline(report: JsonValue) -> JsonValue:
    if not isinstance(report, Mapping):
        return None
    status, verdict = report.get("status"), report.get("verdict")
    result = verdict.get("result") if isinstance(verdict, Mapping) else None
    return {
        "status": status if status in get_args(Status) else None,
        "verdict": {"result": result} if result in get_args(VerdictResult) else None,
    }


_SAID: Final[Mapping[type[Any], tuple[str, ...]]] = MappingProxyType(
    {
        AttachFailed: ("detail",),
        TurnEnded: ("report", "detail"),
        TurnParked: ("detail",),
        RunStarted: ("specification",),
        StepEnded: ("report", "report_error"),
        QuestionsAsked: ("questions",),
        QuestionAnswered: ("text",),
        RunParked: ("detail",),
        RunResumed: ("because",),
        RunEnded: ("evidence",),
    }
)
"""Where events hold what somebody said."""

_CONFIGURED: Final[Mapping[type[Any], tuple[str, ...]]] = MappingProxyType(
    {RunStarted: ("pipeline",)}
)
"""Where they hold configuration: no secret belongs there, and nothing that is to be forgotten.

What a decision was taken on, `TurnIntended.inputs`, is measured and counted, never quoted.
"""

_NAMES_OF_TEXTS: Final[Mapping[type[Any], tuple[str, ...]]] = MappingProxyType(
    {kind: (*_SAID.get(kind, ()), *_CONFIGURED.get(kind, ())) for kind in (*_SAID, *_CONFIGURED)}
)


# --- what belongs to no message ----------------------------------------------------------------


def _keep_quarantine(
    write: RecordQuarantine, mode: RecordMode, redactor: Redactor
) -> RecordQuarantine:
    return _with(write, raw=None if mode == "index" else redactor.redact_json(write.raw))


def _keep_decision(write: RecordDecision, _mode: RecordMode, redactor: Redactor) -> RecordDecision:
    return _with(write, inputs=redactor.redact_json(write.inputs))


def _keep_once(write: RecordOnce, _mode: RecordMode, redactor: Redactor) -> RecordOnce:
    """A receipt is the application's own and says nothing of a conversation: `index` keeps it."""
    return _with(write, receipt=redactor.redact_json(write.receipt))


def _keep_examined(write: RecordExamined, mode: RecordMode, redactor: Redactor) -> RecordExamined:
    """A path is a tool's argument: `index` does not keep which files were read."""
    if mode == "index":
        return replace(write, files=())
    kept_files = (_with(file, path=redactor.redact(file.path)) for file in write.files)
    return _with(write, files=_same_or_new(write.files, kept_files))


def _keep_edit(
    write: RecordBriefingEdit, mode: RecordMode, redactor: Redactor
) -> RecordBriefingEdit:
    return _with(write, edit=NO_EDIT if mode == "index" else redactor.redact_json(write.edit))


def _keep_conversation(
    write: OpenConversation, _mode: RecordMode, redactor: Redactor
) -> OpenConversation:
    key = write.conversation.key
    role = key.role if key.slot >= MAIN_SLOT else redactor.redact(key.role)
    return _with(write, conversation=_with(write.conversation, key=_with(key, role=role)))


_KEEPERS: Final[Mapping[type[Any], Callable[[Any, RecordMode, Redactor], Write]]] = (
    MappingProxyType(
        {
            RecordParts: _keep_parts,
            RecordTurnEvent: _keep_event,
            RecordRunEvent: _keep_event,
            RecordQuarantine: _keep_quarantine,
            RecordDecision: _keep_decision,
            RecordExamined: _keep_examined,
            RecordBriefingEdit: _keep_edit,
            RecordOnce: _keep_once,
            OpenConversation: _keep_conversation,
        }
    )
)
