"""The verb: reads the record and writes it in the form asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias, cast

from upthread.client import Project
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import JsonValue
from upthread.runtime.record.audit import Audit
from upthread.surfaces.cli.audit import markdown, shape
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import SCHEMA, Output

AuditFormat: TypeAlias = Literal["md", "json"]

CHARACTERS_AT_ONCE: Final = 65_536
"""How much of a document is put together before it is written."""


def audit(call: Call, workstream: str, *, form: AuditFormat) -> int:
    """Write the audit. `--json` is the same as `--format json`."""
    output = call.output

    def write(record: Audit, redactor: Redactor) -> None:
        # As it is read, so that what is long is never held whole.
        if form == "json" or output.is_json:
            pieces = _json(record, redactor, output)
        else:
            pieces = map(redactor.redact, markdown.in_pieces(record))
        for piece in _gathered(pieces):
            output.document(piece)

    async def use(project: Project) -> None:
        # Also of a record that is kept in full: an audit is made to be shown to others.
        await project.with_audit(workstream, lambda record: write(record, project.redactor))

    call.with_project(use, is_reading=True)
    return 0


def _gathered(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the same in pieces that are worth a write each."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= CHARACTERS_AT_ONCE:
            yield "".join(held)
            held, size = [], 0
    if held:
        yield "".join(held)


def _json(record: Audit, redactor: Redactor, output: Output) -> Iterator[str]:
    def clean(told: shape.Shape) -> shape.Shape:
        return cast("shape.Shape", redactor.redact_json(cast("JsonValue", told)))

    whole = {"schema": SCHEMA, **shape.audit(record, iter), **output.beside()}
    yield from shape.in_pieces(whole, clean)
    yield "\n"
