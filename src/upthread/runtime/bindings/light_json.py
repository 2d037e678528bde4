"""JSON without the `json` module, whose import costs a hook more than the rest of its work.

Reads with the interpreter's own scanner and writes plain ASCII. Any text goes through unharmed,
lone surrogates included.
"""

from __future__ import annotations

import _json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEPTH_MAX = 64


class NotJsonError(ValueError):
    """The text is no JSON object."""


class _Context:
    """What the scanner asks for; see `json.decoder.JSONDecoder`."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(name: str) -> float:
        return float(name.replace("Infinity", "inf"))


_scan: Any = _json.make_scanner(_Context())  # type: ignore[arg-type]  # as json.scanner calls it


def loads(text: str) -> dict[str, Any]:
    """Return the JSON object in a text. Raises NotJsonError for anything else."""
    stripped = text.strip(" \t\r\n")
    try:
        value, end = _scan(stripped, 0)
    except StopIteration as error:
        raise NotJsonError(f"no JSON at character {error.value}") from error
    except RecursionError as error:
        raise NotJsonError("JSON that is nested too deeply") from error
    except (ValueError, SystemError) as error:
        # SystemError: it has no exception to raise as long as `json.decoder` is not loaded.
        raise NotJsonError("no JSON") from error
    if end != len(stripped) or not isinstance(value, dict):
        raise NotJsonError("not one JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]  # members are looked at where used


def dumps(value: object) -> str:
    """Return a value of dicts, lists, texts, numbers, booleans and None as JSON on one line."""
    return _written(value, 0)


def _written(value: Any, depth: int) -> str:
    if depth > DEPTH_MAX:
        raise NotJsonError(f"nested more than {DEPTH_MAX} deep")
    if isinstance(value, str):
        return _json.encode_basestring_ascii(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return _object_written(value, depth + 1)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return _array_written(value, depth + 1)  # pyright: ignore[reportUnknownArgumentType]
    raise NotJsonError(f"{type(value).__name__} is nothing JSON can say")


def _object_written(value: dict[str, Any], depth: int) -> str:
    members = (
        f"{_json.encode_basestring_ascii(str(name))}: {_written(member, depth)}"
        for name, member in value.items()
    )
    return "{" + ", ".join(members) + "}"


def _array_written(value: list[Any] | tuple[Any, ...], depth: int) -> str:
    return "[" + ", ".join(_written(member, depth) for member in value) + "]"


def text_in(fields: dict[str, Any], name: str) -> str:
    """Return a member that is text; empty when it is missing or something else."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def number_in(fields: dict[str, Any], name: str) -> int:
    """Return a member that is a whole number, 0 when it is missing or something else."""
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def object_in(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a member that is an object; empty when it is missing or something else."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def list_in(fields: dict[str, Any], name: str) -> list[Any]:
    """Return a member that is an array; empty when it is missing or something else."""
    value = fields.get(name)
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def objects_in(fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a member that is an array, all else in it left out."""
    return [each for each in list_in(fields, name) if isinstance(each, dict)]
