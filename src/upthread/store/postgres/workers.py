"""What workers keep in the database beside the store: who they are, and whose jobs are lost.

Theory of operation. A job is a hint that a run has something to do; what is due stands in the
outbox, and what counts is the run's own events, written under a lease. So a job may be lost or come
twice, and `recover` puts it right: a job whose worker is silent or dead goes back into its queue,
and a transition that is due and has no job gets a new one. The latter closes what the queue leaves
open: a worker that was taken for dead and wakes up acknowledges its old job, which is by now
another worker's, and if that one then dies, no job is left to take over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from upthread.core.codec import decode_json, encode_json
from upthread.core.types import Holder
from upthread.store.base import Run
from upthread.store.postgres.queries import QUERIES, to_columns
from upthread.store.postgres.server import Connection, Server
from upthread.store.sql.batch import Row, from_columns
from upthread.store.sql.rows import run_of

# Four heartbeats: with one a second a killed worker's jobs were taken over after 3.5 to 4.1 s
# (Procrastinate 3.10.0).
SILENT_AFTER_MS: Final = 4_000
"""After how long without a heartbeat a worker counts as lost, by the server's clock."""

HOST_WAIT_MS: Final = 5_000
"""How long a job waits for a worker on the host where its session lives, when there is none: so
long a worker may take to start anew."""

_RECOVERY_LOCK: Final = int.from_bytes(b"recovery")


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
        found = self._rows("run_of_row", (row,))
        return run_of(found[0]) if found else None

    def register(
        self, worker_id: int, registration: Registration, *, before: int | None = None
    ) -> None:
        """Say what a worker is; `before` is the id it had until it lost its place."""
        process = registration.process
        values = (
            worker_id,
            *to_columns(process.host, process.boot_id, process.pid, process.started_at_ticks),
            *to_columns(registration.version),
            encode_json(dict(registration.agents)),
            list(registration.queues),
            *(registration.concurrency, registration.registered_at_ms, before),
        )
        self._server.run(
            "write", lambda connection: connection.execute(QUERIES["register_worker"], values)
        )

    def forget(self, worker_id: int) -> None:
        """Remove a worker that has stopped."""
        self._server.run(
            "write", lambda connection: connection.execute(QUERIES["forget_worker"], (worker_id,))
        )

    def workers(self) -> tuple[KnownWorker, ...]:
        """Return the workers that are known, oldest first."""
        return tuple(map(_worker_of, self._rows("workers", ())))

    def backlog(self) -> Backlog:
        """Return what waits for a worker, by the server's clock."""
        ((waiting, oldest_ms),) = self._rows("backlog", ())
        return Backlog(waiting=waiting, oldest_ms=oldest_ms)

    def recover(self, *, silent_after_ms: int, dead: Collection[int] = ()) -> Recovered:
        """Give back the jobs of workers that are silent or `dead`, and make lost jobs again.

        Jobs that wait for a host where nobody works may go to any. Nothing is done where another
        worker is at it this moment.
        """
        return self._server.run(
            "recover jobs in", lambda connection: _recover(connection, silent_after_ms, list(dead))
        )

    def _rows(self, query: str, values: tuple[int, ...]) -> list[Row]:
        return self._server.run(
            "read",
            lambda connection: connection.execute(QUERIES[query], values, binary=True).fetchall(),
        )


def _recover(connection: Connection, silent_after_ms: int, dead: list[int]) -> Recovered:
    with connection.transaction():
        # Tried and not waited for: whoever has it does the same work.
        if connection.execute(QUERIES["try_recovering"], (_RECOVERY_LOCK,)).fetchone() != (True,):
            return Recovered(retried=0, freed=0, enqueued=0)
        # With a NOTIFY of our own: Procrastinate's retry sends none (3.10.0).
        retried = connection.execute(QUERIES["retry_jobs"], (silent_after_ms, dead)).fetchall()
        waited = (silent_after_ms, dead, HOST_WAIT_MS)
        freed = connection.execute(QUERIES["free_jobs"], waited).fetchall()
        enqueued = connection.execute(QUERIES["enqueue_lost"]).fetchall()
    return Recovered(retried=len(retried), freed=len(freed), enqueued=len(enqueued))


def _worker_of(row: Row) -> KnownWorker:
    host, boot_id, pid, ticks, version = from_columns(row[1:6])
    agents = decode_json(row[6])
    assert isinstance(agents, dict), "we wrote it"
    registration = Registration(
        process=Holder(host=host, boot_id=boot_id, pid=pid, started_at_ticks=ticks, doing=""),
        version=version,
        agents={name: str(each) for name, each in agents.items()},
        queues=tuple(row[7]),
        concurrency=row[8],
        registered_at_ms=row[9],
    )
    return KnownWorker(worker_id=row[0], registration=registration, silent_ms=row[10], jobs=row[11])
