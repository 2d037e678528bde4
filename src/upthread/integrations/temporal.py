"""A Temporal activity that tells a role: `Worker(…, activities=[upthread_tell])`.

The workflow's history holds an address and a reply, where the whole conversation stays here. It is
idempotent by the run, the activity's id and the time it was scheduled at, it heartbeats while the
role works, and what a person has to decide is an ApplicationError that Temporal does not try again.
Written for temporalio 1.35.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import anyio
from temporalio import activity
from temporalio.exceptions import ApplicationError

from upthread.client.project import Project
from upthread.client.project_opener import open_project
from upthread.core.types import Lease
from upthread.errors import UpthreadError
from upthread.integrations.durable_tell import BEGIN_AGAIN, Told, digest, is_final, tell_once
from upthread.runtime.turns.delegation import Listener, TellOptions
from upthread.tasks import task_group

PAYLOAD_BYTES_MAX = 2 * 1024 * 1024
"""What a server takes (`limit.blobSize.error`), if nobody set it and no codec compresses."""

HEARTBEATS = 4
"""How many are sent within the activity's heartbeat timeout."""

NEVER_AGAIN = (
    "; this activity returns no reply any more: a reset of its workflow is another run, and sends "
    "the whole text as a new step"
)
"""How a hint ends instead, because Temporal runs no activity again that failed for good."""

HEARTBEAT_S = 5.0
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
    waited_for: list[Lease] = []
    listener = Listener(waiting=waited_for.append, started=lambda _: waited_for.clear())
    options = TellOptions(agent=tell.agent, when_busy="wait", listener=listener)
    try:
        async with task_group() as tasks:
            tasks.start_soon(_heartbeats, info, tell.address, waited_for)
            async with open_project(tell.directory, database=tell.database) as up:
                for notice in up.notices:
                    activity.logger.warning("%s", notice)
                key = await _key(up, info)
                before = await up.read(lambda: up.store.once(up.project_id, key))
                told = await tell_once(up, key, tell.address, tell.text, options)
            tasks.cancel_scope.cancel()
    except UpthreadError as error:
        error.hint = error.hint.replace(BEGIN_AGAIN, NEVER_AGAIN)
        wait_s = getattr(error, "retry_in_s", None)
        raise ApplicationError(
            str(error),
            type=type(error).__name__,
            non_retryable=is_final(error),
            next_retry_delay=None if wait_s is None else timedelta(seconds=wait_s),
        ) from error
    # Returned once already, and not taken; without this it would be tried without end.
    if before and before.state == "done" and len(json.dumps(told)) > PAYLOAD_BYTES_MAX:
        raise ApplicationError(
            f"the reply of {tell.address} is larger than the {PAYLOAD_BYTES_MAX:,} bytes that"
            f" Temporal takes (read it: upthread show {tell.address} --reply; have it written to a"
            " file)",
            type="ReplyTooLargeError",
            non_retryable=True,
        )
    return told


async def _key(up: Project, info: activity.Info) -> str:
    """Return what all attempts of an activity have in common, and no other activity has."""
    # A workflow's id may be used again, and another run's reply is not this one's.
    run = info.workflow_run_id or info.activity_run_id or ""
    named = f"temporal:{info.namespace}:{info.workflow_id}:{run}:{info.activity_id}"
    # A local activity is scheduled at another time once its worker was killed.
    at_ms = 0 if info.is_local else int(info.scheduled_time.timestamp() * 1_000)
    # Keys had no time once, and at first no run either. What was done before the activity was
    # scheduled is another one's.
    first = f"temporal:{info.workflow_id}:{info.activity_id}"
    for key in (named,) if info.is_local else (named, first):
        begun = await up.read(partial(up.store.once, up.project_id, key))
        if begun and (begun.recorded_at_ms >= at_ms or (key is named and begun.state != "done")):
            return key
    # A digest, because a workflow's id alone may be as long as a key. Its beginning is for people.
    return f"temporal:{str(info.workflow_id)[:100]}:{digest(f'{named}:{at_ms}')}"


async def _heartbeats(info: activity.Info, address: str, waited_for: list[Lease]) -> None:
    limit = info.heartbeat_timeout
    every_s = limit.total_seconds() / HEARTBEATS if limit else HEARTBEAT_S
    while True:
        # First, because Temporal shows later details late.
        await anyio.sleep(every_s)
        holders = [each.holder.in_words() for each in waited_for[-1:] if each.holder]
        activity.heartbeat(address, *(f"waits: {each} holds it" for each in holders))
