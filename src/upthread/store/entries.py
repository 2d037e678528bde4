"""Entries: how what a stream's log holds is written as JSON, and read back.

Theory of operation. A stream is the log of a conversation, a run, a project, a workstream, or an
action that is to be done once. Its entries are numbered from 1 without a gap, and only ever added.
What an entry says is two documents: `kept`, which stays, and `said`, the words of people and
models, which `forget` takes. Both are JSON, so that `select kind, kept, said from entry` shows a
person what there is. What each kind of entry keeps is in kinds.py.

The hash of an entry covers the hash before it, so that the entry before proves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast, get_args, overload

import msgspec
from msgspec import structs

from upthread.core.codec import Json, encode_json, encode_marked, encode_plain_json, is_marked
from upthread.core.decision.examined import ExaminedFile
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
    Kept,
    PartOutline,
    Place,
    RunMoved,
    SizeOutline,
    Spoken,
    TurnMoved,
)
from upthread.store.tags import StreamKind

CURE_OF_DAMAGE: Final = "`upthread doctor` says what is damaged, and what helps"


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


_KEPT: Final = {kind: Json(shape, kind) for kind, shape in KINDS.items()}
_WITH_VALUES: Final = frozenset({ToolCallPart, UnknownPart})
"""Parts that may hold a JSON value of somebody else's, and so a float."""
_KINDS_OF_PARTS: Final = {
    shape: cast("str", shape.__struct_config__.tag) for shape in get_args(Part)
}
_PLACE_FIELDS: Final = attrgetter(*Place.__struct_fields__)
PLACE: Final = Json(Place, "message")
PARTS_OF_MESSAGE: Final = Json(tuple[Part, ...], "message")
_FILES: Final = Json(tuple[ExaminedFile, ...], "examined")
_VALUE: Final = Json(Any, "JSON")


# --- values to JSON -------------------------------------------------------------------------------


class Written(NamedTuple):
    """What is to be an entry: all but its place."""

    kind: str
    at_ms: int
    kept: bytes
    said: bytes | None
    value: Kept


_SILENCE: Final = object()


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

_NOTHING: Final = sha256(b"").digest()


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
