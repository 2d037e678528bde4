"""Jobs that are lost are made again, those of lost workers given back; and nobody else's."""

import psycopg
import pytest

from upthread.core.commands import EnqueueTransition
from upthread.core.events import StepStarted
from upthread.core.runs.pipeline import queue_of
from upthread.core.types import RunId
from upthread.store.postgres.workers import Recovered, Registration, WorkerTable
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import HOLDER

SILENT_AFTER_MS = 4_000


class Queue:
    """The queue as its own package works it, call by call: no code of ours is between."""

    def __init__(self, address: str) -> None:
        self._connection = psycopg.connect(address, autocommit=True)
        self._connection.execute("SET search_path = upthread")

    def close(self) -> None:
        self._connection.close()

    def register(self) -> int:
        return self._one("SELECT procrastinate_register_worker_v1()")

    def fetch(self, worker: int) -> int | None:
        return self._one(f"SELECT id FROM procrastinate_fetch_job_v2(NULL, {worker})")

    def finish(self, job: int) -> None:
        """Acknowledge and delete, as a worker with `delete_jobs="successful"` does."""
        self._connection.execute(f"SELECT procrastinate_finish_job_v1({job}, 'succeeded', true)")

    def fall_silent(self, worker: int) -> None:
        self._connection.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '5 s'"
            f" WHERE id = {worker}"
        )

    def age_jobs(self) -> None:
        self._connection.execute("UPDATE procrastinate_events SET at = at - interval '10 s'")

    def queues(self) -> list[str]:
        rows = self._connection.execute("SELECT queue_name FROM procrastinate_jobs ORDER BY id")
        return [queue for (queue,) in rows]

    def jobs(self) -> list[tuple[str, str]]:
        return self._connection.execute(
            "SELECT convert_from(h.name, 'UTF8') || ' ' || (j.args ->> 'seq'), j.status::text"
            " FROM procrastinate_jobs AS j JOIN head AS h ON h.id = (j.args ->> 'run')::bigint"
            " ORDER BY j.id"
        ).fetchall()

    def _one(self, statement: str):
        row = self._connection.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]


@pytest.fixture
def queue(address):
    queue = Queue(address)
    yield queue
    queue.close()


@pytest.fixture
def table(address):
    table = WorkerTable(address)
    yield table
    table.close()


def due_at(*, run_seq, **more):
    return EnqueueTransition(run_id=samples.RUN, run_seq=run_seq, due_at_ms=10, **more)


@pytest.fixture
def run_under_way(store):
    """A run with a transition, and its job."""
    store.commit([*samples.home(), samples.run(), samples.moved(1), due_at(run_seq=1)])
    return samples.RUN


def recover(table, dead=()):
    return table.recover(silent_after_ms=SILENT_AFTER_MS, dead=dead)


def begin_step(store):
    started = StepStarted(role="planner", turn_id="trn_1")
    store.commit([samples.moved(2, event=started)])


@pytest.mark.extended
def test_the_queue_alone_loses_a_job_that_a_zombie_acknowledged_and_recovery_makes_it_again(
    store, table, queue, run_under_way
):
    zombie, rightful = queue.register(), queue.register()
    job = queue.fetch(zombie)
    begin_step(store)
    queue.fall_silent(zombie)
    assert recover(table) == Recovered(retried=1, freed=0, enqueued=0)
    assert queue.fetch(rightful) == job
    queue.finish(job)  # the zombie has woken up, and the queue takes its word
    queue.fall_silent(rightful)
    assert queue.jobs() == [], "nothing is left for whoever would take over"
    assert recover(table) == Recovered(retried=0, freed=0, enqueued=1)
    assert queue.jobs() == [("run_one 1", "todo")]
    assert queue.fetch(queue.register()) != job


def test_a_job_of_a_worker_that_lives_is_left_alone(store, table, queue, run_under_way):
    queue.fetch(queue.register())
    begin_step(store)
    assert recover(table) == Recovered(retried=0, freed=0, enqueued=0)
    assert queue.jobs() == [("run_one 1", "doing")]


def test_a_worker_that_is_known_to_be_dead_is_not_waited_for(table, queue, run_under_way):
    worker = queue.register()
    queue.fetch(worker)
    assert recover(table, dead=[worker]) == Recovered(retried=1, freed=0, enqueued=0)
    assert queue.jobs() == [("run_one 1", "todo")]


def test_a_run_that_waits_has_no_job_and_gets_none(store, table, queue, run_under_way):
    store.commit([samples.moved(2)])
    assert queue.jobs() == []
    assert recover(table) == Recovered(retried=0, freed=0, enqueued=0)


def test_a_transition_that_is_due_later_is_no_lost_one_and_comes_in_its_time(
    store, table, queue, run_under_way
):
    """By the server's clock, whatever the writer's says."""
    far = 10**15
    later = EnqueueTransition(run_id=samples.RUN, run_seq=2, due_at_ms=far, delay_ms=60_000)
    store.commit([samples.moved(2), later])
    assert queue.jobs() == [("run_one 2", "todo")]
    assert queue.fetch(queue.register()) is None
    soon = EnqueueTransition(run_id=samples.RUN, run_seq=3, due_at_ms=far, delay_ms=0)
    store.commit([samples.moved(3), soon])
    assert queue.fetch(queue.register()) is not None


def test_two_runs_have_a_job_each_and_the_same_commit_makes_no_second(store, queue, run_under_way):
    store.commit([samples.moved(1), due_at(run_seq=1)])
    other = RunId("run_two")
    due = EnqueueTransition(run_id=other, run_seq=0, due_at_ms=1, queue="upthread.elsewhere")
    store.commit([samples.run(other), due])
    assert queue.jobs() == [("run_one 1", "todo"), ("run_two 0", "todo")]


def test_a_worker_that_takes_a_new_place_is_known_once(table, queue):
    first, second = queue.register(), queue.register()
    said = registration("upthread")
    table.register(first, said)
    table.register(second, said, before=first)
    (known,) = table.workers()
    assert (known.worker_id, known.jobs) == (second, 0)
    assert known.registration.agents == {"opencode": "9"}
    table.forget(second)
    assert table.workers() == ()


def registration(*queues: str):
    return Registration(
        process=HOLDER,
        version="1",
        agents={"opencode": "9"},
        queues=queues,
        concurrency=2,
        registered_at_ms=5,
    )


@pytest.mark.extended
def test_a_job_waits_for_the_host_of_its_session_and_then_goes_anywhere(store, table, queue):
    here = queue_of(samples.PROJECT, agent="opencode", host="build-3")
    store.commit([*samples.home(), samples.run(), samples.moved(1), due_at(run_seq=1, queue=here)])
    assert recover(table).freed == 0, "a worker may start anew"
    worker = queue.register()
    table.register(worker, registration(here))
    queue.age_jobs()
    assert recover(table).freed == 0, "its worker lives"
    queue.fall_silent(worker)
    assert recover(table).freed == 1
    assert queue.queues() == [queue_of(samples.PROJECT, agent="opencode")]
