"""A worker: takes transitions of runs from a shared database and carries them out, one a job.

Theory of operation. A job names a run and the event it stands after. The worker takes the run's
lease, does the one thing that is next, and commits what came of it together with the next job; then
it has nothing more to do with the run. While a run waits, for a person or for a limit to pass, no
worker holds anything of it. A worker that is told to stop takes no more jobs and finishes those it
has; what is not over in time it hands back: the agent is stopped, the turn stays open, the lease is
given back, and another worker goes on from what the agent's own history says.
"""

from __future__ import annotations

import logging
import math
import signal
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
import psycopg
from msgspec import Struct, field
from msgspec.structs import replace
from procrastinate import App, BaseRetryStrategy, PsycopgConnector, RetryDecision, exceptions
from procrastinate.job_context import JobContext
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager, NotificationCallback
from procrastinate.utils import utcnow
from procrastinate.worker import Worker as QueueWorker
from psycopg.errors import ForeignKeyViolation, ReadOnlySqlTransaction
from psycopg_pool import AsyncConnectionPool

import upthread
from upthread.agents.registry import REHEARSAL, end_process_group, installed_agents
from upthread.client.project import Project
from upthread.client.project_opener import open_project
from upthread.client.runs import Transition
from upthread.core.events import kind_of
from upthread.core.runs.pipeline import ANY_QUEUE, queue_of
from upthread.core.types import Environment, Holder, ProjectId
from upthread.errors import ConfigError, FencedError, LeaseHeldError, StoreError, UsageError
from upthread.runtime.system import System, host_name, is_dead
from upthread.runtime.turns.delegation import Listener, RunOptions
from upthread.store.postgres.schema import SEARCH_PATH
from upthread.store.postgres.server import parameters_of
from upthread.store.postgres.workers import (
    SILENT_AFTER_MS,
    KnownWorker,
    Recovered,
    Registration,
    WorkerTable,
)
from upthread.store.reads import Run
from upthread.tasks import task_group

logger = logging.getLogger(__name__)

GRACE_S = 30.0
"""How long a worker that is told to stop lets its turns go on before it hands them back."""

NOT_HERE_AGAIN_S = 5.0


class Served(Struct, frozen=True, kw_only=True):
    """What a worker tells of itself: one thing that happened. `detail` is for people."""

    what: str
    workstream: str = ""
    run_id: str = ""
    detail: str = ""


Tell: TypeAlias = Callable[[Served], None]


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """How to work. `agents` are names; empty: all that are on this machine.

    `metrics_port` is where on loopback numbers are served, 0 any free port, None not at all.
    """

    database: str
    directories: Sequence[str] = (".",)
    agents: Sequence[str] = ()
    concurrency: int = 1
    grace_s: float = GRACE_S
    metrics_port: int | None = None
    environment: Environment | None = None
    tell: Tell = field(default=lambda _: None)


async def serve(options: WorkerOptions) -> None:
    """Work until told to stop by SIGTERM or SIGINT; a second one hands back at once.

    Raises ConfigError for a project without a permission policy, UsageError without any agent.
    """
    lost = LostWorkers()
    async with AsyncExitStack() as stack:
        projects: dict[ProjectId, Project] = {}
        for directory in options.directories:
            opened = open_project(
                directory,
                database=options.database,
                environment=options.environment,
                system=System(is_dead=lost.is_lost),
            )
            project = await stack.enter_async_context(opened)
            for notice in project.notices:
                options.tell(Served(what="notice", detail=notice))
            # Before a job is taken: the first permission
            # would park the run, far from anybody to answer.
            if not project.settings.permissions:
                where = project.settings.working_directory
                raise ConfigError(
                    f"{where} does not say what agents may do while nobody looks",
                    hint='write e.g. [permissions] edit = "allow", execute = "deny" into'
                    " upthread.toml",
                )
            projects[project.project_id] = project
        agents = await _agents(options, projects)
        table = await anyio.to_thread.run_sync(WorkerTable, options.database)
        stack.callback(table.close)
        if options.metrics_port is not None:
            options = stack.enter_context(_counted(options, options.metrics_port))
        try:
            await Worker(options, projects, agents, table, lost).run()
        except (exceptions.ConnectorException, psycopg.Error) as error:
            raise StoreError(
                f"the queue of jobs cannot be used: {_in_one_line(error)}",
                hint="check that the server takes writes, then start the worker again",
            ) from error


@contextmanager
def _counted(options: WorkerOptions, port: int) -> Generator[WorkerOptions]:
    """Serve numbers, and give the options by which what is told is counted, too."""
    from upthread.client.worker_metrics import Metrics, served  # noqa: PLC0415  # an extra

    metrics = Metrics(options.database)

    def tell(told: Served) -> None:
        metrics.count(told.what)
        options.tell(told)

    with served(metrics, port) as url:
        tell(Served(what="metrics", detail=url))
        yield replace(options, tell=tell)


async def _agents(
    options: WorkerOptions, projects: Mapping[ProjectId, Project]
) -> Mapping[str, str]:
    """Return what there is to work with: versions by name, empty where they are not known."""
    here = {each.agent: each.version for each in await installed_agents()}
    configured = [name for project in projects.values() for name in project.settings.agents]
    names = options.agents or sorted({*here, *configured})
    if not names:
        raise UsageError(
            "no agent is here that a worker could drive",
            hint="install one, or name one with --agent",
        )
    own = {REHEARSAL: upthread.__version__}
    return {name: here.get(name) or own.get(name, "") for name in names}


class Worker(Struct):
    """One process's worker."""

    options: WorkerOptions
    projects: Mapping[ProjectId, Project]
    agents: Mapping[str, str]
    table: WorkerTable
    lost: LostWorkers
    # Its own turn with the database: what recovers must not wait for what works.
    system: System = field(default_factory=lambda: System(end_process_group=end_process_group))
    at_work: set[anyio.CancelScope] = set()

    async def run(self) -> None:
        """Work until told to stop, then finish or hand back what is under way."""
        app = open_app(self.options.database, self._handle, self._registered)
        async with app.open_async():
            worker = QueueWorker(
                app=app,
                queues=self.queues,
                concurrency=self.options.concurrency,
                fetch_job_polling_interval=POLL_S,
                # The record has what was done: the table is to hold what is due.
                delete_jobs="successful",
                # Ours also hand back what is not over in time.
                install_signal_handlers=False,
                update_heartbeat_interval=HEARTBEAT_S,
                stalled_worker_timeout=PRUNED_AFTER_S,
                # Nobody aborts a job, and a poll that fails is logged with its traceback.
                abort_job_polling_interval=math.inf,
            )
            async with task_group() as tasks:
                tasks.start_soon(self._stop_when_told, worker)
                tasks.start_soon(
                    recover_for_ever, self.table, self.lost, self.system, self._tell_recovered
                )
                await worker.run()  # type: ignore[no-untyped-call]  # its authors leave it out
                tasks.cancel_scope.cancel()
        self.options.tell(Served(what="stopped"))

    @property
    def queues(self) -> list[str]:
        """Where this worker looks for jobs."""
        own = (
            queue_of(project_id, agent=agent, host=host)
            for project_id in self.projects
            for agent in ("", *self.agents)
            for host in ("", host_name())
        )
        return [ANY_QUEUE, *own]

    # --- one job -------------------------------------------------------------------------------

    async def _handle(self, context: JobContext) -> None:
        """Carry a job's transition out; raises what brings it back."""
        ids = context.job.task_kwargs
        run = await self.system.in_thread(lambda: self.table.run_of(int(str(ids["run"]))))
        # Forgotten since, or of a database that was put back: there is nothing to carry out.
        if run is None:
            return
        project = self.projects.get(run.project_id)
        if project is None:
            # Given back to the project's own queue, where only who has its directory looks.
            raise Again(after_s=NOT_HERE_AGAIN_S, queue=queue_of(run.project_id))
        transition = Transition(run_id=run.run_id, run_seq=int(str(ids["seq"])))
        with anyio.CancelScope() as scope:
            self.at_work.add(scope)
            try:
                await self._advance(project, run, transition, context.job.attempts)
            finally:
                self.at_work.discard(scope)
        # After the turn has been left in order: the next
        # worker begins where this one's lease ended.
        if scope.cancelled_caught:
            self._tell("handed_back", run)
            raise Again(after_s=0)

    async def _advance(
        self, project: Project, run: Run, transition: Transition, attempts: int
    ) -> None:
        options = RunOptions(
            on_event=lambda event: self._tell(kind_of(event), run, getattr(event, "role", "")),
            listener=Listener(
                started=lambda started: self._tell("turn_started", run, started.line),
                notice=lambda notice: self._tell("notice", run, notice.text),
            ),
            # The tree is waited for here: a job that came back for it would ask each second.
            is_waiting=True,
            is_handed_back=True,
        )
        live = project.live_run(run.workstream, options)
        try:
            wait_ms = await live.advance(transition)
        except FencedError as error:
            # Another worker has it by now, and its agent is stopped; that job is not ours any more.
            self._tell("fenced", run, str(error))
            return
        # Neither is a fault of the run: it comes again as often as it must.
        except (LeaseHeldError, StoreError):
            raise
        except Exception as error:
            is_for_people = isinstance(error, ConfigError | UsageError)
            # A broken configuration stays broken: that is told at once, and not after twenty tries.
            if attempts < ATTEMPTS_MAX and not is_for_people:
                raise
            detail = str(error) if is_for_people else f"{type(error).__name__}: {error}"
            await project.live_run(run.workstream, RunOptions()).park(transition, detail=detail)
            return
        if wait_ms:
            raise Again(after_s=wait_ms / 1000)

    # --- beside the jobs -----------------------------------------------------------------------

    async def _registered(self, worker_id: int, before: int | None) -> None:
        registration = Registration(
            process=self.system.this_process(""),
            version=upthread.__version__,
            agents=self.agents,
            queues=tuple(self.queues),
            concurrency=self.options.concurrency,
            registered_at_ms=self.system.now_ms(),
        )
        await self.system.in_thread(
            lambda: self.table.register(worker_id, registration, before=before)
        )
        if before is None:
            self.options.tell(Served(what="started", detail=", ".join(self.agents)))

    async def _stop_when_told(self, worker: QueueWorker) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with task_group() as tasks:
                async for _ in signals:
                    worker.stop()  # type: ignore[no-untyped-call]  # as above
                    tasks.start_soon(self._hand_back_after, self.options.grace_s)
                    break
                async for _ in signals:
                    await self._hand_back_after(0)

    async def _hand_back_after(self, grace_s: float) -> None:
        await anyio.sleep(grace_s)
        for scope in self.at_work:
            scope.cancel()

    # --- telling -------------------------------------------------------------------------------

    def _tell(self, what: str, run: Run, detail: str = "") -> None:
        told = Served(what=what, workstream=run.workstream, run_id=run.run_id, detail=detail)
        self.options.tell(told)

    def _tell_recovered(self, done: Recovered) -> None:
        detail = (
            f"{done.retried} jobs of lost workers, {done.freed} of lost hosts,"
            f" {done.enqueued} lost jobs"
        )
        self.options.tell(Served(what="recovered", detail=detail))


# --- lost workers ---------------------------------------------------------------------------------
# One loop a worker; of several workers, one at a time recovers. A worker on this host is known to
# be dead by its pid, at once. Of others the server's clock says how long they have been silent, so
# that nobody has to watch them: whoever takes a run over knows it already, and takes its lease
# without waiting.


RECOVER_EVERY_S = 0.5


class LostWorkers(Struct):
    """Knows which workers are lost. `is_lost` may be asked from any thread."""

    lost: frozenset[Holder] = frozenset()

    def is_lost(self, holder: Holder) -> bool:
        """Return whether a lease's holder is dead, or a worker that has fallen silent."""
        # Without what it is doing: a lease names that, and a registration does not.
        return is_dead(holder) or replace(holder, doing="") in self.lost

    def see(self, workers: tuple[KnownWorker, ...]) -> list[int]:
        """Learn how the workers stand; returns the ids of those that are known to be dead."""
        dead = [each.worker_id for each in workers if is_dead(each.registration.process)]
        silent = [each for each in workers if each.worker_id in dead or each.is_silent]
        # A worker that had to take a new place is there twice, and lives.
        living = {each.registration.process for each in workers if each not in silent}
        self.lost = frozenset(each.registration.process for each in silent) - living
        return dead


async def recover_for_ever(
    table: WorkerTable, lost: LostWorkers, system: System, recovered: Callable[[Recovered], None]
) -> None:
    """Look after lost workers and lost jobs until cancelled."""
    while True:
        try:
            dead = lost.see(await system.in_thread(table.workers))
            done = await system.in_thread(
                partial(table.recover, silent_after_ms=SILENT_AFTER_MS, dead=dead)
            )
        except StoreError as error:
            # The database is away: what it is for is looked at again when it is back.
            logger.warning("lost jobs cannot be looked for: %s", error)
        else:
            if done.retried or done.freed or done.enqueued:
                recovered(done)
        await anyio.sleep(RECOVER_EVERY_S)


# --- the queue ------------------------------------------------------------------------------------
# Procrastinate, set up for transitions, and made to outlive a restart of its server. A handler says
# how its job ends by an exception of ours; the retry strategy turns that into the queue's words.
# What the queue does by itself is in its documentation; what it leaves open is in
# store/postgres/workers.py.
#
# Seen in version 3.10: a heartbeat or a listener that fails once stops its worker; a job that was
# fetched when the connection broke is nobody's, and stays with a worker that lives; a worker that
# was taken for dead acknowledges a job that is another's by now. So the calls that fail are made
# again here, with a new place among the workers where the old one may be lost, and a job is
# acknowledged only while it is ours.


TASK = "transition"
CONNECTIONS_MAX = 4
POLL_S = 1.0
HEARTBEAT_S = 1.0
PRUNED_AFTER_S = 60.0
"""After how long a silent worker is forgotten. Its jobs are given back long before."""

HELD_AGAIN_S = 1.0
FAILED_AGAIN_S = 1.0
ATTEMPTS_MAX = 20
"""How often a job may fail for a reason nobody foresaw; then its run is parked."""

_LOST_AGAIN_S = 0.3
_CONNECTION_WAIT_S = 5.0
_LISTENS_ANEW_S = 60.0
"""After a failover the server that was listened to may live on without notifications."""

_RETRY = (
    "SELECT procrastinate_retry_job_v2("
    "%(id)s, clock_timestamp() + %(delay_s)s * interval '1 s', NULL, %(queue)s, NULL)"
)

_PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    ForeignKeyViolation,
    ReadOnlySqlTransaction,
)

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
                with anyio.move_on_after(_LISTENS_ANEW_S):
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
                is_ours = await self.connector.execute_query_all_async(
                    "SELECT 1 FROM procrastinate_jobs"
                    " WHERE id = %(id)s AND status = 'doing' AND worker_id = %(worker_id)s",
                    id=job.id,
                    worker_id=job.worker_id,
                )
                if is_ours:
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
    own = f"-c search_path={SEARCH_PATH.replace(' ', '')} -c standard_conforming_strings=on"
    options = " ".join(filter(None, (parameters.get("options"), own)))
    connector = PsycopgConnector(
        pool_factory=_pool_of_primaries,
        min_size=1,
        max_size=CONNECTIONS_MAX,
        timeout=_CONNECTION_WAIT_S,
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


def _pool_of_primaries(**given: Any) -> AsyncConnectionPool:
    given["check"] = _require_primary
    return AsyncConnectionPool(**given)


async def _require_primary(connection: psycopg.AsyncConnection) -> None:
    """Raise for a connection that is lost, or whose server takes no writes any more.

    The pool then opens another connection: the address may lead to another server by now.
    """
    await connection.set_autocommit(True)
    try:
        cursor = await connection.execute("SHOW transaction_read_only")
        if await cursor.fetchone() == ("on",):
            await connection.close()  # otherwise the pool keeps it
            raise psycopg.OperationalError("the server takes no writes now")
    finally:
        with suppress(psycopg.Error):  # of a connection that is lost
            await connection.set_autocommit(False)
