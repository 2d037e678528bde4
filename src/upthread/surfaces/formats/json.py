"""The record as JSON: the same as in Markdown, with every event and part."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from upthread.core import types
from upthread.core.commands import RecordAct
from upthread.core.events import RunEvent, TurnEvent, kind_of
from upthread.core.turns.recorder import ALARM
from upthread.core.types import CHILD_SLOT, PERMISSION, ErasedPart, Message, Part, UnknownPart
from upthread.runtime.record.timeline import Branch, Timeline, TurnNode
from upthread.surfaces.cli.shapes import run_status, standing
from upthread.surfaces.cli.terminal.output import SCHEMA, Shape, members, plain
from upthread.surfaces.formats import Asked


def pieces(timeline: Timeline, asked: Asked) -> Iterator[str]:
    """Yield the document. Its texts are redacted also where the record is kept in full."""

    def clean(told: Shape) -> Shape:
        return cast("Shape", asked.redactor.redact_json(cast("types.JsonValue", told)))

    yield from in_pieces({"schema": SCHEMA, **whole(timeline)}, clean)
    yield "\n"


def whole(record: Timeline) -> Shape:
    """Return the whole record; what may be many is an iterator, for `in_pieces`."""
    view = record.workstream
    faults = [
        {"conversation_id": conversation.conversation_id, "message_seq": seq}
        for conversation, seq in record.faults
    ]
    return {
        **members(view.workstream, "workstream project_id base_name"),
        **members(view, "status state"),
        "standing": standing(view.standing),
        "integrity": {"is_intact": not faults, "faults": faults},
        "conversations": map(_conversation, record.conversations),
        "runs": [
            {
                "run_id": each.run.run_id,
                "number": each.number,
                "opened_at_ms": each.run.opened_at_ms,
                "status": run_status(each.view),
                **members(each.standing, "state"),
                "iteration": each.view.iteration,
                "events": [_event(event) for event in each.events],
                "acts": [_act(act) for act in each.acts],
            }
            for each in record.runs
        ],
    }


def in_pieces(shape: Shape, clean: Callable[[Shape], Shape]) -> Iterator[str]:
    """Yield the JSON of a shape piece by piece, as `json.dumps` would write it whole.

    Members that are iterators are gone through once; `clean` is given all else, whole where it can
    be, since a member's name is context to what stands under it.
    """
    many = {
        name: cast("Iterator[Shape]", value)
        for name, value in shape.items()
        if isinstance(value, Iterator)
    }
    one = {name: value for name, value in shape.items() if name not in many}
    # In order and not by name: a rule of the user's own may have redacted a name as well.
    told = iter(clean(cast("Shape", plain(one))).items())
    before = "{"
    for name in shape:
        if name in many:
            yield f"{before}{_dumped(name)}: "
            yield from _array(many[name], clean)
        else:
            said, value = next(told)
            yield f"{before}{_dumped(said)}: {_dumped(value)}"
        before = ", "
    yield "}" if shape else "{}"


def _dumped(value: object) -> str:
    # ASCII alone, and of that nothing that acts on a terminal: DEL is all that `dumps` leaves.
    return json.dumps(value).replace("\x7f", "\\u007f")


def _array(members: Iterator[Shape], clean: Callable[[Shape], Shape]) -> Iterator[str]:
    before = "["
    for member in members:
        yield before
        yield from in_pieces(member, clean)
        before = ", "
    yield "]" if before == ", " else "[]"


def _conversation(audited: Branch) -> Shape:
    conversation = audited.conversation
    return {
        "conversation_id": conversation.conversation_id,
        "address": None if conversation.key.slot == CHILD_SLOT else conversation.address,
        **members(conversation.key, "role slot"),
        **members(
            conversation,
            "generation instance_name opened_at_ms parent_conversation_id parent_call_id",
        ),
        **members(audited.standing, "state"),
        "standing": standing(audited.standing) if audited.standing else None,
        "first_unverified_seq": audited.first_unverified_seq,
        "chain": [_members(link, "conversation_id") for link in audited.chain],
        "turns": map(_turn, audited.turns),
        "child_messages": map(_message, audited.child_messages),
        "refusals": [
            _members(refusal, "conversation_id", "durability") for refusal in audited.refusals
        ],
        "acts": [_act(each) for each in audited.acts],
    }


def _turn(turn: TurnNode) -> Shape:
    view = turn.view
    ended = view.ended
    return {
        **members(turn, "turn_id number run_id opened_at_ms"),
        "state": view.state,
        **members(view.intended, "decision"),
        "reasons": view.intended.reasons if view.intended else [],
        **members(ended, "outcome"),
        "detail": ended.detail if ended else view.parked.detail if view.parked else "",
        **members(view.attached, "upstream_session_id"),
        "events": [_event(event) for event in turn.events],
        "messages": [_message(each) for each in turn.messages],
        "permissions": noted(turn.messages, PERMISSION),
        "alarms": noted(turn.messages, ALARM),
        "quarantined": [
            _members(each, "conversation_id", "turn_id", "recorded_at_ms", "durability")
            for each in turn.quarantined
        ],
    }


def _message(message: Message) -> Shape:
    members = _members(message, "conversation_id", "turn_id", "parts")
    return {**members, "parts": [_part(part) for part in message.parts]}


def _part(part: Part) -> Shape:
    kind = type(part).__struct_config__.tag
    if isinstance(part, UnknownPart):
        return {"kind": kind, "unknown_kind": part.kind, "raw": part.raw}
    if isinstance(part, ErasedPart):
        return {"kind": kind, "erased_kind": part.kind}
    return {"kind": kind, **_members(part)}


def noted(messages: Iterable[Message], kind: str) -> list[object]:
    """Return the notes of one kind: what was asked and who answered, what was found odd."""
    return [
        part.raw
        for message in messages
        for part in message.parts
        if isinstance(part, UnknownPart) and part.kind == kind
    ]


def _act(act: RecordAct) -> Shape:
    return _members(act, "conversation_id", "run_id", "durability")


def _event(event: TurnEvent | RunEvent) -> Shape:
    return {"kind": kind_of(event), **_members(event)}


def _members(value: Any, *without: str) -> Shape:
    return members(value, *(name for name in value.__struct_fields__ if name not in without))
