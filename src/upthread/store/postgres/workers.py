"""What workers keep in the database beside the store: who they are, and whose jobs are lost.

Theory of operation. A job is a hint that a run has something to do; what is due stands on its head,
and what counts is the run's own events, written under a lease. So a job may be lost or come twice,
and `recover` puts it right: a job whose worker is silent or dead goes back into its queue, and a
transition that is due and has no job gets a new one. The latter closes what the queue leaves open:
a worker that was taken for dead and wakes up acknowledges its old job, which is by now another
worker's, and if that one then dies, no job is left to take over.
"""

from collections.abc import Collection, Mapping

from msgspec import Struct

from upthread.core.codec import Json, encode_plain_json
from upthread.core.types import Holder
from upthread.store.log import Row
from upthread.store.postgres.server import Connection, Server
from upthread.store.reads import Run, run_of
from upthread.store.streams import head_of

# Four heartbeats: with one a second a killed worker's jobs were taken over after 3.5 to 4.1 s
# (Procrastinate 3.10.0).
SILENT_AFTER_MS = 4_000
"""After how long without a heartbeat a worker counts as lost, by the server's clock."""

HOST_WAIT_MS = 5_000
"""How long a job waits for a worker on the host where its session lives, when there is none: so
long a worker may take to start anew."""

_RECOVERY_LOCK = int.from_bytes(b"recovery")


class Registration(Struct, frozen=True, kw_only=True):
    """What a worker says of itself. `agents` are versions by name, empty where unknown."""

    process: Holder
    version: str
    agents: Mapping[str, str]
    queues: tuple[str, ...]
    concurrency: int
    registered_at_ms: int


class KnownWorker(Struct, frozen=True, kw_only=True):
    """A worker that registered, how long it has been silent, and how many jobs it is at."""

    worker_id: int
    registration: Registration
    silent_ms: int
    jobs: int

    @property
    def is_silent(self) -> bool:
        """Whether it has missed so many heartbeats that its jobs are given to others."""
        return self.silent_ms > SILENT_AFTER_MS


class Backlog(Struct, frozen=True, kw_only=True):
    """How many transitions are due and with no worker, and for how long the oldest has been."""

    waiting: int
    oldest_ms: int


class Recovered(Struct, frozen=True, kw_only=True):
    """How many jobs were given back, may go to any host now, and were lost and made again."""

    retried: int
    freed: int
    enqueued: int


class WorkerTable:
    """A connection of a worker's own. Any thread, one call at a time; all may raise StoreError."""

    def __init__(self, address: str) -> None:
        # It acts for all projects, as a new connection does: jobs of any may have to be given back.
        self._server = Server(address)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._server.close()

    def run_of(self, row: int) -> Run | None:
        """Return the run that a job names by its row."""
        found = self._rows(_RUN, (row,))
        return run_of(head_of(found[0])) if found else None

    def register(
        self, worker_id: int, registration: Registration, *, before: int | None = None
    ) -> None:
        """Say what a worker is; `before` is the id it had until it lost its place."""
        values = (
            worker_id,
            encode_plain_json(registration.process),
            registration.version.encode(),
            encode_plain_json(dict(registration.agents)),
            list(registration.queues),
            *(registration.concurrency, registration.registered_at_ms, before),
        )
        self._server.run("write", lambda connection: connection.execute(_REGISTER, values))

    def forget(self, worker_id: int) -> None:
        """Remove a worker that has stopped."""
        self._server.run("write", lambda connection: connection.execute(_FORGET, (worker_id,)))

    def workers(self) -> tuple[KnownWorker, ...]:
        """Return the workers that are known, oldest first."""
        return tuple(map(_worker_of, self._rows(_WORKERS, ())))

    def backlog(self) -> Backlog:
        """Return what waits for a worker, by the server's clock."""
        ((waiting, oldest_ms),) = self._rows(_BACKLOG, ())
        return Backlog(waiting=waiting, oldest_ms=oldest_ms)

    def recover(self, *, silent_after_ms: int, dead: Collection[int] = ()) -> Recovered:
        """Give back the jobs of workers that are silent or `dead`, and make lost jobs again.

        Jobs that wait for a host where nobody works may go to any. Nothing is done where another
        worker is at it this moment.
        """
        return self._server.run(
            "recover jobs in", lambda connection: _recover(connection, silent_after_ms, list(dead))
        )

    def _rows(self, query: bytes, values: tuple[int, ...]) -> list[Row]:
        return self._server.run(
            "read",
            lambda connection: connection.execute(query, values, binary=True).fetchall(),
        )


def _recover(connection: Connection, silent_after_ms: int, dead: list[int]) -> Recovered:
    with connection.transaction():
        # Tried and not waited for: whoever has it does the same work.
        if connection.execute(_TRY_RECOVERING, (_RECOVERY_LOCK,)).fetchone() != (True,):
            return Recovered(retried=0, freed=0, enqueued=0)
        # With a NOTIFY of our own: Procrastinate's retry sends none (3.10.0).
        retried = connection.execute(_RETRY_JOBS, (silent_after_ms, dead)).fetchall()
        waited = (silent_after_ms, dead, HOST_WAIT_MS)
        freed = connection.execute(_FREE_JOBS, waited).fetchall()
        enqueued = connection.execute(_ENQUEUE_LOST).fetchall()
    return Recovered(retried=len(retried), freed=len(freed), enqueued=len(enqueued))


def _worker_of(row: Row) -> KnownWorker:
    worker_id, process, version, agents, queues, concurrency, at_ms, silent_ms, jobs = row
    registration = Registration(
        process=_PROCESS.decode(process),
        version=version.decode(),
        agents=_AGENTS.decode(agents),
        queues=tuple(queues),
        concurrency=concurrency,
        registered_at_ms=at_ms,
    )
    return KnownWorker(
        worker_id=worker_id, registration=registration, silent_ms=silent_ms, jobs=jobs
    )


# --- statements -----------------------------------------------------------------------------------

# Makes jobs of heads `h` that have a transition; {} is when, NULL: at once.
DEFER = """upthread.procrastinate_defer_jobs_v1(
    array_agg(
        row(
            h.due_queue, 'transition', 0, NULL, h.id || ':' || h.due_seq,
            jsonb_build_object('run', h.id, 'seq', h.due_seq), {}
        )::upthread.procrastinate_job_to_defer_v1
    )
)"""

# Say what a worker is and has; $8 is the id it had before, NULL without one.
_REGISTER = b"""
WITH forgotten AS (
    DELETE FROM upthread.worker AS w
    WHERE
        w.worker_id = $8::bigint
        OR NOT EXISTS (SELECT 1 FROM upthread.procrastinate_workers AS p WHERE p.id = w.worker_id)
)
INSERT INTO upthread.worker (
    worker_id, process, version, agents, queues, concurrency, registered_at_ms
) VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
_FORGET = b"DELETE FROM upthread.worker WHERE worker_id = $1"
# Those that are known, and how long each has been silent.
_WORKERS = b"""
SELECT
    w.worker_id, w.process, w.version, w.agents, w.queues, w.concurrency, w.registered_at_ms,
    (extract(epoch FROM clock_timestamp() - p.last_heartbeat) * 1000)::bigint,
    (
        SELECT count(*) FROM upthread.procrastinate_jobs AS j
        WHERE j.worker_id = w.worker_id AND j.status = 'doing'
    )
FROM upthread.worker AS w JOIN upthread.procrastinate_workers AS p ON p.id = w.worker_id
ORDER BY w.worker_id
"""
_RUN = b"SELECT id, kind, name, project, last, hash, state, seal FROM upthread.head WHERE id = $1"
# Whether nobody else recovers jobs just now; until the transaction ends.
_TRY_RECOVERING = b"SELECT pg_try_advisory_xact_lock($1)"
# Give back those of workers that are silent, pruned or known to be dead.
_RETRY_JOBS = b"""
WITH stalled AS (
    SELECT j.id, j.queue_name
    FROM upthread.procrastinate_jobs AS j
    LEFT JOIN upthread.procrastinate_workers AS w ON w.id = j.worker_id
    WHERE
        j.status = 'doing' AND (
            w.id IS NULL OR w.id = ANY($2::bigint[])
            OR w.last_heartbeat < clock_timestamp() - $1::bigint * interval '1 ms'
        )
    FOR UPDATE OF j SKIP LOCKED
)
SELECT
    id, upthread.procrastinate_retry_job_v2(id, NULL, NULL, NULL, NULL),
    pg_notify(
        'procrastinate_queue_v1#' || queue_name,
        json_build_object('type', 'job_inserted', 'job_id', id)::text
    )
FROM stalled
"""
# Let those go anywhere that have waited for their host, where no living worker takes them.
_FREE_JOBS = b"""
UPDATE upthread.procrastinate_jobs AS j
SET queue_name = regexp_replace(j.queue_name, '\\.\\w{8}$', '')
WHERE
    j.status = 'todo' AND j.queue_name ~ '^upthread\\.\\w{18}\\.\\w{8}$'
    AND (
        j.scheduled_at IS NULL
        OR j.scheduled_at < clock_timestamp() - $3::bigint * interval '1 ms'
    )
    AND NOT EXISTS (
        SELECT 1 FROM upthread.worker AS w
        JOIN upthread.procrastinate_workers AS p ON p.id = w.worker_id
        WHERE
            j.queue_name = ANY(w.queues) AND p.id <> ALL($2::bigint[])
            AND p.last_heartbeat > clock_timestamp() - $1::bigint * interval '1 ms'
    )
    AND (SELECT max(e.at) FROM upthread.procrastinate_events AS e WHERE e.job_id = j.id)
    < clock_timestamp() - $3 * interval '1 ms'
RETURNING pg_notify(
    'procrastinate_queue_v1#' || j.queue_name,
    json_build_object('type', 'job_inserted', 'job_id', j.id)::text
)
"""
# Transitions that are due and have no job in one of the states {}.
_DUE_WITHOUT_JOB = """
FROM upthread.head AS h
WHERE
    h.due_at_ms <= extract(epoch FROM clock_timestamp()) * 1000
    AND NOT EXISTS (
        SELECT 1 FROM upthread.procrastinate_jobs AS j
        WHERE j.queueing_lock = h.id || ':' || h.due_seq AND j.status IN ({})
    )
"""
# Those that have no job, neither waiting nor with a worker.
_LOST = _DUE_WITHOUT_JOB.format("'todo', 'doing'")
_ENQUEUE_LOST = f"SELECT unnest({DEFER.format('NULL')}) {_LOST} HAVING count(*) > 0".encode()
# Those that no worker has, and the age of the oldest.
_BACKLOG = f"""
SELECT
    count(*),
    coalesce(max(extract(epoch FROM clock_timestamp()) * 1000 - h.due_at_ms), 0)::bigint
{_DUE_WITHOUT_JOB.format("'doing'")}
""".encode()

_PROCESS = Json(Holder, "worker")
_AGENTS = Json(dict[str, str], "worker")
