"""The record policy: what of a write is written down, by what is to be recorded.

One place for all that is stored: every batch passes here before its commit. In `full` a write is
kept as it is. In `redacted` its texts lose their secrets. In `index` it keeps what it is, when and
whose, with size and keyed digest, and no text at all. Names that people gave are never changed:
workstreams, roles and paths are what things are found by. What an agent gave is a text, however
short: the ids of its sessions and calls, its version, a child's role. An id that has the form of a
secret is the same placeholder wherever it stands, so that what belongs together is still found
together; a session can then not be attached again, and what follows says so. An id that only looks
random stays.

What forgetting leaves of an event is the same as what `index` keeps of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, get_args

from msgspec.structs import replace

from upthread.core import commands, events, types
from upthread.core.agents import Actor
from upthread.core.codec import encode_json
from upthread.core.decision.freshness import UNNAMED, ExaminedFile
from upthread.core.roles.reports import Status, VerdictResult

if TYPE_CHECKING:  # a store loads this module, and no redaction
    from upthread.core.redaction.redactor import Redactor

NO_EDIT: dict[str, types.JsonValue] = {}
"""What is left of a person's edit of a briefing."""

Texts: TypeAlias = Mapping[type[Any], tuple[str, ...]]
"""The names of fields, by the type of what has them."""
Event = TypeVar("Event", bound=events.TurnEvent | events.RunEvent)
Kept = TypeVar("Kept")
Id = TypeVar("Id", bound=str)
Member = TypeVar("Member")


def strictest(*modes: types.RecordMode) -> types.RecordMode:
    """Return the mode that records least. At least one must be given."""
    return max(modes, key=types.STRICTNESS.index)


def kept(write: commands.Write, mode: types.RecordMode, redactor: Redactor) -> commands.Write:
    """Return a write as it is to be stored; the same object when nothing of it changes."""
    keep = _KEEPERS.get(type(write), _keep_record if type(write) in _OURS else None)
    return write if keep is None or mode == "full" else keep(write, mode, redactor)


def stays_as_it_is(writes: Sequence[commands.Write], redactor: Redactor) -> bool:
    """Return whether `redacted` changes none of these writes, by one look at all their texts.

    False also where one look cannot tell. Most batches hold no secret, and looks are what they pay.
    """
    texts: list[str] = []
    for write in writes:
        if isinstance(write, commands.RecordParts):
            if not _gather_parts(write, texts, redactor):
                return False
        elif isinstance(write, commands.RecordTurnEvent):
            for name in _NAMES_OF_TEXTS.get(type(write.event), ()):
                value = getattr(write.event, name)
                if value and not redactor.gather(value, texts):
                    return False
        elif isinstance(write, commands.RecordAct):
            texts += (write.by_user, write.detail)
        elif type(write) in _KEEPERS or type(write) in _OURS:
            return False
    return not texts or redactor.finds_nothing_in(texts)


def without_text(event: Event) -> Event:
    """Return what is left of an event when its text is forgotten.

    Codes, numbers and ids stay, and of a report its status and its verdict, so that a run still
    reads as it went. A run's pipeline is configuration and stays, too.
    """
    names = FIELDS_WITH_TEXT.get(type(event), ())
    blanks = {name: _blank(getattr(event, name)) for name in names}
    return replace(event, **blanks) if blanks else event


def left_of_receipt(receipt: types.JsonValue) -> dict[str, types.JsonValue] | None:
    """Return what is left of a receipt when its conversation is forgotten; None of any other.

    Ids, codes and digests stay, so that the prompt is not sent again.
    """
    if not isinstance(receipt, Mapping) or not isinstance(receipt.get("conversation_id"), str):
        return None
    return {name: receipt[name] for name in receipt if name in _LEFT_OF_RECEIPT}


_LEFT_OF_RECEIPT = frozenset(
    "address text_sha256 conversation_id turn_id decision reasons outcome".split()
)


def forgotten(
    run_events: Sequence[events.RunEvent], role: str | None
) -> tuple[events.RunEvent, ...]:
    """Return a run's events without the text of one role and of the answers to it, None: of all."""
    asked = {
        question.question_id
        for event in run_events
        if isinstance(event, events.QuestionsAsked) and role in {None, event.role}
        for question in event.questions
    }
    return tuple(
        without_text(event) if role is None or _is_of(event, role, asked) else event
        for event in run_events
    )


def _is_of(event: events.RunEvent, role: str, asked: set[str]) -> bool:
    if isinstance(event, events.QuestionAnswered | events.AnswerSuggested):
        return event.question_id in asked
    return getattr(event, "role", None) == role


# --- records: what of each is ours ---------------------------------------------------------------


_OURS: Mapping[type[Any], str] = {
    types.TextPart: "",
    types.ContextPart: "",
    types.ReasoningPart: "",
    types.ToolCallPart: "",
    types.ToolResultPart: "child_conversation_id",
    types.FilePart: "",
    types.UnknownPart: "",
    types.ErasedPart: "digest",
    types.Conversation: "conversation_id key base_name parent_conversation_id",
    types.Link: "conversation_id agent working_directory agent_profile",
    Actor: "kind",
    ExaminedFile: "how state digest",
    events.Question: "question_id role",
    events.AgentsCall: "agent because",
    commands.OpenLink: "",
    commands.EndLink: "conversation_id",
    commands.RecordQuarantine: "turn_id",
    commands.RecordDecision: "conversation_id decision reasons",
    commands.RecordExamined: "conversation_id turn_id",
    commands.RecordBriefingEdit: "conversation_id",
    commands.RecordOnce: "project_id key attempt_id state",
    commands.RecordAct: "what conversation_id run_id",
}
"""Ids, codes and digests that we made, and names that people gave; they stay as they are.

Every other field is a text, and loses its secrets. It is this way round because a field that
nobody thought of must not be the one that is stored with a secret in it.
"""


_TEXTS: Texts = {
    record: tuple(name for name in record.__struct_fields__ if name not in ours.split())
    for record, ours in _OURS.items()
}


def _redacted_record(record: Kept, redactor: Redactor) -> Kept:
    texts = _TEXTS[type(record)]
    return _with(record, **{name: _redacted_field(record, name, redactor) for name in texts})


def _redacted_field(record: Any, name: str, redactor: Redactor) -> Any:
    value = getattr(record, name)
    if name.endswith("_id"):
        return _id(value, redactor)
    return _redacted_value(value, redactor)


def _redacted_value(value: Any, redactor: Redactor) -> Any:
    if type(value) in _OURS:
        return _redacted_record(value, redactor)
    if isinstance(value, tuple):  # of texts or of records; what comes as JSON has lists
        members = cast("tuple[object, ...]", value)
        return _same_or_new(members, (_redacted_value(each, redactor) for each in members))
    return redactor.redact_json(value)


# --- parts -------------------------------------------------------------------------------------


def _keep_parts(
    write: commands.RecordParts, mode: types.RecordMode, redactor: Redactor
) -> commands.RecordParts:
    keep = _outlined if mode == "index" else _redacted_record
    parts = _same_or_new(write.parts, (keep(part, redactor) for part in write.parts))
    return _with(write, parts=parts, upstream_session_id=_id(write.upstream_session_id, redactor))


def _outlined(part: types.Part, redactor: Redactor) -> types.Part:
    if isinstance(part, types.ErasedPart):
        return part
    content = encode_json(part)
    return types.ErasedPart(
        kind=cast("str", type(part).__struct_config__.tag),
        call_id=_id(getattr(part, "call_id", None), redactor),
        digest=redactor.digest(content),
        size_bytes=len(content),
    )


_SAYING = frozenset({types.TextPart, types.ContextPart, types.ReasoningPart})


def _gather_parts(write: commands.RecordParts, texts: list[str], redactor: Redactor) -> bool:
    """Add the texts of a message's parts; False as `gather`."""
    texts.append(write.upstream_session_id or "")
    for part in write.parts:  # every batch pays for this loop: no call for what most of it is
        if type(part) in _SAYING:
            texts.append(cast("types.TextPart", part).text)
        elif not all(redactor.gather(getattr(part, name), texts) for name in _TEXTS[type(part)]):
            return False
    return True


def _id(given: Id | None, redactor: Redactor) -> Id | None:
    return None if given is None else cast("Id", redactor.redact_id(given))


def _with(value: Kept, **fields: object) -> Kept:
    """Return the value with these fields, the same object when each is what it has: most are."""
    for name, new in fields.items():
        if getattr(value, name) is not new:
            return cast("Kept", replace(cast("Any", value), **fields))
    return value


def _same_or_new(old: tuple[Member, ...], new: Iterable[Member]) -> tuple[Member, ...]:
    """Return the new members, the same tuple when each is the old one."""
    members = tuple(new)
    return old if all(map(operator.is_, members, old)) else members


# --- events ------------------------------------------------------------------------------------


def _keep_event(
    write: commands.RecordTurnEvent | commands.RecordRunEvent,
    mode: types.RecordMode,
    redactor: Redactor,
) -> commands.Write:
    event: Any = write.event
    if mode == "index":
        write = replace(write, event=without_text(event))
        event = write.event
    names = _NAMES_OF_TEXTS if mode != "index" else _GIVEN
    texts = names.get(type(write.event))
    if texts is None:
        return write
    fields = {name: _redacted_field(event, name, redactor) for name in texts}
    return _with(write, event=_with(event, **fields))


def _blank(value: Any) -> Any:
    """Return what is left of a text, of several, or of a report."""
    if isinstance(value, str):
        return ""
    if isinstance(value, tuple):
        members = cast("tuple[str | events.Question, ...]", value)
        return tuple(
            replace(each, text="") for each in members if isinstance(each, events.Question)
        )
    return _outline(cast("types.JsonValue", value))


def _outline(report: types.JsonValue) -> types.JsonValue:
    if not isinstance(report, Mapping):
        return None
    status, verdict = report.get("status"), report.get("verdict")
    result = verdict.get("result") if isinstance(verdict, Mapping) else None
    return {
        "status": status if status in get_args(Status) else None,
        "verdict": {"result": result} if result in get_args(VerdictResult) else None,
    }


FIELDS_WITH_TEXT: Texts = {
    events.AttachFailed: ("detail",),
    events.RecoveryStarted: ("detail",),
    events.TurnEnded: ("report", "detail"),
    events.TurnParked: ("detail",),
    events.RunStarted: ("specification",),
    events.StepEnded: ("report", "report_error"),
    events.QuestionsAsked: ("questions",),
    events.QuestionAnswered: ("text",),
    events.AnswerSuggested: ("text",),
    events.RunParked: ("detail",),
    events.RunResumed: ("because",),
    events.RunEnded: ("evidence",),
}
"""Where events hold what somebody said."""

_GIVEN: Texts = {
    events.RunStarted: ("pipeline",),
    events.TurnIntended: ("inputs", "call"),
    events.SessionAttached: ("upstream_session_id",),
    events.AttachFailed: ("upstream_session_id",),
    events.TurnEnded: ("surroundings",),
    events.QuestionAnswered: ("answered_by",),
    events.AnswerSuggested: ("by",),
}
"""Where they hold configuration, and names that agents and clients of MCP gave. They are kept."""

_NAMES_OF_TEXTS: Texts = {
    kind: (*FIELDS_WITH_TEXT.get(kind, ()), *_GIVEN.get(kind, ()))
    for kind in (*FIELDS_WITH_TEXT, *_GIVEN)
}


# --- what belongs to no message ----------------------------------------------------------------


_IN_INDEX: Mapping[type[Any], dict[str, Any]] = {
    commands.RecordQuarantine: {"raw": None},
    # A path is a tool's argument.
    commands.RecordExamined: {"files": (UNNAMED,)},
    commands.RecordBriefingEdit: {"edit": NO_EDIT},
}
"""What `index` has in place of what it does not keep."""


def _keep_record(
    write: commands.Write, mode: types.RecordMode, redactor: Redactor
) -> commands.Write:
    """Keep a write alike in `redacted` and `index`, but for `_IN_INDEX`.

    It says nothing of a conversation. So is a receipt of `once`, which is the application's own. An
    act's detail may be a session's id, and who did it what a client of MCP calls itself.
    """
    changed = _IN_INDEX.get(type(write), {}) if mode == "index" else {}
    return _redacted_record(_with(write, **changed), redactor)


def _keep_conversation(
    write: commands.OpenConversation, _mode: types.RecordMode, redactor: Redactor
) -> commands.OpenConversation:
    """A child's role is what an agent calls it; any other is a name of a person's."""
    kept_one = _redacted_record(write.conversation, redactor)
    key = kept_one.key
    if key.slot < types.MAIN_SLOT:
        kept_one = _with(kept_one, key=_with(key, role=redactor.redact(key.role)))
    return _with(write, conversation=kept_one)


_KEEPERS: Mapping[type[Any], Callable[[Any, types.RecordMode, Redactor], commands.Write]] = {
    commands.RecordParts: _keep_parts,
    commands.RecordTurnEvent: _keep_event,
    commands.RecordRunEvent: _keep_event,
    commands.OpenConversation: _keep_conversation,
}
"""Writes that are more than their fields. Any other of `_OURS` is kept by `_keep_record`."""
