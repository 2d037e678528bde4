"""Streams: what their heads hold, and how the head follows from the entries.

Theory of operation. A head is the fold of its stream's entries, stored beside them: what the next
commit, the decision and lists of workstreams need, so that none of them reads a log. A commit moves
the head from the last entry that it has seen to its own by compare-and-set, and so no two commits
follow the same entry. Nothing is in a head that the entries do not prove: `refolded` computes it
again from them, which `doctor` compares and an upgrade stores.

Change what a head holds by a field of a state here, and its line in `fold`. Then raise
SCHEMA_VERSION: the next opening (SQLite) or `upthread migrate` (PostgreSQL) folds all heads again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast, get_args

from msgspec import Struct, structs

from upthread.core.codec import Json, encode_plain_json
from upthread.core.commands import RecordParts
from upthread.core.events import TurnEnded, TurnEvent, settles
from upthread.core.types import Conversation, Link, Outcome, RunId, Speaker, TurnId
from upthread.errors import StoreError
from upthread.store import chain, entries
from upthread.store._rules import text_of
from upthread.store.chain import first_hash
from upthread.store.entries import CURE_OF_DAMAGE, Entry, StreamKind

LOG_VERSION: Final = 100
"""The first version of a store that is one log."""

SCHEMA_VERSION: Final = 100
"""The version of both schema.sql and of what heads hold."""

STREAMS: Final[tuple[StreamKind, ...]] = get_args(StreamKind)
"""The kinds of streams, in the order in which they can be made."""

# --- what heads hold ------------------------------------------------------------------------------


class ProjectState(Struct, omit_defaults=True, tag_field="stream", tag="project"):
    """A project: how many identities it has."""

    identities: int = 0


class WorkstreamState(Struct, omit_defaults=True, tag_field="stream", tag="workstream"):
    """A workstream."""

    base_name: str = ""
    opened_at_ms: int = 0


class TurnState(Struct, frozen=True, omit_defaults=True):
    """A conversation's newest turn.

    `at` is the entry that opened it, `events` those of its events; `files` is the number of its
    next file. `is_clear` is whether it ended well, and so did all before it: the guard of hooks
    asks for that alone.
    """

    turn_id: TurnId
    at: int
    opened_at_ms: int
    run_id: RunId | None = None
    events: tuple[int, ...] = ()
    files: int = 0
    is_clear: bool = False


class ConversationState(Struct, omit_defaults=True, tag_field="stream", tag="conversation"):
    """A conversation.

    `parts` are those of the last message so far, `author` its speaker, turn and upstream session.
    `session` is that of the newest link, open or not. `late` says that a turn had an event after a
    later one was opened. `noted_at_ms` is the latest time of an act or a refusal.
    """

    conversation: Conversation
    messages: int = 0
    parts: int = 0
    author: tuple[Speaker, str, str | None] | None = None
    turns: int = 0
    turn: TurnState | None = None
    late: bool = False
    links: int = 0
    session: str | None = None
    linked_at_ms: int = 0
    open_links: tuple[Link, ...] = ()
    edits: int = 0
    noted_at_ms: int | None = None


class RunState(Struct, omit_defaults=True, tag_field="stream", tag="run"):
    """A run. `due` is its transition that no later event has settled: when, and after which."""

    workstream: str = ""
    opened_at_ms: int = 0
    events: int = 0
    settled: int = 0
    due: tuple[int, int, str] | None = None
    noted_at_ms: int | None = None


class ActionState(Struct, omit_defaults=True, tag_field="stream", tag="once"):
    """An action that is to be done once: its last attempt and how that stands."""

    attempt_id: str = ""
    state: str = ""


State: TypeAlias = ProjectState | WorkstreamState | ConversationState | RunState | ActionState


class Head(Struct):
    """A stream as it stands. `row` is its number in its store, 0 before it has one."""

    row: int
    kind: StreamKind
    name: str
    project_id: str
    last: int
    hash: bytes
    state: State | None
    first: bytes
    """What the first entry is chained to: the stream's name in 32 bytes."""

    def moved(self) -> Head:
        """Return a copy that can be moved on."""
        moved = copy(self)
        moved.state = copy(self.state)
        return moved


_STATE: Final = Json(State, "head")


def new_head(kind: StreamKind, name: str, project_id: str, row: int = 0) -> Head:
    """Return the head of a stream before its first entry."""
    first = first_hash(kind, name, project_id)
    return Head(row, kind, name, project_id, 0, first, None, first)


def encoded(head: Head) -> tuple[bytes, bytes]:
    """Return a head's state as JSON, and its seal."""
    state = encode_plain_json(head.state)
    return state, _seal(head.first, head.last, head.hash, state)


def head_of(columns: Sequence[Any], tag: str = "") -> Head:
    """Return a head from the columns of its row. StoreError for a row that was changed.

    The seal covers the columns. Names may be bytes, and are where they are not valid Unicode. The
    error names a head that is gone by the `tag` that led to it.
    """
    state: str | bytes
    row, kind, raw_name, raw_project_id, last, hashed, state, seal = columns
    try:
        kind, name, project_id = text_of(kind), text_of(raw_name), text_of(raw_project_id)
        first = first_hash(cast("StreamKind", kind), name, project_id)
        is_whole = _seal(first, last, hashed, chain.as_bytes(state)) == seal
    except (AttributeError, TypeError, UnicodeEncodeError, ValueError):
        name, project_id, is_whole, first = str(raw_name), "", False, b""
    if not is_whole:
        what = f"the head of {kind} {name!r} is damaged: it is not what was recorded"
        if row is None:
            what = f"the head of {tag} is damaged: it is gone"
        raise StoreError(what, hint=CURE_OF_DAMAGE)
    made = _STATE.decode(state)
    return Head(row, cast("StreamKind", kind), name, project_id, last, hashed, made, first)


def _seal(first: bytes, last: int, hashed: bytes, state: bytes) -> bytes:
    return sha256(b"%b%b%d %b" % (first, hashed, last, state)).digest()


def refolded(head: Head, found: Iterable[Entry]) -> Head:
    """Return the head that all entries of a stream make; they are not proved here."""
    made = new_head(head.kind, head.name, head.project_id, head.row)
    for entry in found:
        made.last, made.hash = entry.seq, entry.hash
        fold(made, entry.at_ms, entries.kept_of(entry))
    return made


def bare_head(row: int, kind: bytes | str, name: bytes, project_id: bytes) -> Head:
    """Return a head of which the state is not read, to be folded again."""
    return new_head(cast("StreamKind", text_of(kind)), text_of(name), text_of(project_id), row)


def workstream_of(head: Head) -> str | None:
    """Return the workstream that a stream belongs to, None for an action or a project."""
    match head.state:
        case ConversationState(conversation=conversation):
            return conversation.key.workstream
        case RunState(workstream=workstream):
            return workstream
        case WorkstreamState():
            return head.name
        case _:
            return None


# --- the fold -------------------------------------------------------------------------------------


def fold(head: Head, at_ms: int, value: entries.Kept) -> None:
    """Move the state of a head on by its last entry. `head.last` is that entry's number."""
    move = _FOLD.get(type(value))
    if move is None:
        head.state = _OPENED[type(value)](value, at_ms)
    else:
        move(head.state, value, at_ms, head.last)


def _identified(state: ProjectState, _value: entries.Identified, _at_ms: int, _seq: int) -> None:
    state.identities += 1


def _linked(state: ConversationState, value: entries.LinkOpened, at_ms: int, _seq: int) -> None:
    state.links = value.link.seq
    state.session = value.link.upstream_session_id
    state.linked_at_ms = at_ms
    state.open_links = (*state.open_links, value.link)


def _link_ended(state: ConversationState, value: entries.LinkEnded, _at_ms: int, _seq: int) -> None:
    state.open_links = tuple(each for each in state.open_links if each.seq != value.seq)


def _turned(state: ConversationState, value: entries.TurnOpened, at_ms: int, seq: int) -> None:
    state.turns += 1
    state.turn = TurnState(value.turn_id, seq, at_ms, value.run_id)


def _turn_moved(state: ConversationState, value: entries.TurnMoved, _at_ms: int, seq: int) -> None:
    turn = state.turn
    if turn is None or turn.turn_id != value.turn_id:
        state.late = True
    else:
        events = (*turn.events, seq)
        state.turn = structs.replace(turn, events=events, is_clear=_is_clear(value.event))


def _is_clear(event: TurnEvent) -> bool:
    return (
        isinstance(event, TurnEnded)
        and event.outcome is Outcome.OK
        and not (event.calls_open or event.failed_before)
    )


def _spoken(state: ConversationState, value: entries.Spoken, _at_ms: int, _seq: int) -> None:
    state.messages = value.seq
    state.parts = value.first_ordinal + len(value.outline)
    state.author = author_of(value)


def author_of(value: entries.Place | RecordParts) -> tuple[Speaker, str, str | None]:
    """Return whose a message is: its speaker, turn and upstream session."""
    return value.speaker, value.turn_id, value.upstream_session_id


def _acted(state: ConversationState | RunState, _value: object, at_ms: int, _seq: int) -> None:
    state.noted_at_ms = at_ms if state.noted_at_ms is None else max(state.noted_at_ms, at_ms)


def _examined(state: ConversationState, value: entries.Examined, _at_ms: int, _seq: int) -> None:
    turn = state.turn
    if turn is not None and turn.turn_id == value.turn_id:
        files = max(turn.files, value.first_ordinal + value.count)
        state.turn = structs.replace(turn, files=files)


def _edited(state: ConversationState, value: entries.BriefingEdited, _at: int, _seq: int) -> None:
    state.edits = value.seq


def _unchanged(_state: State, _value: object, _at_ms: int, _seq: int) -> None:
    """Leave the state as it is."""


def _run_moved(state: RunState, value: entries.RunMoved, _at_ms: int, _seq: int) -> None:
    state.events = value.seq
    if settles(value.event):
        state.settled, state.due = value.seq, None


def _due(state: RunState, value: entries.Due, at_ms: int, _seq: int) -> None:
    if value.run_seq >= state.settled:
        state.due = (at_ms, value.run_seq, value.queue)


def _attempted(state: ActionState, value: entries.Attempted, _at_ms: int, _seq: int) -> None:
    state.attempt_id, state.state = value.attempt_id, value.state


_OPENED: Final[Mapping[type[Any], Callable[[Any, int], State]]] = MappingProxyType(
    {
        entries.ProjectOpened: lambda _value, _at_ms: ProjectState(),
        entries.WorkstreamOpened: lambda value, at_ms: WorkstreamState(value.base_name, at_ms),
        entries.ConversationOpened: lambda value, _at_ms: ConversationState(value.conversation),
        entries.RunOpened: lambda value, at_ms: RunState(value.workstream, at_ms),
        entries.OnceOpened: lambda _value, _at_ms: ActionState(),
    }
)
_FOLD: Final[dict[type[Any], Callable[[Any, Any, int, int], None]]] = {
    entries.Identified: _identified,
    entries.LinkOpened: _linked,
    entries.LinkEnded: _link_ended,
    entries.TurnOpened: _turned,
    entries.TurnMoved: _turn_moved,
    entries.Spoken: _spoken,
    entries.Acted: _acted,
    entries.Refused: _acted,
    entries.Examined: _examined,
    entries.BriefingEdited: _edited,
    entries.Strayed: _unchanged,
    entries.RunMoved: _run_moved,
    entries.Due: _due,
    entries.Attempted: _attempted,
}
assert {*_FOLD, *_OPENED} == {*entries.KINDS.values()}, "each kind of entry has its fold"
