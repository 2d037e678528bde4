"""What is in memory, section by section, as rows of `store.sql.recorded`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from upthread.core.codec import encode_json, encode_text
from upthread.core.types import Conversation, ConversationId
from upthread.store.base import Run, Section, Turn
from upthread.store.sql.statements import COLUMNS
from upthread.testing.memory_store.tables import Tables

Rows: TypeAlias = Sequence[tuple[Any, ...]]


def _conversations(tables: Tables, project_id: str) -> list[Conversation]:
    return [each for each in tables.conversations.values() if each.key.project_id == project_id]


def _runs(tables: Tables, project_id: str) -> list[Run]:
    return [each for each in tables.runs.values() if each.project_id == project_id]


def _turns(tables: Tables, conversation_id: str) -> list[Turn]:
    return [each for each in tables.turns.values() if each.conversation_id == conversation_id]


def _projects(tables: Tables, owner: str) -> Rows:
    known = [each.identity for each in tables.projects if each.project_id == owner]
    return [(each.path, each.root_commit, each.remote, each.owner) for each in known]


def _workstreams(tables: Tables, owner: str) -> Rows:
    return [
        (each.workstream, each.base_name, each.opened_at_ms)
        for each in tables.workstreams.values()
        if each.project_id == owner
    ]


def _conversation_rows(tables: Tables, owner: str) -> Rows:
    return [
        (
            each.conversation_id,
            *(each.key.project_id, each.key.workstream, each.key.role, each.key.slot),
            *(each.generation, each.base_name, each.opened_at_ms),
            *(each.parent_conversation_id, each.parent_call_id),
        )
        for each in _conversations(tables, owner)
    ]


def _links(tables: Tables, owner: str) -> Rows:
    owned = {each.conversation_id for each in _conversations(tables, owner)}
    return [
        (link.conversation_id, *(getattr(link, name) for name in COLUMNS["link"]))
        for link in tables.links.values()
        if link.conversation_id in owned
    ]


def _link_ends(tables: Tables, owner: str) -> Rows:
    links = chain.from_iterable(
        tables.links_of(each.conversation_id) for each in _conversations(tables, owner)
    )
    return [
        (link.conversation_id, link.seq, link.ended_because, link.ended_at_ms)
        for link in links
        if link.ended_because is not None
    ]


def _run_rows(tables: Tables, owner: str) -> Rows:
    return [(each.run_id, each.workstream, each.opened_at_ms) for each in _runs(tables, owner)]


def _run_events(tables: Tables, owner: str) -> Rows:
    return [
        (each.run_id, seq, *event)
        for each in _runs(tables, owner)
        for seq, event in enumerate(tables.run_events.get(each.run_id, ()), start=1)
    ]


def _turn_rows(tables: Tables, owner: str) -> Rows:
    owned = {each.conversation_id for each in _conversations(tables, owner)}
    return [
        (each.turn_id, each.conversation_id, each.run_id, each.opened_at_ms)
        for each in tables.turns.values()
        if each.conversation_id in owned
    ]


def _once(tables: Tables, owner: str) -> Rows:
    keys = sorted((key for project, key in tables.once if project == owner), key=encode_text)
    return [(key, *step) for key in keys for step in tables.once[owner, key]]


def _acts(tables: Tables, owner: str) -> Rows:
    owned = {each.conversation_id for each in _conversations(tables, owner)}
    owned_runs = {each.run_id for each in _runs(tables, owner)}
    return [
        (
            *(each.conversation_id, each.run_id, each.what, each.by_user, each.detail),
            each.recorded_at_ms,
        )
        for each in tables.acts
        if each.conversation_id in owned or each.run_id in owned_runs
    ]


def _transitions(tables: Tables, owner: str) -> Rows:
    owned = {each.run_id for each in _runs(tables, owner)}
    return [
        (run_id, seq, due) for (run_id, seq), due in tables.transitions.items() if run_id in owned
    ]


def _turn_events(tables: Tables, owner: str) -> Rows:
    return [
        (turn.turn_id, seq, *event)
        for turn in _turns(tables, owner)
        for seq, event in enumerate(tables.turn_events.get(turn.turn_id, ()), start=1)
    ]


def _parts(tables: Tables, owner: str) -> Rows:
    return [
        (*part.header[1:], part.content, part.digest, part.erased_bytes)
        for part in tables.parts.get(owner, ())
    ]


def _quarantine(tables: Tables, owner: str) -> Rows:
    return [
        (turn.turn_id, ordinal, *event)
        for turn in _turns(tables, owner)
        for (turn_id, ordinal), event in sorted(tables.quarantine.items())
        if turn_id == turn.turn_id
    ]


def _refusals(tables: Tables, owner: str) -> Rows:
    return [
        (each.decision, encode_json(each.reasons), each.inputs, each.decided_at_ms)
        for each in tables.refusals
        if each.conversation_id == owner
    ]


def _examined(tables: Tables, owner: str) -> Rows:
    return [
        (
            *(turn_id, ordinal, each.upstream_session_id, each.file.path, each.file.how),
            *(each.file.state, each.file.size_bytes, each.file.mtime_ns, each.file.digest),
            each.recorded_at_ms,
        )
        for (turn_id, ordinal), each in tables.examined.items()
        if each.conversation_id == owner
    ]


def _briefing_edits(tables: Tables, owner: str) -> Rows:
    edits = tables.briefing_edits.get(ConversationId(owner), ())
    return [(seq, *edit) for seq, edit in enumerate(edits, start=1)]


ROWS: Final[Mapping[Section, Callable[[Tables, str], Rows]]] = MappingProxyType(
    {
        "project": _projects,
        "workstream": _workstreams,
        "conversation": _conversation_rows,
        "link": _links,
        "link_end": _link_ends,
        "run": _run_rows,
        "run_event": _run_events,
        "turn": _turn_rows,
        "once": _once,
        "act": _acts,
        "transition": _transitions,
        "turn_event": _turn_events,
        "part": _parts,
        "quarantine": _quarantine,
        "refusal": _refusals,
        "examined": _examined,
        "briefing_edit": _briefing_edits,
    }
)
