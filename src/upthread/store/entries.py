"""Entries: what a stream's log holds, how it is written as JSON, and the chain over it.

Theory of operation. A stream is the log of a conversation, a run, a project, a workstream, or an
action that is to be done once. Its entries are numbered from 1 without a gap, and only ever added.
What an entry says is two documents: `kept`, which stays, and `said`, the words of people and
models, which `forget` takes. Both are JSON, so that `select kind, kept, said from entry` shows a
person what there is. Each kind of entry is a Struct here; its fields are those of `kept`.

Each entry has a hash: SHA-256 of the hash before it, of the digest of `said`, and of all else. The
chain covers the digest and not the words, so forgetting breaks nothing; the digest is stored once
the words are gone. The first entry is chained to the name of its stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

import msgspec
from msgspec import Struct, structs

from upthread.core.codec import Json, encode_json, encode_marked, encode_plain_json, is_marked
from upthread.core.commands import ActKind, OnceState
from upthread.core.decision.examined import ExaminedFile
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.record_policy import FIELDS_WITH_TEXT, without_text
from upthread.core.types import (
    Conversation,
    ConversationId,
    ErasedPart,
    JsonValue,
    Link,
    Part,
    ProjectIdentity,
    RunId,
    Speaker,
    TextPart,
    ToolCallPart,
    TurnId,
    UnknownPart,
    UpstreamSessionId,
)
from upthread.errors import StoreError

CURE_OF_DAMAGE: Final = "`upthread doctor` says what is damaged, and what helps"

StreamKind: TypeAlias = Literal["project", "workstream", "conversation", "run", "once"]


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


# --- the kinds: what opens a stream -------------------------------------------------------------


class ProjectOpened(Struct, frozen=True):
    """A project is known."""


class WorkstreamOpened(Struct, frozen=True):
    """A workstream has its base name."""

    base_name: str


class ConversationOpened(Struct, frozen=True):
    """A conversation was minted."""

    conversation: Conversation


class RunOpened(Struct, frozen=True):
    """A run over a workstream was minted."""

    workstream: str


class OnceOpened(Struct, frozen=True):
    """An action that is to be done once was first begun."""


# --- the kinds: what follows ----------------------------------------------------------------------


class Identified(Struct, frozen=True):
    """A project is known under one more identity."""

    identity: ProjectIdentity


class LinkOpened(Struct, frozen=True):
    """A conversation got an upstream session. The end of the link is an entry of its own."""

    link: Link


class LinkEnded(Struct, frozen=True):
    """A link was closed."""

    seq: int
    ended_because: str


_SHORT: Final = {"upstream_session_id": "session", "first_ordinal": "first", "turn_id": "turn"}
"""What is written with each message has short names."""


class TurnOpened(Struct, frozen=True, omit_defaults=True):
    """A turn was minted."""

    turn_id: TurnId
    run_id: RunId | None = None


class TurnMoved(Struct, frozen=True, rename=_SHORT):
    """A turn's event number `seq`, without its text."""

    turn_id: TurnId
    seq: int
    event: TurnEvent


class SizeOutline(Struct, frozen=True, array_like=True, gc=False):
    """What stays of a part without a call, as an array: `["text",1525]`."""

    kind: str
    size_bytes: int | None = None


class CallOutline(SizeOutline, frozen=True, array_like=True, gc=False):
    """What stays of a part with a call: `["tool_result",8110,"call_7"]`."""

    call_id: str | None = None


class PartOutline(CallOutline, frozen=True, array_like=True, gc=False):
    """Every outline as it is read. `digest` is given with parts that were forgotten elsewhere."""

    digest: bytes | None = None


class Place(Struct, frozen=True, omit_defaults=True, gc=False, rename=_SHORT):
    """Where parts belong: to message `seq`, from position `first_ordinal`; and whose they are."""

    seq: int
    speaker: Speaker
    turn_id: TurnId
    upstream_session_id: UpstreamSessionId | None = None
    first_ordinal: int = 0


class Spoken(Place, frozen=True, omit_defaults=True, gc=False, rename=_SHORT):
    """Parts of a message. `said` is the parts.

    The entry is `said` where a user or an assistant says something in it, else `done`.
    """

    outline: tuple[PartOutline, ...] = ()


class Acted(Struct, frozen=True, omit_defaults=True):
    """A person did something; to another conversation or run as well, where one is named."""

    what: ActKind
    by_user: str
    detail: str = ""
    conversation_id: ConversationId | None = None
    run_id: RunId | None = None


class Refused(Struct, frozen=True):
    """A decision led to no turn."""

    decision: str
    reasons: tuple[str, ...]
    inputs: JsonValue


class Examined(Struct, frozen=True):
    """So many files as a session knows them, from the turn's file `first_ordinal`. `said`: they."""

    turn_id: TurnId
    first_ordinal: int
    upstream_session_id: UpstreamSessionId
    count: int


class BriefingEdited(Struct, frozen=True):
    """A person's edit of the briefing. `said` is the edit."""

    seq: int


class Strayed(Struct, frozen=True):
    """An event without an owner was kept away. `said` is the event."""

    turn_id: TurnId
    ordinal: int
    reason: str


class RunMoved(Struct, frozen=True):
    """A run's event number `seq`, without its text."""

    seq: int
    event: RunEvent


class Due(Struct, frozen=True, omit_defaults=True):
    """A run's next transition, after event `run_seq`, is due at the entry's time."""

    run_seq: int
    queue: str = ""


class Attempted(Struct, frozen=True, omit_defaults=True):
    """An attempt at an action began or ended.

    `said` is the receipt where it has words of a conversation; `receipt` is then what stays of it.
    """

    attempt_id: str
    state: OnceState
    receipt: JsonValue = None


Kept: TypeAlias = (
    ProjectOpened
    | WorkstreamOpened
    | ConversationOpened
    | RunOpened
    | OnceOpened
    | Identified
    | LinkOpened
    | LinkEnded
    | TurnOpened
    | TurnMoved
    | Spoken
    | Acted
    | Refused
    | Examined
    | BriefingEdited
    | Strayed
    | RunMoved
    | Due
    | Attempted
)

SAID: Final = "said"
DONE: Final = "done"
PARTS: Final = (SAID, DONE)

KINDS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {
        "project": ProjectOpened,
        "workstream": WorkstreamOpened,
        "conversation": ConversationOpened,
        "run": RunOpened,
        "once": OnceOpened,
        "identity": Identified,
        "link": LinkOpened,
        "link_end": LinkEnded,
        "turn": TurnOpened,
        "turn_event": TurnMoved,
        SAID: Spoken,
        DONE: Spoken,
        "act": Acted,
        "refusal": Refused,
        "examined": Examined,
        "edit": BriefingEdited,
        "quarantine": Strayed,
        "run_event": RunMoved,
        "due": Due,
        "attempt": Attempted,
    }
)
"""Every kind of entry, by its word in the database, and what it keeps."""
assert {*KINDS.values()} == {*get_args(Kept)}, "each kind of entry has its word"

FREQUENT: Final = (*PARTS, "turn", "turn_event", "run_event", "act")
"""Kinds of which a turn or a run has many. All others are found by an index of their own."""

_KIND_OF: Final = {shape: kind for kind, shape in KINDS.items() if shape is not Spoken}
_KEPT: Final = {kind: Json(shape, kind) for kind, shape in KINDS.items()}
_WITH_VALUES: Final = frozenset(
    {Refused, Attempted, TurnMoved, RunMoved, ToolCallPart, UnknownPart}
)
"""What may hold a JSON value of somebody else's, and so a float."""
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
    encode = encode_json if type(value) in _WITH_VALUES else encode_plain_json
    words = None if said is _SILENCE else encode_json(said)
    return Written(_KIND_OF[type(value)], at_ms, encode(value), words, value)


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
