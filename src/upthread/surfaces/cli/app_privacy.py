"""The verbs that erase, and the one that agrees, as they are typed: see `app`."""

from __future__ import annotations

from typing import Annotated

import typer

from upthread.errors import UsageError
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.completing import complete_workstream
from upthread.surfaces.cli.options import DryRun, Yes


def forget(
    call: Call,
    *,
    workstream: Annotated[
        str | None, typer.Argument(metavar="WS", autocompletion=complete_workstream)
    ] = None,
    role: Annotated[
        str | None,
        typer.Option("--role", metavar="ROLE", help="Only what this role said."),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="DATE", help="Only what is older, UTC.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Erase what was said; that something was said, when and by whom stays."""
    from upthread.surfaces.cli import forgetting

    return forgetting.forget(
        call, workstream, role=role, before=before, is_yes=yes, is_dry_run=dry_run
    )


def encrypt(
    call: Call,
    *,
    remove: Annotated[
        bool, typer.Option("--remove", help="Write it anew without encryption.")
    ] = False,
    yes: Yes = False,
) -> int:
    """Encrypt the database with the key that your config.toml names."""
    from upthread.surfaces.cli import encrypting

    return encrypting.encrypt(call, is_removed=remove, is_yes=yes)


def keep(
    call: Call,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Erase what is older than [keep] in the configuration says."""
    from upthread.surfaces.cli import forgetting

    return forgetting.keep(call, is_yes=yes, is_dry_run=dry_run)


def trust(
    call: Call,
    *,
    listed: Annotated[
        bool, typer.Option("--list", help="What was decided of this repository.")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take back all that was decided of it.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Show what this repository says and you have not agreed to, and agree to it."""
    from upthread.surfaces.cli import trusting

    if listed and remove:
        raise UsageError("--list and --remove exclude each other", hint="choose one")
    if listed:
        return trusting.list_decided(call)
    if remove:
        return trusting.remove(call, is_yes=yes, is_dry_run=dry_run)
    return trusting.trust(call, is_yes=yes, is_dry_run=dry_run)
