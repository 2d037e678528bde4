"""Streams: their heads, which follow from the entries.

Theory of operation. A head is the fold of its stream's entries, stored beside them: what the next
commit, the decision and lists of workstreams need, so that none of them reads a log. A commit moves
the head from the last entry that it has seen to its own by compare-and-set, and so no two commits
follow the same entry. Nothing is in a head that the entries do not prove: `refolded` computes it
again from them, which `doctor` compares and an upgrade stores. What a head holds is in kinds.py.

Where heads are to hold something else, raise SCHEMA_VERSION: the next opening (SQLite) or `upthread
migrate` (PostgreSQL) folds all heads again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast, get_args

from msgspec import Struct

from upthread.core.codec import Json, encode_plain_json
from upthread.errors import StoreError
from upthread.store import entries
from upthread.store.entries import CURE_OF_DAMAGE, Entry, as_bytes, first_hash
from upthread.store.kinds import ConversationState, Kept, RunState, State, WorkstreamState
from upthread.store.tags import StreamKind, Tag, own_tag

LOG_VERSION: Final = 100
"""The first version of a store that is one log."""

SCHEMA_VERSION: Final = 100
"""The version of both schema.sql and of what heads hold."""

STREAMS: Final[tuple[StreamKind, ...]] = get_args(StreamKind)
"""The kinds of streams, in the order in which they can be made."""


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


class Proof(NamedTuple):
    """A stream of a store, and its damage, None where all of it is what was recorded.

    `head` is None where it is damaged or gone. A damaged message is `seq` of its ids.
    """

    name: str
    head: Head | None
    damage: StoreError | None


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
        is_whole = _seal(first, last, hashed, as_bytes(state)) == seal
    except (AttributeError, TypeError, UnicodeEncodeError, ValueError):
        name, project_id, is_whole, first = str(raw_name), "", False, b""
    if not is_whole:
        what = f"the head of {kind} {name!r} is damaged: it is not what was recorded"
        if row is None:
            what = f"the head of {tag} is damaged: it is gone"
        raise StoreError(what, hint=CURE_OF_DAMAGE)
    made = _STATE.decode(state)
    return Head(row, cast("StreamKind", kind), name, project_id, last, hashed, made, first)


def text_of(name: str | bytes) -> str:
    """Return a name as it was given; a store has bytes where the name is not valid Unicode."""
    return name.decode("utf-8", "surrogatepass") if isinstance(name, bytes) else name


def _seal(first: bytes, last: int, hashed: bytes, state: bytes) -> bytes:
    return sha256(b"%b%b%d %b" % (first, hashed, last, state)).digest()


def refolded(
    found: Iterable[Entry], kind: bytes | str, name: bytes, project_id: bytes
) -> tuple[bytes, bytes]:
    """Return the state and the seal that all entries of a stream make; they are not proved here."""
    made = new_head(cast("StreamKind", text_of(kind)), text_of(name), text_of(project_id))
    for entry in found:
        made.last, made.hash = entry.seq, entry.hash
        fold(made, entry.at_ms, entries.kept_of(entry))
    return encoded(made)


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


def tags_of(head: Head, value: Kept) -> Iterator[Tag]:
    """Yield the tags that the last entry of a head gives its stream."""
    if head.last == 1:
        yield Tag(own_tag(head.kind, head.name, head.project_id), 0, 1)
    for text, nth in value.tags(head.project_id):
        yield Tag(text, nth, head.last)


def fold(head: Head, at_ms: int, value: Kept) -> None:
    """Move the state of a head on by its last entry. `head.last` is that entry's number."""
    if head.state is None:
        head.state = value.opened(at_ms)
    else:
        value.fold(head.state, at_ms, head.last)
