"""Rows back to the writes that made them: how a store is read whole, to be written elsewhere.

Pure: columns in, a write out. Every backend selects the same columns of a section, in the same
order, and text may come as bytes. A table that holds what somebody wrote has a section here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from upthread.core import commands
from upthread.core.codec import (
    decode_json,
    decode_part,
    decode_text,
)
from upthread.core.types import ConversationId, ProjectId, RunId, Speaker, TurnId
from upthread.store.base import Position, Recorded, Section
from upthread.store.sql.rows import (
    conversation_of,
    examined_of,
    link_of,
    project_of,
    refusal_of,
    run_event_of,
    turn_event_of,
)

Columns = tuple[Any, ...]

FIRST_PLACE: Final = (-1, -1)
# Attempts are in order within their action alone, so a place there begins with the action's key.
_FIRST_ONCE: Final = (b"", -1)


def first_place(section: Section) -> Position:
    """Return a place before all others of a section."""
    return _FIRST_ONCE if section == "once" else FIRST_PLACE


def recorded_of(section: Section, owner: str, row: Columns) -> Recorded:
    """Return a row of a section's statement: its place, and the write that makes it again."""
    return Recorded((row[0], row[1]), _WRITES[section](owner, row[2:]))


def _text(value: Any) -> Any:
    """Return a column, bytes as the text they are; numbers and None as they are."""
    return decode_text(value) if isinstance(value, bytes) else value


def _project(owner: str, columns: Columns) -> commands.Write:
    known = project_of((owner, *columns))
    return commands.RecordProject(project_id=known.project_id, identity=known.identity)


def _workstream(owner: str, columns: Columns) -> commands.Write:
    workstream, base_name, at_ms = map(_text, columns)
    return commands.OpenWorkstream(
        project_id=ProjectId(owner), workstream=workstream, base_name=base_name, opened_at_ms=at_ms
    )


def _conversation(_owner: str, columns: Columns) -> commands.Write:
    return commands.OpenConversation(conversation=conversation_of(columns))


def _link(_owner: str, columns: Columns) -> commands.Write:
    return commands.OpenLink(link=link_of(_text(columns[0]), columns[1:]))


def _link_end(_owner: str, columns: Columns) -> commands.Write:
    conversation_id, seq, because, at_ms = map(_text, columns)
    return commands.EndLink(
        conversation_id=conversation_id, seq=seq, ended_because=because, ended_at_ms=at_ms
    )


def _run(owner: str, columns: Columns) -> commands.Write:
    run_id, workstream, at_ms = map(_text, columns)
    return commands.OpenRun(
        run_id=run_id, project_id=ProjectId(owner), workstream=workstream, opened_at_ms=at_ms
    )


def _run_event(_owner: str, columns: Columns) -> commands.Write:
    return run_event_of(_text(columns[0]), columns[1:])


def _turn(_owner: str, columns: Columns) -> commands.Write:
    turn_id, conversation_id, run_id, at_ms = map(_text, columns)
    return commands.OpenTurn(
        turn_id=turn_id, conversation_id=conversation_id, run_id=run_id, opened_at_ms=at_ms
    )


def _once(owner: str, columns: Columns) -> commands.Write:
    key, attempt_id, state, receipt, at_ms = columns
    return commands.RecordOnce(
        project_id=ProjectId(owner),
        key=_text(key),
        attempt_id=_text(attempt_id),
        state=_text(state),
        receipt=decode_json(receipt),
        recorded_at_ms=at_ms,
    )


def act_of(_owner: str, columns: Columns) -> commands.RecordAct:
    """Return an act from its columns: conversation, run, what, by whom, detail, when."""
    conversation_id, run_id, what, by_user, detail, at_ms = map(_text, columns)
    return commands.RecordAct(
        conversation_id=conversation_id,
        run_id=run_id,
        what=what,
        by_user=by_user,
        detail=detail,
        recorded_at_ms=at_ms,
    )


def _transition(_owner: str, columns: Columns) -> commands.Write:
    # Its queue stays behind: it is of the source's hosts, and workers pass on what they must.
    run_id, run_seq, due_at_ms = columns
    return commands.EnqueueTransition(
        run_id=RunId(_text(run_id)), run_seq=run_seq, due_at_ms=due_at_ms
    )


def _turn_event(owner: str, columns: Columns) -> commands.Write:
    return turn_event_of(ConversationId(owner), _text(columns[0]), columns[1:])


def _part(owner: str, columns: Columns) -> commands.Write:
    seq, ordinal, speaker, turn_id, upstream, at_ms, kind, call_id, content, digest, size = columns
    part = decode_part(_text(kind), _text(call_id), content, digest, size)
    # A write for each part, in whatever commits a message came: a page may end between two parts.
    return commands.RecordParts(
        conversation_id=ConversationId(owner),
        seq=seq,
        first_ordinal=ordinal,
        speaker=Speaker(_text(speaker)),
        turn_id=_text(turn_id),
        upstream_session_id=_text(upstream),
        recorded_at_ms=at_ms,
        parts=(part,),
    )


def _quarantine(owner: str, columns: Columns) -> commands.Write:
    turn_id, ordinal, reason, raw, at_ms = columns
    return commands.RecordQuarantine(
        conversation_id=ConversationId(owner),
        turn_id=TurnId(_text(turn_id)),
        ordinal=ordinal,
        reason=_text(reason),
        raw=decode_json(raw),
        recorded_at_ms=at_ms,
    )


def _refusal(owner: str, columns: Columns) -> commands.Write:
    return refusal_of(ConversationId(owner), columns)


def _examined(owner: str, columns: Columns) -> commands.Write:
    turn_id, ordinal, upstream, *file, at_ms = map(_text, columns)
    return commands.RecordExamined(
        conversation_id=ConversationId(owner),
        turn_id=turn_id,
        first_ordinal=ordinal,
        upstream_session_id=upstream,
        files=(examined_of(tuple(file)),),
        recorded_at_ms=at_ms,
    )


def _briefing_edit(owner: str, columns: Columns) -> commands.Write:
    seq, edit, at_ms = columns
    return commands.RecordBriefingEdit(
        conversation_id=ConversationId(owner), seq=seq, edit=decode_json(edit), recorded_at_ms=at_ms
    )


_WRITES: Final[Mapping[Section, Callable[[str, Columns], commands.Write]]] = MappingProxyType(
    {
        "project": _project,
        "workstream": _workstream,
        "conversation": _conversation,
        "link": _link,
        "link_end": _link_end,
        "run": _run,
        "run_event": _run_event,
        "turn": _turn,
        "once": _once,
        "act": act_of,
        "transition": _transition,
        "turn_event": _turn_event,
        "part": _part,
        "quarantine": _quarantine,
        "refusal": _refusal,
        "examined": _examined,
        "briefing_edit": _briefing_edit,
    }
)
