"""`upthread worker`: carries out the runs of a shared database."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import click

from upthread.client.stores import workers_of
from upthread.errors import UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, extra
from upthread.surfaces.cli.failures import without_secrets
from upthread.surfaces.cli.terminal.output import members
from upthread.surfaces.cli.terminal.phrases import one_line

if TYPE_CHECKING:
    from upthread.client.worker import Served


@options.verb
@click.argument(
    "directories",
    metavar="[DIR]…",
    nargs=-1,
    help="The projects to work on; without any, this one.",
)
@click.option(
    "--agent",
    "agents",
    metavar="KIND",
    multiple=True,
    help="Which agents to drive; without any, all that are installed.",
    shell_complete=options.agents,
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="How many runs at a time.",
)
@click.option(
    "--grace",
    "grace_s",
    type=click.FloatRange(min=0),
    default=30.0,
    metavar="S",
    help="How many seconds turns may continue after a signal to stop.",
)
@click.option(
    "--metrics",
    "metrics_port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve /metrics and /healthz on this port of loopback; 0 for any free port.",
)
def main(
    call: Call,
    *,
    directories: Sequence[str],
    agents: Sequence[str],
    concurrency: int,
    grace_s: float,
    metrics_port: int | None,
) -> None:
    """Carry out the runs of a shared database, on as many machines as there are workers.

    The worker ends on SIGTERM or Ctrl-C, when each run is finished or handed back.
    """
    if not math.isfinite(grace_s):
        raise UsageError(f"--grace {grace_s} is no number of seconds", hint="--grace 30")
    settings = call.settings()
    workers_of(settings.database)  # raises for a database that has no workers
    with extra("a worker", "postgres"):
        from upthread.client import worker
    chosen = worker.WorkerOptions(
        database=settings.database,
        directories=directories or (".",),
        agents=agents,
        concurrency=concurrency,
        grace_s=grace_s,
        metrics_port=metrics_port,
        tell=lambda served: _tell(call, served),
    )
    anyio.run(worker.serve, chosen)


def _tell(call: Call, served: Served) -> None:
    detail = without_secrets(served.detail)
    call.output.json(
        {
            "type": f"worker_{served.what}" if not served.run_id else served.what,
            **members(served, "workstream run_id"),
            "detail": detail,
        }
    )
    about = f"{served.workstream}: " if served.workstream else ""
    what = served.what.replace("_", " ")
    call.output.line(one_line(f"{about}{what}{f' {detail}' if detail else ''}"))
