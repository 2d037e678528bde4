"""The verbs of the record's own file, as they are typed."""

from __future__ import annotations

from typing import Annotated

from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.typed.parameters import Argument, DryRun, Option, Yes


def backup(
    call: Call,
    *,
    target: Annotated[
        str | None,
        Argument(metavar="[FILE]", help="A new file; without it one in `backups`."),
    ] = None,
) -> int:
    """Copy the database to a file, with its key, while others go on writing."""
    from upthread.surfaces.cli.verbs import database_files

    return database_files.backup(call, target)


def restore(
    call: Call,
    *,
    source: Annotated[str, Argument(metavar="FILE", help="What `backup` has made.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Put a backup in the place of the database; what is there is kept aside."""
    from upthread.surfaces.cli.verbs import database_files

    return database_files.put_back(call, source, is_yes=yes, is_dry_run=dry_run)


def salvage(
    call: Call,
    *,
    source: Annotated[
        str | None,
        Argument(metavar="[FILE]", help="A damaged database; ours without it."),
    ] = None,
    into: Annotated[
        str | None, Option("--into", metavar="FILE", help="The new file; none may be there.")
    ] = None,
) -> int:
    """Read all that can still be read of a damaged database into a new one, for `restore`."""
    from upthread.surfaces.cli.verbs import database_files

    return database_files.salvage(call, source, into)
