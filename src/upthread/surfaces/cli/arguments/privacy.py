"""The verbs that erase, and the one that agrees, as they are typed."""

from __future__ import annotations

from typing import Annotated

from upthread.errors import UsageError
from upthread.surfaces.cli.arguments.parameters import DryRun, Option, WorkstreamOrAll, Yes
from upthread.surfaces.cli.call import Call


def forget(
    call: Call,
    *,
    workstream: WorkstreamOrAll = None,
    role: Annotated[
        str | None,
        Option("--role", metavar="ROLE", help="Only what this role said."),
    ] = None,
    before: Annotated[
        str | None, Option("--before", metavar="DATE", help="Only what is older, UTC.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Erase what was said; that something was said, when and by whom stays."""
    from upthread.surfaces.cli.verbs import forget

    return forget.forget(call, workstream, role=role, before=before, is_yes=yes, is_dry_run=dry_run)


def encrypt(
    call: Call,
    *,
    remove: Annotated[bool, Option("--remove", help="Write it anew without encryption.")] = False,
    yes: Yes = False,
) -> int:
    """Encrypt the database with the key that your config.toml names."""
    from upthread.surfaces.cli.verbs import database_files

    return database_files.encrypt(call, is_removed=remove, is_yes=yes)


def keep(
    call: Call,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Erase what is older than `[keep]` in the configuration allows."""
    from upthread.surfaces.cli.verbs import forget

    return forget.keep(call, is_yes=yes, is_dry_run=dry_run)


def trust(
    call: Call,
    *,
    listed: Annotated[bool, Option("--list", help="What was decided of this repository.")] = False,
    remove: Annotated[
        bool, Option("--remove", help="Take back all that was decided of it.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Show what this repository says and you have not agreed to, and agree to it."""
    from upthread.surfaces.cli.verbs import trust

    if listed and remove:
        raise UsageError("--list and --remove exclude each other", hint="choose one")
    if listed:
        return trust.list_decided(call)
    if remove:
        return trust.remove(call, is_yes=yes, is_dry_run=dry_run)
    return trust.trust(call, is_yes=yes, is_dry_run=dry_run)
