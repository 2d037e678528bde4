"""Keeping: what of a write is written down, by what is to be recorded.

One place for all that is stored: every batch passes here before its commit. In `full` a write is
kept as it is. In `redacted` its texts lose their secrets. In `index` it keeps what it is, when and
whose, with size and keyed digest, and no text at all. Names are never changed: workstreams, roles,
sessions and paths are what things are found by; only a child's role is an agent's word.

What forgetting leaves of an event is the same as what `index` keeps of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from upthread.core.redaction.redactor import Redactor
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


def strictest(*modes: RecordMode) -> RecordMode:
    """Return the mode that records least. At least one must be given."""
    return max(modes, key=STRICTNESS.index)


def kept(write: Write, mode: RecordMode, redactor: Redactor) -> Write:
    """Return a write as it is to be stored; the same object when nothing of it changes."""
    keep = _KEEPERS.get(type(write))
    return write if keep is None or mode == "full" else keep(write, mode, redactor)


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
    keep = _outlined if mode == "index" else _redacted
    parts = tuple(keep(part, redactor) for part in write.parts)
    is_same = all(new is old for new, old in zip(parts, write.parts, strict=True))
    return write if is_same else replace(write, parts=parts)


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
    match part:
        case TextPart() | ContextPart() | ReasoningPart() | ToolResultPart():
            text = redactor.redact(part.text)
            return part if text is part.text else replace(part, text=text)
        case ToolCallPart():
            return _redacted_call(part, redactor)
        case FilePart():
            return replace(part, uri=redactor.redact(part.uri))
        case UnknownPart():
            return replace(part, raw=redactor.redact_json(part.raw))
        case _:  # erased: there is nothing in it
            return part


def _redacted_call(part: ToolCallPart, redactor: Redactor) -> ToolCallPart:
    return replace(
        part,
        title=redactor.redact(part.title),
        arguments=redactor.redact_json(part.arguments),
        locations=tuple(map(redactor.redact, part.locations)),
    )


# --- events ------------------------------------------------------------------------------------


def _keep_event(
    write: RecordTurnEvent | RecordRunEvent, mode: RecordMode, redactor: Redactor
) -> Write:
    event: Any = write.event
    if mode == "index":
        return replace(write, event=without_text(event))
    changes = {
        name: new
        for name in _NAMES_OF_TEXTS.get(type(write.event), ())
        if (new := _redacted_value(old := getattr(event, name), redactor)) is not old
    }
    return replace(write, event=replace(event, **changes)) if changes else write


def _redacted_value(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, tuple):
        members = cast("tuple[str | Question, ...]", value)
        return tuple(_redacted_member(member, redactor) for member in members)
    return redactor.redact_json(value)


def _redacted_member(member: str | Question, redactor: Redactor) -> str | Question:
    if isinstance(member, Question):
        return replace(member, text=redactor.redact(member.text))
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
    return replace(write, raw=None if mode == "index" else redactor.redact_json(write.raw))


def _keep_decision(write: RecordDecision, _mode: RecordMode, redactor: Redactor) -> RecordDecision:
    return replace(write, inputs=redactor.redact_json(write.inputs))


def _keep_once(write: RecordOnce, _mode: RecordMode, redactor: Redactor) -> RecordOnce:
    """A receipt is the application's own and says nothing of a conversation: `index` keeps it."""
    return replace(write, receipt=redactor.redact_json(write.receipt))


def _keep_examined(write: RecordExamined, mode: RecordMode, redactor: Redactor) -> RecordExamined:
    """A path is a tool's argument: `index` does not keep which files were read."""
    if mode == "index":
        return replace(write, files=())
    files = tuple(replace(file, path=redactor.redact(file.path)) for file in write.files)
    return replace(write, files=files)


def _keep_edit(
    write: RecordBriefingEdit, mode: RecordMode, redactor: Redactor
) -> RecordBriefingEdit:
    return replace(write, edit=NO_EDIT if mode == "index" else redactor.redact_json(write.edit))


def _keep_conversation(
    write: OpenConversation, _mode: RecordMode, redactor: Redactor
) -> OpenConversation:
    key = write.conversation.key
    role = key.role if key.slot >= MAIN_SLOT else redactor.redact(key.role)
    if role is key.role:
        return write
    return replace(write, conversation=replace(write.conversation, key=replace(key, role=role)))


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
