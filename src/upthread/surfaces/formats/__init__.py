"""Formats: a workstream's record as a document. Each module here is a format, by its name.

A format has one function, `pieces`, and renders `runtime.record.timeline`; it is offered by
`upthread audit --format` as soon as its file is there.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from json import dumps
from pkgutil import iter_modules
from typing import NamedTuple, cast

from upthread.core.redaction.redactor import Redactor
from upthread.core.types import JsonValue
from upthread.runtime.record.timeline import Timeline
from upthread.surfaces.cli.terminal.output import plain

FORMATS = tuple(sorted(module.name for module in iter_modules(__path__)))


class Asked(NamedTuple):
    """What a document is made with. A format may ignore all but `redactor`.

    `with_content` asks a format that leaves out what was said to include it.
    """

    redactor: Redactor
    now_ms: int
    with_content: bool


def pieces(form: str, timeline: Timeline, asked: Asked) -> Iterator[str]:
    """Yield the record in one of FORMATS, piece by piece while it is read."""
    made = import_module(f"{__name__}.{form}").pieces(timeline, asked)
    return cast("Iterator[str]", made)


def json_line(shape: Mapping[str, object], redactor: Redactor) -> str:
    """Return one JSON object on a line; ASCII only, so that no text can act on a terminal."""
    told = cast("Mapping[str, JsonValue]", plain(shape))
    return dumps(redactor.redact_json(told)) + "\n"
