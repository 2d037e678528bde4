"""Values to bytes and back: the stored form of a part's content and of an event's payload.

Decides the stored form and nothing else; where the bytes go is a store's business. Text is UTF-8
with `surrogatepass`, so that what an agent sent comes back identical, lone surrogates and NUL
included. Structured values are JSON (RFC 8259) written by msgspec. A tool's result, most of what
there is to store, is a line of JSON with its status and its child, then its text as it is.

msgspec refuses two things that Python strings and floats can hold: lone surrogates and numbers
that are not finite. For these alone the standard library writes and reads the same JSON, with the
surrogates as raw bytes: written as escapes, a high one next to a low one would come back as one
other character.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NotRequired, TypedDict, cast, get_args, get_type_hints

import msgspec

from upthread.core import events
from upthread.core.events import RunEvent, TurnEvent
from upthread.core.lazy_regex import regex
from upthread.core.types import (
    ContextPart,
    ErasedPart,
    FilePart,
    JsonValue,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    ready,
)
from upthread.errors import StoreError, UsageError


class StoredPart(NamedTuple):
    """A part as columns.

    `content` is None for a part that was erased; only of one are digest and size given beside it.
    """

    kind: str
    call_id: str | None
    content: bytes | None
    digest: bytes | None = None
    size_bytes: int | None = None


# --- text and JSON -----------------------------------------------------------------------------


def encode_text(text: str) -> bytes:
    """Return text as bytes; any string Python can hold is accepted."""
    return text.encode("utf-8", "surrogatepass")


encode_word: Final = functools.lru_cache(maxsize=1_000)(encode_text)
"""`encode_text` for short texts that come again and again: kinds, speakers, ids of ours."""


def decode_text(content: bytes) -> str:
    """Return the text behind the bytes. StoreError when they are none."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _decode_surrogates(content)
    except AttributeError as error:
        # SQLite's columns hold any type: another program, or one bit, makes a blob a text.
        raise StoreError("stored text is damaged: it is not bytes", hint=_DAMAGED) from error


def encode_json(value: object) -> bytes:
    """Return JSON for a value, equal bytes for equal values in the same order.

    Tuples become arrays and mappings objects. UsageError for a value nested too deeply to write.
    """
    try:
        encoded = _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _encode_leniently(value)
    except RecursionError as error:
        raise UsageError(
            "a value is nested too deeply to be stored", hint="flatten it or store it as text"
        ) from error
    # msgspec writes NaN and the infinities as null: the only way a value is lost.
    if b"null" in encoded and _has_non_finite(value):
        return _encode_leniently(value)
    return encoded


def encode_plain_json(values: tuple[str | int | None, ...]) -> bytes:
    """Return what `encode_json` would, of values that hold no float: there is nothing to look for.

    There is one for each part, of which the look took longer than all the rest.
    """
    try:
        return _ENCODER.encode(values)
    except UnicodeEncodeError:
        return _encode_leniently(values)


def decode_json(content: bytes) -> JsonValue:
    """Return the value behind JSON bytes: lists, dicts and scalars, made anew at each call."""
    return cast("JsonValue", _decode_as(_ANY, content, "JSON"))


# --- parts -------------------------------------------------------------------------------------


def encode_part(part: Part) -> StoredPart:
    """Return a part as columns."""
    return _PART_ENCODERS[type(part)](part)


def decode_part(
    kind: str,
    call_id: str | None,
    content: bytes | None,
    digest: bytes | None = None,
    size_bytes: int | None = None,
) -> Part:
    """Return the part behind its columns.

    A kind this version does not know becomes an UnknownPart; no content an ErasedPart. StoreError,
    with the path of what is wrong, for content that is not what its kind says.
    """
    if content is None:
        return ErasedPart(kind=kind, call_id=call_id, digest=digest, size_bytes=size_bytes)
    said = SAID.get(kind)
    if said is not None:
        return said(decode_text(content))
    decode_call = _CALL_DECODERS.get(kind)
    if decode_call is not None:
        if call_id is None:
            raise StoreError(f"stored {kind} has no call id", hint=_DAMAGED)
        return decode_call(call_id, content)
    decode = _CONTENT_DECODERS.get(kind)
    return _decode_foreign_part(kind, content) if decode is None else decode(content)


# --- events ------------------------------------------------------------------------------------


def encode_event(event: TurnEvent | RunEvent) -> tuple[str, bytes]:
    """Return an event's kind and payload."""
    return _EVENT_KINDS[type(event)], encode_json(event)


def decode_turn_event(kind: str, payload: bytes) -> TurnEvent:
    """Return the turn event behind its columns. StoreError for a kind that is none."""
    return cast("TurnEvent", _decode_event(_TURN_EVENTS, kind, payload))


def decode_run_event(kind: str, payload: bytes) -> RunEvent:
    """Return the run event behind its columns. StoreError for a kind that is none."""
    return cast("RunEvent", _decode_event(_RUN_EVENTS, kind, payload))


# --- below: how --------------------------------------------------------------------------------

_DAMAGED: Final = "run `upthread doctor`; the database was changed by something else"


def _decode_surrogates(content: bytes) -> str:
    """Apart, because naming the error handler takes longer than decoding a message."""
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise StoreError(f"stored text is damaged: {error}", hint=_DAMAGED) from error


def _plain(value: object) -> object:
    """What msgspec does not know: read-only mappings and sequences."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    if isinstance(value, Sequence):
        return list(cast("Sequence[object]", value))
    raise UsageError(
        f"a value of type {type(value).__name__} cannot be stored",
        hint="pass JSON values: text, numbers, lists",
    )


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain)
_PACKER: Final = msgspec.msgpack.Encoder(enc_hook=_plain)

# As MessagePack has a number: 0xcb, then its eight bytes, of which the exponent is all ones.
_LIKE_NON_FINITE: Final = regex(rb"\xcb[\x7f\xff][\xf0-\xff]")


def _has_non_finite(value: object) -> bool:
    """Return whether a number in a value, however deep, is not finite."""
    try:
        packed = _PACKER.encode(value)
    except (OverflowError, RecursionError):  # an integer of more than 64 bits
        return _is_or_has_non_finite(msgspec.to_builtins(value, enc_hook=_plain))
    # Most often nothing looks like one, which is told at once. Other bytes may look like one, too.
    return _LIKE_NON_FINITE.search(packed) is not None and _is_or_has_non_finite(
        msgspec.to_builtins(value, enc_hook=_plain)
    )


def _is_or_has_non_finite(plain: object) -> bool:
    if isinstance(plain, float):
        return not math.isfinite(plain)
    if isinstance(plain, dict):
        return any(map(_is_or_has_non_finite, cast("dict[str, object]", plain).values()))
    return isinstance(plain, list | tuple) and any(
        map(_is_or_has_non_finite, cast("list[object]", plain))
    )


def _encode_leniently(value: object) -> bytes:
    import json  # noqa: PLC0415  # seldom: of what msgspec does not take

    plain = msgspec.to_builtins(value, enc_hook=_plain)
    return encode_text(json.dumps(plain, ensure_ascii=False, separators=(",", ":")))


class _Decoder:
    """A msgspec type and the decoder made for it, once there is something to decode."""

    def __init__(self, shape_of: Callable[[], Any]) -> None:
        self._shape_of = shape_of

    @functools.cached_property
    def shape(self) -> Any:
        return self._shape_of()

    @functools.cached_property
    def decode(self) -> Callable[[bytes], Any]:
        return msgspec.json.Decoder(ready(self.shape)).decode


def _decode_as(decoder: _Decoder, content: bytes, what: str) -> Any:
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise StoreError(f"stored {what} is not what it should be: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_leniently(decoder.shape, content, what)


def _decode_leniently(shape: Any, content: bytes, what: str) -> Any:
    import json  # noqa: PLC0415  # seldom: of what msgspec does not take

    try:
        return msgspec.convert(json.loads(decode_text(content)), ready(shape))
    except msgspec.ValidationError as error:
        raise StoreError(f"stored {what} is not what it should be: {error}") from error
    except ValueError as error:
        raise StoreError(f"stored {what} is damaged: {error}", hint=_DAMAGED) from error


def _shape_of(cls: type[Any]) -> Any:
    """Return a type for a value's fields.

    A TypedDict stands in for the class because msgspec takes no recursive union such as JsonValue;
    Any takes its place, since JSON read is a JsonValue already.
    """
    hints = get_type_hints(cls, localns={"JsonValue": Any})
    shape: dict[str, Any] = {
        name: NotRequired[hints[name]] if has_default else hints[name]
        for name, has_default in _members_of(cls)
    }
    return TypedDict(cls.__name__, shape)  # type: ignore[operator]  # fields known at run time


def _members_of(cls: type[Any]) -> Iterator[tuple[str, bool]]:
    """Yield the fields of a value, and whether each has a default."""
    defaults = cls.__struct_defaults__
    required = len(cls.__struct_fields__) - len(defaults)
    for at, name in enumerate(cls.__struct_fields__):
        yield name, at >= required and defaults[at - required] is not msgspec.NODEFAULT


def _content_of(cls: type[Any], *, without: frozenset[str]) -> Any:
    """Return a struct for the fields of a part's content.

    Whole conversations are read by it: the dictionary of `_shape_of` takes twice as long.
    """
    hints = get_type_hints(cls, localns={"JsonValue": Any})
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    members = [
        (name, hints[name], given[name]) if name in given else (name, hints[name])
        for name in names
        if name not in without
    ]
    return msgspec.defstruct(f"{cls.__name__}Content", members)


_ANY: Final = _Decoder(lambda: Any)
_CALL_ID: Final = frozenset({"call_id"})
_TOOL_CALL: Final = _Decoder(lambda: _content_of(ToolCallPart, without=_CALL_ID))
_TOOL_RESULT_HEAD: Final = _Decoder(
    lambda: _content_of(ToolResultPart, without=_CALL_ID | {"text"})
)
_FILE: Final = _Decoder(lambda: _shape_of(FilePart))
_UNKNOWN: Final = _Decoder(lambda: _shape_of(UnknownPart))


def _encode_tool_call(part: ToolCallPart) -> StoredPart:
    content = encode_json(
        {
            "title": part.title,
            "tool_kind": part.tool_kind,
            "arguments": part.arguments,
            "locations": part.locations,
        }
    )
    return StoredPart("tool_call", part.call_id, content)


def _encode_tool_result(part: ToolResultPart) -> StoredPart:
    head = {"status": part.status}
    if part.child_conversation_id is not None:
        head["child_conversation_id"] = part.child_conversation_id
    content = encode_json(head) + b"\n" + encode_text(part.text)
    return StoredPart("tool_result", part.call_id, content)


_PART_ENCODERS: Final[Mapping[type[Any], Callable[[Any], StoredPart]]] = MappingProxyType(
    {
        TextPart: lambda part: StoredPart("text", None, encode_text(part.text)),
        ContextPart: lambda part: StoredPart("context", None, encode_text(part.text)),
        ReasoningPart: lambda part: StoredPart("reasoning", None, encode_text(part.text)),
        ToolCallPart: _encode_tool_call,
        ToolResultPart: _encode_tool_result,
        FilePart: lambda part: StoredPart("file", None, encode_json(part)),
        # Under a kind of its own: an agent's update called "text" must not come back as one.
        UnknownPart: lambda part: StoredPart("unknown", None, encode_json(part)),
        ErasedPart: lambda part: StoredPart(
            part.kind, part.call_id, None, part.digest, part.size_bytes
        ),
    }
)


def _decode_tool_call(call_id: str, content: bytes) -> Part:
    call = _decode_as(_TOOL_CALL, content, "tool_call")
    return ToolCallPart(call_id, call.title, call.tool_kind, call.arguments, call.locations)


def _decode_tool_result(call_id: str, content: bytes) -> Part:
    line, newline, text = content.partition(b"\n")
    head = _decode_result_head(line)
    if not newline:
        raise StoreError("stored tool_result has no text", hint=_DAMAGED)
    return ToolResultPart(call_id, head.status, decode_text(text), head.child_conversation_id)


@functools.lru_cache(maxsize=100)
def _decode_result_head(line: bytes) -> Any:
    """Decode what stands before a result's text; most of them say "completed" and no more."""
    return _decode_as(_TOOL_RESULT_HEAD, line, "tool_result")


def _decode_foreign_part(kind: str, content: bytes) -> Part:
    """A kind of a later version: JSON if it is JSON, else text."""
    try:
        raw = decode_json(content)
    except StoreError:
        raw = decode_text(content)
    return UnknownPart(kind=kind, raw=raw)


SAID: Final[dict[str, Callable[[str], Part]]] = {
    "text": TextPart,
    "context": ContextPart,
    "reasoning": ReasoningPart,
}
"""What makes the parts that are text and nothing else, by their kind; read only.

For readers of whole conversations, where one call less for each part is felt.
"""
_CONTENT_DECODERS: Final[Mapping[str, Callable[[bytes], Part]]] = MappingProxyType(
    {
        "file": lambda content: FilePart(**_decode_as(_FILE, content, "file")),
        "unknown": lambda content: UnknownPart(**_decode_as(_UNKNOWN, content, "unknown")),
    }
)
_CALL_DECODERS: Final[dict[str, Callable[[str, bytes], Part]]] = {
    "tool_call": _decode_tool_call,
    "tool_result": _decode_tool_result,
}


class _EventForm(NamedTuple):
    """An event's class and the decoder of its payload."""

    cls: type[Any]
    decoder: _Decoder


def _forms_of(alphabet: Any) -> Mapping[str, _EventForm]:
    return MappingProxyType(
        {
            _kind_of(cls): _EventForm(cls, _Decoder(functools.partial(_shape_of, cls)))
            for cls in get_args(alphabet)
        }
    )


def _kind_of(cls: type[Any]) -> str:
    """`TurnIntended` is stored as `turn_intended`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")


def _decode_event(forms: Mapping[str, _EventForm], kind: str, payload: bytes) -> Any:
    form = forms.get(kind)
    if form is None:
        raise StoreError(
            f"stored event is of a kind this version does not know: {kind!r}",
            hint="a newer upthread wrote it; upgrade",
        )
    return form.cls(**_decode_as(form.decoder, payload, kind))


_TURN_EVENTS: Final = _forms_of(events.TurnEvent)
_RUN_EVENTS: Final = _forms_of(events.RunEvent)
_EVENT_KINDS: Final[Mapping[type[Any], str]] = MappingProxyType(
    {form.cls: kind for forms in (_TURN_EVENTS, _RUN_EVENTS) for kind, form in forms.items()}
)
