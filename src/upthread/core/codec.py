r"""Values to JSON and back: the stored form of all that is recorded.

Decides the stored form and nothing else; where the bytes go is a store's business. JSON (RFC 8259)
is written by msgspec, in UTF-8, so that a person can read a database with `sqlite3`. A value comes
back identical, NUL, lone surrogates and numbers that are not finite included.

msgspec refuses lone surrogates and writes `null` for a number that is not finite. A document that
holds one of them is marked: it begins with a blank, and in it a text that begins with `~` is a mark
of ours. For example `["a", "~text:\\ud800", "~number:nan"]`. A text of somebody's own that begins
with `~` is then written as `~text:~…`, so that no text is ever taken for a mark.
"""

import functools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from upthread.core.types import JsonValue, UpstreamSessionId, ready
from upthread.errors import StoreError, UsageError

DAMAGED = "run `upthread doctor`; the database was changed by something else"


def encode_text(text: str) -> bytes:
    """Return text as UTF-8; any string Python can hold is accepted."""
    return text.encode("utf-8", "surrogatepass")


def encode_json(value: object) -> bytes:
    """Return JSON for a value, equal bytes for equal values in the same order.

    Tuples become arrays and mappings objects. UsageError for a value nested too deeply to write.
    """
    try:
        encoded = _ENCODER.encode(value)
    except UnicodeEncodeError:
        return encode_marked(value)
    except RecursionError as error:
        raise UsageError(
            "a value is nested too deeply to be stored", hint="flatten it or store it as text"
        ) from error
    # msgspec writes NaN and the infinities as null: the only way a value is lost.
    if b"null" in encoded and _has_non_finite(value):
        return encode_marked(value)
    return encoded


def comes_back(value: Any, back: Any, *, but: tuple[type, ...] = ()) -> bool:
    """Return whether what is read for a value equals it: NaN is itself, a tuple may be a list.

    Values of the types `but` may come back as text.
    """
    if isinstance(value, dict) and isinstance(back, dict):
        members = cast("dict[object, object]", value)
        return members.keys() == back.keys() and all(
            comes_back(each, back[name], but=but) for name, each in members.items()
        )
    if isinstance(value, list | tuple) and isinstance(back, list | tuple):
        items, others = cast("Sequence[object]", value), cast("Sequence[object]", back)
        pairs = zip(items, others, strict=False)
        return len(items) == len(others) and all(comes_back(*each, but=but) for each in pairs)
    is_nan = value != value and back != back  # noqa: PLR0124
    return bool(value == back) or isinstance(value, but) or is_nan


def is_nested_deeper(value: object, most: int) -> bool:
    """Return whether lists and objects in a value are nested deeper. Without recursion."""
    level = [value]
    for _ in range(most + 1):
        level = [
            each
            for outer in level
            if isinstance(outer, dict | list | tuple)
            for each in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


def encode_plain_json(value: object) -> bytes:
    """Return what `encode_json` would, of a value that holds no float: there is nothing to find.

    There is one for each entry, of which the look took longer than all the rest.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return encode_marked(value)


def encode_marked(value: object) -> bytes:
    """Return JSON for a value with marks for what JSON cannot hold."""
    return b" " + _ENCODER.encode(_marked(msgspec.to_builtins(value, enc_hook=_plain)))


def is_marked(content: bytes) -> bool:
    """Return whether JSON of ours holds marks."""
    return content.startswith(b" ")


class Json:
    """A type, and the decoder of its JSON, which is made when there is something to decode."""

    def __init__(self, shape: Any, what: str) -> None:
        self._shape = shape
        self._what = what

    @functools.cached_property
    def plain(self) -> Callable[[bytes | str], Any]:
        """What decodes JSON without marks, and raises msgspec's errors. For hot loops."""
        return msgspec.json.Decoder(ready(self._shape)).decode

    def decode(self, content: bytes | str) -> Any:
        """Return the value behind JSON of ours. StoreError, with the path of what is wrong."""
        try:
            if content[:1] in {b" ", " "}:
                read = _unmarked(msgspec.json.decode(content))
                return msgspec.convert(read, ready(self._shape))
            return self.plain(content)
        except msgspec.ValidationError as error:
            raise StoreError(
                f"stored {self._what} is not what it should be: {error}", hint=DAMAGED
            ) from error
        # The last two: SQLite's columns hold any type, and another program writes any.
        except (msgspec.DecodeError, RecursionError, ValueError, TypeError) as error:
            raise StoreError(f"stored {self._what} is damaged: {error}", hint=DAMAGED) from error


def decode_json(content: bytes | str) -> JsonValue:
    """Return the value behind JSON: lists, dicts and scalars, made anew at each call."""
    return cast("JsonValue", _ANY.decode(content))


def read_json(content: bytes) -> JsonValue:
    """Return the value behind somebody else's JSON. StoreError for what is none.

    Agents write what msgspec refuses: halves of characters, and numbers that are not finite.
    """
    try:
        return cast("JsonValue", msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            return cast("JsonValue", json.loads(content.decode("utf-8", "surrogatepass")))
        except ValueError as error:
            raise StoreError(f"this is no JSON: {error}") from error


# --- below: how --------------------------------------------------------------------------------

_ANY = Json(Any, "JSON")
_TEXT = "~text:"
_NUMBER = "~number:"
# A backslash stands before what was no character, so it is written twice where it is one itself.
_ESCAPED = r"[\\\ud800-\udfff]"
_ESCAPE = r"\\(?:\\|u([0-9a-f]{4}))"


def _marked(value: Any) -> Any:
    if isinstance(value, str):
        if value.startswith("~") or re.search(_ESCAPED, value):
            return _TEXT + re.sub(_ESCAPED, _escaped, value)
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else f"{_NUMBER}{value}"
    if isinstance(value, dict):
        return _each_member(_marked, cast("dict[str, object]", value))
    if isinstance(value, list | tuple):
        return list(map(_marked, cast("Sequence[Any]", value)))
    return value


def _each_member(change: Callable[[Any], Any], members: dict[str, object]) -> dict[Any, Any]:
    return {change(name): change(each) for name, each in members.items()}


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return "\\\\" if character == "\\" else f"\\u{ord(character):04x}"


def _unmarked(value: Any) -> Any:
    if isinstance(value, str):
        if value.startswith(_TEXT):
            return re.sub(_ESCAPE, _unescaped, value[len(_TEXT) :])
        return float(value[len(_NUMBER) :]) if value.startswith(_NUMBER) else value
    if isinstance(value, dict):
        return _each_member(_unmarked, cast("dict[str, object]", value))
    if isinstance(value, list):
        return list(map(_unmarked, cast("Sequence[Any]", value)))
    return value


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else "\\"


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


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
_PACKER = msgspec.msgpack.Encoder(enc_hook=_plain)

# As MessagePack has a number: 0xcb, then its eight bytes, of which the exponent is all ones.
_LIKE_NON_FINITE = rb"\xcb[\x7f\xff][\xf0-\xff]"


def _has_non_finite(value: object) -> bool:
    """Return whether a number in a value, however deep, is not finite."""
    try:
        packed = _PACKER.encode(value)
    except (OverflowError, RecursionError):  # an integer of more than 64 bits
        return _is_or_has_non_finite(msgspec.to_builtins(value, enc_hook=_plain))
    # Most often nothing looks like one, which is told at once. Other bytes may look like one, too.
    return re.search(_LIKE_NON_FINITE, packed) is not None and _is_or_has_non_finite(
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


# --- JSON of any form, narrowed where it is read: no form of it is an error -----------------------


AnyJson: TypeAlias = Mapping[str, Any]
"""An object of JSON that somebody else wrote: nobody promised what its members are."""


def member(value: object, *path: str) -> object:
    """Return what lies at a path of member names, None where there is nothing."""
    for name in path:
        value = cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None
    return value


def object_at(value: object, *path: str) -> dict[str, Any]:
    """Return the object at a path of member names, an empty one for anything else."""
    found = member(value, *path)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def text_at(value: object, *path: str) -> str:
    """Return the text at a path of member names, "" for anything else."""
    found = member(value, *path)
    return found if isinstance(found, str) else ""


def session_at(value: object, *path: str) -> UpstreamSessionId:
    """Return the agent's session that is named at a path, "" for none."""
    return UpstreamSessionId(text_at(value, *path))


def number_at(value: object, *path: str) -> int | None:
    """Return the whole number from 0 at a path of member names, None for anything else."""
    found = member(value, *path)
    # To Python `true` is 1, which is no figure.
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        return None
    return found


def objects_at(value: object, *path: str) -> list[AnyJson]:
    """Return the objects of the list at a path; what else is in it, empty ones too, is left out."""
    return [found for item in _items_at(value, path) if (found := object_at(item))]


def texts_at(value: object, *path: str) -> list[str]:
    """Return the texts of the list at a path; what else is in it is left out."""
    return [item for item in _items_at(value, path) if isinstance(item, str)]


def _items_at(value: object, path: tuple[str, ...]) -> list[object]:
    found = member(value, *path)
    return cast("list[object]", found) if isinstance(found, list) else []
