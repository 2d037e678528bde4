"""`worker` carries runs of a shared database out; `ls --workers` shows who does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from msgspec import Struct

from upthread.client.stores import workers_of
from upthread.config import load_settings
from upthread.errors import UsageError
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.failures import without_secrets
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.table import write_table

if TYPE_CHECKING:
    from upthread.client.workers import Served
    from upthread.store.postgres import KnownWorker

_EXTRA: Final = frozenset({"procrastinate", "psycopg", "psycopg_pool"})


class Work(Struct, frozen=True, kw_only=True):
    """What was typed."""

    directories: Sequence[str]
    agents: Sequence[str]
    concurrency: int
    grace_s: float
    metrics_port: int | None


def worker(call: Call, asked: Work) -> int:
    """Work until SIGTERM or SIGINT; returns 0 once all is finished or handed back."""
    settings = load_settings(Path.cwd(), environment=os.environ, database=call.database)
    workers_of(settings.database)  # which says what is wrong with a database that has none
    try:
        from upthread.client import workers
    except ModuleNotFoundError as error:
        # An import that fails within ours is a fault, and not an extra that is missing.
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise UsageError(
            f"a worker needs {error.name}", hint="pip install 'upthread[postgres]'"
        ) from error
    options = workers.WorkerOptions(
        database=settings.database,
        directories=asked.directories or (".",),
        agents=asked.agents,
        concurrency=asked.concurrency,
        grace_s=asked.grace_s,
        metrics_port=asked.metrics_port,
        tell=lambda served: _tell(call, served),
    )
    anyio.run(workers.serve, options)
    return 0


def list_workers(call: Call) -> int:
    """List the workers of the shared database: where they are and what they have."""
    settings = load_settings(Path.cwd(), environment=os.environ, database=call.database)
    found = workers_of(settings.database)
    output = call.output
    if output.is_json:
        output.json({"workers": [_worker(each) for each in found]})
    elif found:
        head = ("HOST", "PID", "STATE", "RUNS", "VERSION", "AGENTS")
        write_table(output, head, [_row(each) for each in found])
    else:
        output.note("no worker is here; start one with: upthread worker")
    return 0


def _worker(known: KnownWorker) -> dict[str, object]:
    said = known.registration
    return {
        "worker_id": known.worker_id,
        "host": said.process.host,
        "pid": said.process.pid,
        "state": "silent" if known.is_silent else "living",
        "silent_ms": known.silent_ms,
        "runs": known.jobs,
        "concurrency": said.concurrency,
        "version": said.version,
        "agents": [{"agent": name, "version": version} for name, version in said.agents.items()],
        "registered_at_ms": said.registered_at_ms,
    }


def _row(known: KnownWorker) -> tuple[str, ...]:
    said = known.registration
    return (
        said.process.host,
        str(said.process.pid),
        "silent" if known.is_silent else "living",
        f"{known.jobs}/{said.concurrency}",
        said.version,
        ", ".join(f"{name} {version}".strip() for name, version in said.agents.items()),
    )


def _tell(call: Call, served: Served) -> None:
    detail = without_secrets(served.detail)
    if call.output.is_json:
        call.output.json(
            {
                "type": f"worker_{served.what}" if not served.run_id else served.what,
                "workstream": served.workstream,
                "run_id": served.run_id,
                "detail": detail,
            }
        )
        return
    about = f"{served.workstream}: " if served.workstream else ""
    what = served.what.replace("_", " ")
    call.output.line(one_line(f"{about}{what}{f' {detail}' if detail else ''}"))
