"""`upthread backup`: copies the database."""

from pathlib import Path

import click

from upthread.client.database_files import back_up
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import members


@options.verb
@click.argument(
    "target",
    metavar="[FILE]",
    required=False,
    type=click.Path(path_type=Path),
    help="A new file; without it, a file in `backups`.",
)
def main(call: Call, *, target: Path | None) -> None:
    """Copy the database to a file, with its key, while others write."""
    made = back_up(call.settings(), target)
    call.output.json(members(made, "database backup size_bytes key encryption_key"))
    call.output.line(f"{made.backup}: {made.size_bytes:,} bytes, copied and checked", "green")
    if made.key is not None:
        call.output.line(f"{made.key}: the key of its redactions")
    if made.encryption_key is not None:
        call.output.remark(
            f"it is encrypted with the key in {made.encryption_key}, which is not copied: without "
            "that key nobody can read it",
            "yellow",
        )
