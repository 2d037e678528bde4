"""Entries: how what a stream's log holds is written as JSON, and read back.

Theory of operation. A stream is the log of a conversation, a run, a project, a workstream, or an
action that is to be done once. Its entries are numbered from 1 without a gap, and only ever added.
What an entry says is two documents: `kept`, which stays, and `said`, the words of people and
models, which `forget` takes. Both are JSON, so that `select kind, kept, said from entry` shows a
person what there is. What each kind of entry keeps is in kinds.py; the chain over them, chain.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast, get_args

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
