"""The verbs that erase, and the one that agrees, as they are typed."""

from __future__ import annotations

from typing import Annotated

from upthread.errors import UsageError
from upthread.surfaces.cli.arguments.parameters import (
    Argument,
    DryRun,
    Option,
    Yes,
)
from upthread.surfaces.cli.call import Call


def forget(
    call: Call,
    *,
    workstream: Annotated[
        str | None,
        Argument(
            metavar="WS",
            help="Only this workstream; all, with --role or --before.",
            completed="workstream",
        ),
    ] = None,
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
    sessions: Annotated[
        list[str] | None,
        Argument(metavar="SESSION", help="Sessions to copy into the record, by the agents' ids."),
    ] = None,
    soon: Annotated[
        bool, Option("--soon", help="All here that their agents delete within 7 days.")
    ] = False,
    agent: Annotated[
        str | None,
        Option("--agent", metavar="A", help="Only this agent's.", completed="agent_with_setup"),
    ] = None,
    address: Annotated[
        str | None,
        Option("--as", metavar="ADDRESS", help="Where one is kept; else its branch says, or title"),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Copy sessions before their agent deletes them; without any, apply the rules of `[keep]`.

    Those rules erase what is older than the configuration keeps.
    """
    if sessions or soon:
        from upthread.surfaces.cli.sessions.candidates import Filters
        from upthread.surfaces.cli.sessions.keep import keep_sessions

        if sessions and soon:
            raise UsageError("--soon takes no session", hint="upthread keep --soon")
        filters = Filters(agent=agent, ids=sessions or (), is_soon=soon)
        return keep_sessions(call, filters, address=address, is_dry_run=dry_run)
    if agent or address:
        raise UsageError("no session is named", hint="upthread keep SESSION, or --soon")
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
