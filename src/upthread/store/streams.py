"""Streams: their entries as JSON, the chain of their hashes, and their heads.

Theory of operation. A stream is the log of a conversation, a run, a project, a workstream, or an
action that is to be done once. Its entries are numbered from 1 without a gap, and only ever added.
What an entry says is two documents: `kept`, which stays, and `said`, the words of people and
models, which `forget` takes. Both are JSON, so that `select kind, kept, said from entry` shows a
person what there is. The hash of an entry covers the hash before it, so that the entry before
proves it.

A head is the fold of its stream's entries, stored beside them: what the next commit, the decision
and lists of workstreams need, so that none of them reads a log. A commit moves the head from the
last entry that it has seen to its own by compare-and-set, and so no two commits follow the same
entry. Nothing is in a head that the entries do not prove: `refolded` computes it again from them,
which `doctor` compares and an upgrade stores. What entries keep and heads hold is in kinds.py.

Where heads are to hold something else, raise SCHEMA_VERSION: the next opening (SQLite) or `upthread
migrate` (PostgreSQL) folds all heads again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cache
from hashlib import sha256
from operator import attrgetter
from typing import Any, NamedTuple, cast, get_args, overload

import msgspec
from msgspec import Struct, structs

from upthread.core.codec import Json, encode_json, encode_marked, encode_plain_json, is_marked
from upthread.core.decision.freshness import ExaminedFile
from upthread.core.record_policy import FIELDS_WITH_TEXT, without_text
from upthread.core.types import (
    ErasedPart,
    JsonValue,
    Part,
    Speaker,
    TextPart,
    ToolCallPart,
    UnknownPart,
)
from upthread.errors import StoreError
from upthread.store.kinds import (
    DONE,
    KINDS,
    SAID,
    CallOutline,
    ConversationState,
    Kept,
    PartOutline,
    Place,
    RunMoved,
    RunState,
    SizeOutline,
    Spoken,
    State,
    StreamKind,
    Tag,
    TurnMoved,
    WorkstreamState,
    own_tag,
)

CURE_OF_DAMAGE = "`upthread doctor` says what is damaged, and what helps"


class Entry(NamedTuple):
    """One entry as it is stored; its JSON is text or bytes, as the store has it.

    `digest` is that of what was said, None where that is there, or nothing ever was. `before` is
    the hash of the entry before it, None where it was not read.
    """

    seq: int
    kind: str
    at_ms: int
    kept: str | bytes
    said: str | bytes | None
    digest: bytes | None
    hash: bytes
    before: bytes | None = None

    def plain(self) -> tuple[Any, ...]:
        """Return an entry as it is on any backend."""
        return (*self[:3], as_bytes(self.kept), as_bytes(self.said), self.digest, self.hash)


class SpokenRow(NamedTuple):
    """What a reader of messages needs of an entry. A store may give a plain tuple of the same."""

    seq: int
    at_ms: int
    kept: str | bytes
    said: str | bytes | None


_KEPT = {kind: Json(shape, kind) for kind, shape in KINDS.items()}
_WITH_VALUES = frozenset({ToolCallPart, UnknownPart})
"""Parts that may hold a JSON value of somebody else's, and so a float."""
_KINDS_OF_PARTS = {shape: cast("str", shape.__struct_config__.tag) for shape in get_args(Part)}
_PLACE_FIELDS = attrgetter(*Place.__struct_fields__)
PLACE = Json(Place, "message")
PARTS_OF_MESSAGE = Json(tuple[Part, ...], "message")
_FILES = Json(tuple[ExaminedFile, ...], "examined")
_VALUE = Json(Any, "JSON")


# --- values to JSON -------------------------------------------------------------------------------


class Written(NamedTuple):
    """What is to be an entry: all but its place."""

    kind: str
    at_ms: int
    kept: bytes
    said: bytes | None
    value: Kept


_SILENCE = object()


def written(value: Kept, at_ms: int, said: object = _SILENCE) -> Written:
    """Return an entry of any kind but a message's parts. Without `said` nobody said anything."""
    encode = encode_json if value.has_values else encode_plain_json
    words = None if said is _SILENCE else encode_json(said)
    return Written(value.kind, at_ms, encode(value), words, value)


def written_event(value: TurnMoved | RunMoved, at_ms: int) -> Written:
    """Return the entry of an event: its text, where it has any, is `said`."""
    event: Any = value.event
    left = without_text(event)
    if left is event or left == event:
        return written(value, at_ms)
    words = {name: getattr(event, name) for name in FIELDS_WITH_TEXT[type(event)]}
    return written(structs.replace(value, event=left), at_ms, words)


def written_parts(place: Place, at_ms: int, parts: Sequence[Part]) -> Written:
    """Return the entry of a message's parts."""
    encoded: list[bytes] = []
    outline: list[SizeOutline] = []
    is_said = has_marks = False
    has_words = False
    for part in parts:  # one loop: there is an entry for each message
        kind = type(part)
        document = (encode_json if kind in _WITH_VALUES else encode_plain_json)(part)
        encoded.append(document)
        if kind is ErasedPart:
            part = cast("ErasedPart", part)
            outline.append(PartOutline(part.kind, part.size_bytes, part.call_id, part.digest))
            continue
        has_words = True
        call_id = getattr(part, "call_id", None)
        name, size = _KINDS_OF_PARTS[kind], len(document)
        outline.append(
            SizeOutline(name, size) if call_id is None else CallOutline(name, size, call_id)
        )
        is_said = is_said or kind is TextPart
        has_marks = has_marks or is_marked(document)
    said = None
    if has_words:  # a mark counts for all of a document
        said = encode_marked(parts) if has_marks else b"[%b]" % b",".join(encoded)
    seq, speaker, turn_id, session, first = _PLACE_FIELDS(place)
    value = Spoken(seq, speaker, turn_id, session, first, cast("Any", tuple(outline)))
    kind_of_entry = SAID if is_said and speaker is not Speaker.TOOL else DONE
    return Written(kind_of_entry, at_ms, encode_plain_json(value), said, value)


# --- JSON to values -------------------------------------------------------------------------------


def kept_of(entry: Entry) -> Any:
    """Return what an entry keeps. StoreError for a kind that this version does not know."""
    shape = _KEPT.get(entry.kind)
    if shape is None:
        raise StoreError(
            f"entry {entry.seq} is of a kind this version does not know: {entry.kind!r}",
            hint="a newer upthread wrote it; upgrade",
        )
    return shape.decode(entry.kept)


def place_of(kept: str | bytes) -> Place:
    """Return where an entry of a message belongs; its outline is not read, which takes longer."""
    return cast("Place", PLACE.decode(kept))


def spoken_of(kept: str | bytes) -> Spoken:
    """Return what an entry of a message keeps."""
    return cast("Spoken", _KEPT[SAID].decode(kept))


def parts_of(kept: str | bytes, said: str | bytes | None) -> tuple[Part, ...]:
    """Return the parts of an entry; what was forgotten as what is left of it."""
    if said is not None:
        return cast("tuple[Part, ...]", PARTS_OF_MESSAGE.decode(said))
    return tuple(
        ErasedPart(
            kind=each.kind, call_id=each.call_id, digest=each.digest, size_bytes=each.size_bytes
        )
        for each in spoken_of(kept).outline
    )


def event_of(entry: Entry, value: TurnMoved | RunMoved) -> Any:
    """Return an event with its text, as far as that was not forgotten."""
    if entry.said is None:
        return value.event
    words = _words_of(type(value.event)).decode(entry.said)
    return structs.replace(value.event, **structs.asdict(words))


def files_of(entry: Entry) -> tuple[ExaminedFile, ...]:
    """Return the files of an entry; none where they were forgotten."""
    if entry.said is None:
        return ()
    return cast("tuple[ExaminedFile, ...]", _FILES.decode(entry.said))


def said_of(entry: Entry, *, forgotten: JsonValue) -> JsonValue:
    """Return the value that was said; `forgotten` in place of one that is gone."""
    return forgotten if entry.said is None else cast("JsonValue", _VALUE.decode(entry.said))


@cache
def _words_of(event: type[Any]) -> Json:
    """Return the shape of what an event says."""
    types = {each.name: each.type for each in structs.fields(event)}
    fields = [(name, types[name]) for name in FIELDS_WITH_TEXT[event]]
    return Json(msgspec.defstruct(f"{event.__name__}Words", fields), event.__name__)


# --- the chain ------------------------------------------------------------------------------------

_NOTHING = sha256(b"").digest()


def first_hash(kind: StreamKind, name: str, project_id: str) -> bytes:
    """Return what the first entry of a stream is chained to."""
    return sha256(encode_plain_json([kind, project_id, name])).digest()


@overload
def as_bytes(document: str | bytes) -> bytes: ...
@overload
def as_bytes(document: str | bytes | None) -> bytes | None: ...
def as_bytes(document: str | bytes | None) -> bytes | None:
    """Return JSON as bytes; a store may have it as text."""
    return document.encode() if isinstance(document, str) else document


def digest_of(said: bytes | None, forgotten: bytes | None = None) -> bytes:
    """Return the digest of the words; `forgotten` is the stored digest of words that are gone."""
    return forgotten or _NOTHING if said is None else sha256(said).digest()


def chained(before: bytes, seq: int, entry: Entry | Written, digest: bytes) -> bytes:
    """Return the hash of an entry that follows one with the hash `before`."""
    covered = b"%b%b%d %b %d " % (before, digest, seq, entry.kind.encode(), entry.at_ms)
    return sha256(covered + as_bytes(entry.kept)).digest()


def hash_of(entry: Entry, before: bytes) -> bytes:
    """Return the hash that an entry as stored should have after one with the hash `before`.

    Empty for words beside a digest, because `forget` leaves the digest alone.
    """
    try:
        if None not in {entry.said, entry.digest}:
            return b""
        digest = digest_of(as_bytes(entry.said), entry.digest)
        return chained(before, entry.seq, entry, digest)
    except (AttributeError, TypeError, UnicodeEncodeError):  # another program wrote another type
        return b""


def not_whole(what: str, **ids: str) -> StoreError:
    """Return the error of an entry that is not what was recorded."""
    return StoreError(
        f"{what} is damaged: it is not what was recorded, or what stood before it is gone",
        hint=CURE_OF_DAMAGE,
        **ids,
    )


def proved(entries: Iterable[Entry], *, what: str, first: bytes) -> list[Entry]:
    """Return entries that were read with the hash before each. StoreError for one that is damaged.

    `first` is what the first entry of their stream is chained to.
    """
    found = list(entries)
    for each in found:
        before = first if each.seq == 1 else each.before
        if before is None or hash_of(each, before) != each.hash:
            raise not_whole(f"entry {each.seq} of {what}, {each.kind},")
    return found


LOG_VERSION = 100
"""The first version of a store that is one log."""

SCHEMA_VERSION = 100
"""The version of both schema.sql and of what heads hold."""

STREAMS: tuple[StreamKind, ...] = get_args(StreamKind)
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


_STATE = Json(State, "head")


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
        fold(made, entry.at_ms, kept_of(entry))
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
