"""`upthread audit`: writes the record of a workstream, in the form and to the place asked for."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, cast, get_args

import click

from upthread.client.project import Project
from upthread.core.redaction.redactor import Redactor
from upthread.core.text import visible_text
from upthread.core.types import JsonValue
from upthread.errors import UsageError
from upthread.runtime.record.audit import Audit
from upthread.runtime.record.savings import delegations_of
from upthread.runtime.record.timeline import Timeline
from upthread.surfaces.cli import options
from upthread.surfaces.cli.audit import markdown, shape
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import SCHEMA, plain
from upthread.surfaces.exports import atif, otel
from upthread.surfaces.page.document import page

AuditFormat: TypeAlias = Literal["md", "html", "json", "atif", "otel"]

CHARACTERS_AT_ONCE: Final = 65_536
"""The size of the pieces in which a document is written."""


class Asked(NamedTuple):
    """The record, and the settings that writing it needs."""

    record: Audit
    redactor: Redactor
    outward_patterns: tuple[str, ...]
    now_ms: int


@options.verb
@options.workstream
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(AuditFormat)),
    default="md",
    help="Markdown, one page to open or to mail, JSON, trajectories, or spans.",
)
@click.option(
    "-o", "--output", "into", metavar="FILE", help="Write to a file that only you can read."
)
@click.option("--content", "with_content", is_flag=True, help="In spans, include what was said.")
def main(
    call: Call, *, workstream: str, form: AuditFormat, into: str | None, with_content: bool
) -> None:
    """Write down everything that is recorded of a workstream.

    --json is the same as --format json.
    """
    if with_content and form != "otel":
        raise UsageError(f"--content is for --format otel; {form} has it all", hint="leave it out")
    if call.output.is_json and form not in {"md", "json"}:
        raise UsageError(f"--json and --format {form} are two forms", hint="give one of them")

    output = call.output

    def write(asked: Asked) -> None:
        # Written while it is read, so that a long record is never held whole.
        if form == "json" or output.is_json:
            pieces = _json(asked, output.beside() if into is None else {})
        else:
            pieces = _document(asked, form, with_content=with_content)
        if into is not None:
            # A page is made of what is visible already, and may be a hundred megabytes.
            is_visible = form == "html"
            shown = _gathered(pieces)
            _write_file(into, shown if is_visible else map(visible_text, shown))
            return
        for piece in _gathered(pieces):
            output.document(piece)

    async def use(project: Project) -> None:
        def asked(record: Audit) -> Asked:
            return Asked(
                record=record,
                redactor=project.redactor,
                outward_patterns=project.settings.outward_patterns,
                now_ms=project.now_ms(),
            )

        await project.with_audit(workstream, lambda record: write(asked(record)))

    call.with_project(use)
    if into is not None:
        output.note(f"written to {into}")


def _json(asked: Asked, beside: Mapping[str, object]) -> Iterator[str]:
    # Also of a record that is kept in full: an audit is made to be shown to others.
    def clean(told: shape.Shape) -> shape.Shape:
        return cast("shape.Shape", asked.redactor.redact_json(cast("JsonValue", told)))

    whole = {"schema": SCHEMA, **shape.audit(asked.record, iter), **beside}
    yield from shape.in_pieces(whole, clean)
    yield "\n"


def _document(asked: Asked, form: AuditFormat, *, with_content: bool) -> Iterator[str]:
    if form == "md":
        yield from map(asked.redactor.redact, markdown.in_pieces(asked.record))
        return

    timeline = Timeline(asked.record, outward_patterns=asked.outward_patterns)
    if form == "html":
        yield from _page(timeline, asked)
    elif form == "atif":
        for trajectory in atif.trajectories(timeline):
            yield _line(trajectory, asked.redactor)
    else:
        yield _line(otel.document(timeline, with_content=with_content), asked.redactor)


def _page(timeline: Timeline, asked: Asked) -> Iterator[str]:
    delegations = tuple(delegations_of(timeline))
    yield from page(timeline, asked.redactor, delegations=delegations, made_at_ms=asked.now_ms)


def _line(shape: Mapping[str, object], redactor: Redactor) -> str:
    """One JSON object on a line; ASCII only, so that no text can act on a terminal."""
    told = cast("Mapping[str, JsonValue]", plain(shape))
    return json.dumps(redactor.redact_json(told)) + "\n"


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


def _write_file(into: str, pieces: Iterable[str]) -> None:
    """Write a file that is there whole or not at all, readable by its owner alone."""
    target = Path(into)
    try:
        # A pipe or a device is written to: a file in its place would take it away.
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            _write(os.open(target, os.O_WRONLY | os.O_CLOEXEC), pieces)
            return
        aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            _write(os.open(aside, flags, 0o600), pieces)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{into!r} cannot be written: {error.strerror}", hint="-o FILE") from error


def _write(descriptor: int, pieces: Iterable[str]) -> None:
    # Text that is not valid Unicode is shown as its escape, as on a terminal.
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(pieces)
