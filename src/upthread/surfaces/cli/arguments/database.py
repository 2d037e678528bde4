"""The verbs of the record's own file, and of a database that several share, as they are typed."""

from __future__ import annotations

from typing import Annotated

from upthread.surfaces.cli.arguments.parameters import Argument, DryRun, Option, Yes
from upthread.surfaces.cli.call import Call


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


def worker(
    call: Call,
    *,
    directories: Annotated[
        list[str] | None,
        Argument(metavar="[DIR]…", help="The projects to work on; this one without any."),
    ] = None,
    agent: Annotated[
        list[str] | None,
        Option(
            "--agent",
            metavar="KIND",
            help="Which to drive; without it, all that are here.",
            completed="agent",
        ),
    ] = None,
    concurrency: Annotated[
        int, Option("--concurrency", minimum=1, metavar="N", help="How many runs at a time.")
    ] = 1,
    grace: Annotated[
        float,
        Option(
            "--grace",
            minimum=0,
            metavar="S",
            help="How long turns may go on once it is told to stop.",
        ),
    ] = 30.0,
    metrics: Annotated[
        int | None,
        Option(
            "--metrics",
            minimum=0,
            maximum=65535,
            metavar="PORT",
            help="Serve /metrics and /healthz on this port of loopback; 0 for any free one.",
        ),
    ] = None,
) -> int:
    """Carry out the runs of a shared database, on as many machines as there are workers."""
    from upthread.surfaces.cli.verbs import worker

    asked = worker.Work(
        directories=directories or (),
        agents=agent or (),
        concurrency=concurrency,
        grace_s=grace,
        metrics_port=metrics,
    )
    return worker.worker(call, asked)


def migrate(
    call: Call,
    *,
    source: Annotated[
        str | None,
        Option("--from", metavar="DB", help="Move the record from here: sqlite, or a --db."),
    ] = None,
    target: Annotated[
        str | None, Option("--to", metavar="DB", help="Move the record to here.")
    ] = None,
    everything: Annotated[
        bool, Option("--all", help="Move every project, not only this one.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Make or move on the schema of a PostgreSQL database, or move a record to another one."""
    from upthread.surfaces.cli.verbs import migrate

    if source is None and target is None:
        return migrate.migrate(call)
    asked = migrate.Asked(source=source, target=target, is_all=everything)
    return migrate.move(call, asked, is_yes=yes, is_dry_run=dry_run)
