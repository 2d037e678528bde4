"""`upthread audit`: writes the record of a workstream, in the form and to the place asked for."""

import os
import secrets
import stat
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import click

from upthread.client.project import Project
from upthread.errors import UsageError
from upthread.runtime.record.timeline import Timeline
from upthread.runtime.working_tree.digest import keep_written
from upthread.surfaces import formats
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.input import who_acts

PIECES_AT_ONCE = 64
"""How many pieces of a document, such as messages, are written at a time."""


@options.verb
@options.workstream
@click.option(
    "--format",
    "form",
    type=click.Choice(formats.FORMATS),
    default="md",
    help="Markdown, one page to open or to mail, JSON, trajectories, or spans.",
)
@click.option(
    "-o", "--output", "into", metavar="FILE", help="Write to a file that only you can read."
)
@options.flag("--content", "with_content", "In spans, include what was said.")
def main(call: Call, *, workstream: str, form: str, into: str | None, with_content: bool) -> None:
    """Write down everything that is recorded of a workstream.

    --json is the same as --format json.
    """
    if with_content and form != "otel":
        raise UsageError(f"--content is for --format otel; {form} has it all", hint="leave it out")
    if call.output.is_json and form not in {"md", "json"}:
        raise UsageError(f"--json and --format {form} are two forms", hint="give one of them")

    output = call.output
    if output.is_json:
        form = "json"

    async def use(project: Project) -> None:
        asked = formats.Asked(project.redactor, project.now_ms(), with_content)

        def write(timeline: Timeline) -> None:
            # Written while it is read, so that a long record is never held whole.
            document = formats.pieces(form, timeline, asked)
            if into is not None:
                _write_file(into, document)
                # A model could hide a change of the work behind it.
                if Path(into).is_file() and who_acts().kind != "model":
                    keep_written(Path(into).absolute(), project.settings.home)
                return
            while written := "".join(islice(document, PIECES_AT_ONCE)):
                output.document(written)

        await project.with_audit(workstream, write)

    call.with_project(use)
    if into is not None:
        output.note(f"written to {into}")


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
