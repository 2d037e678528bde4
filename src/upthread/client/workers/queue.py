"""The queue: Procrastinate, set up for transitions, and made to outlive a restart of its server.

A handler says how its job ends by an exception of ours; the retry strategy turns that into the
queue's words. What the queue does by itself is in its documentation; what it leaves open is in
store/postgres/workers.py.

Seen in version 3.10: a heartbeat or a listener that fails once stops its worker; a job that was
fetched when the connection broke is nobody's, and stays with a worker that lives; a worker that was
taken for dead acknowledges a job that is another's by now. So the calls that fail are made again
here, with a new place among the workers where the old one may be lost, and a job is acknowledged
only while it is ours.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import anyio
import psycopg
from procrastinate import App, BaseRetryStrategy, PsycopgConnector, RetryDecision, exceptions
from procrastinate.job_context import JobContext
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager, NotificationCallback
from procrastinate.utils import utcnow
from psycopg.errors import ForeignKeyViolation

from upthread.errors import LeaseHeldError, StoreError
from upthread.store.postgres.schema import SEARCH_PATH
from upthread.store.postgres.server import parameters_of

TASK: Final = "transition"
CONNECTIONS_MAX: Final = 4
POLL_S: Final = 1.0
HEARTBEAT_S: Final = 1.0
PRUNED_AFTER_S: Final = 60.0
"""After how long a silent worker is forgotten. Its jobs are given back long before."""

HELD_AGAIN_S: Final = 1.0
FAILED_AGAIN_S: Final = 1.0
ATTEMPTS_MAX: Final = 20
"""How often a job may fail for a reason nobody foresaw; then its run is parked."""

_LOST_AGAIN_S: Final = 0.3
_RETRY: Final = (
    "SELECT procrastinate_retry_job_v2("
    "%(id)s, clock_timestamp() + %(delay_s)s * interval '1 s', NULL, %(queue)s, NULL)"
)

_PASSING: Final = (psycopg.OperationalError, psycopg.InterfaceError, ForeignKeyViolation)

logger = logging.getLogger(__name__)

Registered = Callable[[int, int | None], Awaitable[None]]
"""Called with a worker's id and the one it had before."""


class Again(Exception):  # noqa: N818  # no error: a job that is not over
    """The job comes again after a time, in another queue where one is named."""

    def __init__(self, *, after_s: float, queue: str | None = None) -> None:
        super().__init__(f"again after {after_s:.1f} s")
        self.after_s = after_s
        self.queue = queue


class Retrying(BaseRetryStrategy):
    """Says which exceptions of a handler bring its job back, and when."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Return when a job comes again; None lets it fail."""
        if isinstance(exception, Again):
            return _again(exception.after_s, exception.queue)
        if isinstance(exception, LeaseHeldError):
            # Whoever has the run goes on with it: this job only makes sure that somebody does.
            return _again(HELD_AGAIN_S)
        # A database that is away is no attempt that failed: it may be away for hours.
        if isinstance(exception, StoreError) or job.attempts < ATTEMPTS_MAX:
            return _again(FAILED_AGAIN_S)
        return None


def _again(after_s: float, queue: str | None = None) -> RetryDecision:
    return RetryDecision(retry_at=utcnow() + timedelta(seconds=after_s), queue=queue)


class LastingJobs(JobManager):
    """The calls of a worker, made again where a server that went away would end the worker.

    `is_lost` until this worker has its place among the workers back.
    """

    def __init__(self, connector: PsycopgConnector, registered: Registered) -> None:
        super().__init__(connector)
        self._registered = registered
        self._worker_id: int | None = None
        self._is_lost = False

    async def register_worker(self) -> int:
        """Take a place among the workers, and say who we are."""
        worker_id = await super().register_worker()
        await self._registered(worker_id, self._worker_id)
        self._worker_id = worker_id
        self._is_lost = False
        return worker_id

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Return a job, None when there is none or the server cannot say."""
        try:
            if self._is_lost:
                await self.register_worker()
            return await super().fetch_job(queues, self._worker_id or worker_id)
        except (exceptions.ConnectorException, StoreError) as error:
            if not _is_passing(error):
                raise
            # What the server gave us and we did not get is given back once our place is silent.
            logger.warning("the queue cannot be asked: %s", _in_one_line(error))
            self._is_lost = True
            return None

    async def update_heartbeat(self, worker_id: int) -> None:
        """Show life; a heartbeat that does not get through is one that is missed."""
        try:
            await super().update_heartbeat(self._worker_id or worker_id)
        except exceptions.ConnectorException as error:
            if not _is_passing(error):
                raise
            logger.warning("no heartbeat: %s", _in_one_line(error))

    async def unregister_worker(self, worker_id: int) -> None:
        """Give the place back."""
        await super().unregister_worker(self._worker_id or worker_id)

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        """Listen for ever."""
        while True:
            try:
                await super().listen_for_jobs(on_notification=on_notification, queues=queues)
            except exceptions.ConnectorException as error:
                if not _is_passing(error):
                    raise
                await anyio.sleep(_LOST_AGAIN_S)

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: FBT001  # its signature
        """Acknowledge a job that is still ours."""
        await self._lasting(job, partial(super().finish_job, job, status, delete_job))

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Give a job back that is still ours; after a time by the server's clock, not by ours."""
        # As a span: clocks of two machines differ, and the job would come early or late.
        delay_s = max(0.0, (retry_at - utcnow()).total_seconds()) if retry_at else 0.0
        given = {"id": job.id, "delay_s": delay_s, "queue": queue}
        await self._lasting(job, lambda: self.connector.execute_query_async(_RETRY, **given))

    async def _lasting(self, job: Job, call: Callable[[], Awaitable[None]]) -> None:
        """Call until the server has heard it, or the job is another worker's by now."""
        while True:
            try:
                # Asked each time: Procrastinate 3.10 lets a
                # worker that was taken for dead acknowledge.
                if await self._is_ours(job):
                    await call()
            except exceptions.UniqueViolation:
                # Its transition has another job by now.
                call = partial(super().finish_job, job, Status.SUCCEEDED, delete_job=True)
            except exceptions.ConnectorException as error:
                if not _is_passing(error):
                    raise
                await anyio.sleep(_LOST_AGAIN_S)
            else:
                return

    async def _is_ours(self, job: Job) -> bool:
        found = await self.connector.execute_query_all_async(
            "SELECT 1 FROM procrastinate_jobs"
            " WHERE id = %(id)s AND status = 'doing' AND worker_id = %(worker_id)s",
            id=job.id,
            worker_id=job.worker_id,
        )
        return bool(found)


def _is_passing(error: BaseException) -> bool:
    """Return whether a call may be made again: the connection broke, or our place was taken."""
    return isinstance(error, StoreError) or isinstance(error.__cause__, _PASSING)


def _in_one_line(error: BaseException) -> str:
    """Return what is wrong: the queue's own errors say it in their cause."""
    return " ".join(str(error.__cause__ or error).split())


def open_app(
    address: str, handle: Callable[[JobContext], Awaitable[None]], registered: Registered
) -> App:
    """Return the queue of a database, with `handle` for its jobs. To be opened by the caller."""
    parameters, prepares = parameters_of(address)
    options = " ".join(
        filter(None, (parameters.get("options"), f"-c search_path={SEARCH_PATH.replace(' ', '')}"))
    )
    connector = PsycopgConnector(
        min_size=1,
        max_size=CONNECTIONS_MAX,
        kwargs={
            **parameters,
            "options": options,
            "application_name": "upthread worker",
            # 5 is psycopg's own; the store's 0 would prepare what is sent once.
            "prepare_threshold": 5 if prepares else None,
        },
    )
    app = App(connector=connector)
    app.job_manager = LastingJobs(connector, registered)

    async def transition(context: JobContext, /, **_ids: int) -> None:
        await handle(context)

    app.task(name=TASK, pass_context=True, retry=Retrying())(transition)
    return app
