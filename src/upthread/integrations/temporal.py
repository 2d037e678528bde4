"""A Temporal activity that tells a role: `Worker(…, activities=[upthread_tell])`.

The workflow's history holds an address and a reply, where the whole conversation stays here. It is
idempotent by the activity's id, it heartbeats while the role works, and what a person has to decide
is an ApplicationError that Temporal does not try again. Written for temporalio 1.35.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from upthread.client.project_opener import open_project
from upthread.errors import UpthreadError
from upthread.integrations.durable_tell import Told, is_final, tell_once
from upthread.runtime.options import TellOptions

HEARTBEAT_S: Final = 5.0


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
    key = f"temporal:{info.workflow_id}:{info.activity_id}"
    beating = asyncio.create_task(_heartbeats(tell.address))
    try:
        async with open_project(tell.directory, database=tell.database) as up:
            options = TellOptions(agent=tell.agent, when_busy="wait")
            return await tell_once(up, key, tell.address, tell.text, options)
    except UpthreadError as error:
        raise ApplicationError(
            str(error), type=type(error).__name__, non_retryable=is_final(error)
        ) from error
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _heartbeats(address: str) -> None:
    while True:
        activity.heartbeat(address)
        await asyncio.sleep(HEARTBEAT_S)
