"""A Temporal activity that tells a role: `Worker(…, activities=[upthread_tell])`.

The workflow's history holds an address and a reply, where the whole conversation stays here. It is
idempotent by the run and the activity's id, it heartbeats while the role works, and what a person
has to decide is an ApplicationError that Temporal does not try again. Written for temporalio 1.35.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import anyio
from temporalio import activity
from temporalio.exceptions import ApplicationError

from upthread.client.project_opener import open_project
from upthread.errors import UpthreadError
from upthread.integrations.durable_tell import NotToldError, Told, is_final, tell_once
from upthread.runtime.options import TellOptions
from upthread.tasks import task_group

HEARTBEATS: Final = 4
"""How many are sent within the activity's heartbeat timeout."""

HEARTBEAT_S: Final = 5.0
"""How often an activity without such a timeout sends one."""


@dataclass
class Tell:
    """What to tell whom. `directory` is the project's on the worker, `database` as everywhere."""

    address: str
    text: str
    directory: str = "."
    database: str | None = None
    agent: str | None = None


@activity.defn(name="upthread_tell")
async def upthread_tell(tell: Tell) -> Told:
    """Tell a role once for this activity, however often Temporal runs it, and return its reply."""
    info = activity.info()
    # A workflow's id may be used again, and another run's reply is not this one's.
    run = info.workflow_run_id or info.activity_run_id or ""
    key = f"temporal:{info.namespace}:{info.workflow_id}:{run}:{info.activity_id}"
    options = TellOptions(agent=tell.agent, when_busy="wait")
    limit = info.heartbeat_timeout
    every_s = limit.total_seconds() / HEARTBEATS if limit else HEARTBEAT_S
    try:
        async with task_group() as tasks:
            tasks.start_soon(_heartbeats, tell.address, every_s)
            async with open_project(tell.directory, database=tell.database) as up:
                told = await tell_once(up, key, tell.address, tell.text, options)
            tasks.cancel_scope.cancel()
    except UpthreadError as error:
        wait_s = error.retry_in_s if isinstance(error, NotToldError) else None
        raise ApplicationError(
            str(error),
            type=type(error).__name__,
            non_retryable=is_final(error),
            next_retry_delay=None if wait_s is None else timedelta(seconds=wait_s),
        ) from error
    return told


async def _heartbeats(address: str, every_s: float) -> None:
    while True:
        activity.heartbeat(address)
        await anyio.sleep(every_s)
