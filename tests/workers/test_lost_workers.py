"""Workers that fall silent or are told to stop: another goes on, and who wakes up is fenced."""

import os
import signal
from pathlib import Path

import anyio
import psycopg
import pytest
from tests.support.laboratory.command import Command
from tests.support.laboratory.proxy import Proxy
from tests.support.laboratory.sharing import Observer, Passage, Workers, taken_over, until
from tests.support.postgres_server import PostgresServer, with_database
from tests.support.sets import EXTENDED, SOAK

from upthread.client.worker import LostWorkers
from upthread.core.types import Holder
from upthread.store.postgres import migrate
from upthread.store.postgres.workers import SILENT_AFTER_MS, KnownWorker, Registration

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


def prompts(passage: Passage) -> int:
    return sum(each["event"] == "prompt" for each in passage.oracle.entries())


async def in_a_turn(passage: Passage, observer: Observer, worker: Command) -> dict[str, int]:
    """Wait until a worker's agent has a prompt, and return the leases of its runs."""
    seen = prompts(passage)
    await until(lambda: prompts(passage) > seen and observer.held_by(worker.pid))
    return observer.held_by(worker.pid)


def check(passage: Passage, workers: Workers, *, has_moved: bool = False) -> None:
    workers.check_no_traceback()
    judged = passage.judged(has_moved=has_moved)
    assert judged["faults"] == [], judged


def test_a_worker_that_registered_twice_is_lost_only_when_both_are_silent():
    far = Holder(host="far-away", boot_id="boot", pid=1, started_at_ticks=1)
    own = {"version": "1", "agents": {}, "queues": (), "concurrency": 1, "registered_at_ms": 0}
    registration = Registration(process=far, **own)
    old, new = (
        KnownWorker(worker_id=n, registration=registration, silent_ms=silent_ms, jobs=0)
        for n, silent_ms in enumerate((SILENT_AFTER_MS + 1, 0))
    )
    lost = LostWorkers()
    for workers, is_lost in (((old, new), False), ((old,), True)):
        assert lost.see(workers) == []
        assert lost.is_lost(far) is is_lost


async def test_a_worker_that_is_stopped_is_taken_over_and_fenced_when_it_wakes_up(
    passage, workers, observer
):
    stopped = workers.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(passage.play)
        lost = await in_a_turn(passage, observer, stopped)
        os.kill(stopped.pid, signal.SIGSTOP)
        workers.start()
        assert await taken_over(observer, lost)
        os.kill(stopped.pid, signal.SIGCONT)
        await until(lambda: [e for e in stopped.lines if e["type"] == "fenced"])
        assert not stopped.agents(), "its agent goes on"
    assert stopped.is_running
    check(passage, workers)


@EXTENDED
async def test_a_worker_whose_connection_is_cut_is_taken_over_and_fenced_when_it_is_back(
    passage, workers, observer, address
):
    with Proxy(address) as proxy:
        far = workers.start(UPTHREAD_DB=proxy.address, UPTHREAD_HOST="far-away")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(passage.play)
            lost = await in_a_turn(passage, observer, far)
            proxy.cut()
            workers.start()
            assert await taken_over(observer, lost)
            proxy.mend()
            await until(lambda: [e for e in far.lines if e["type"] == "fenced"])
            assert not far.agents(), "its agent goes on"
        assert far.is_running
    check(passage, workers, has_moved=True)


@EXTENDED
async def test_runs_whose_jobs_are_all_lost_are_found_and_come_to_their_end(
    passage: Passage, workers: Workers, observer: Observer
) -> None:
    workers.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(passage.play)
        for _ in range(5):
            await until(observer.under_way)
            observer.execute("DELETE FROM upthread.procrastinate_jobs")
            await anyio.sleep(0.5)
    assert workers.told("worker_recovered")
    # The queue itself complains of a job that was deleted under its worker: no fault of the run.
    assert passage.judged()["faults"] == []


@EXTENDED
async def test_a_worker_that_is_told_to_stop_finishes_its_step(passage, workers, observer):
    first = workers.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(passage.play)
        await in_a_turn(passage, observer, first)
        os.kill(first.pid, signal.SIGTERM)
        assert first.exit_code == 0
        assert [each["type"] for each in first.lines][-2:] == ["step_ended", "worker_stopped"]
        workers.start()
    check(passage, workers)


@SOAK
async def test_a_worker_that_may_not_wait_hands_its_turn_back_and_another_goes_on(
    passage: Passage, workers: Workers, observer: Observer
) -> None:
    first = workers.start("--grace", "0")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(passage.play)
        await in_a_turn(passage, observer, first)
        os.kill(first.pid, signal.SIGTERM)
        assert first.exit_code == 0
        kinds = [each["type"] for each in first.lines]
        assert kinds[-2:] == ["handed_back", "worker_stopped"]
        assert not passage.world.agents(), "its agent goes on"
        assert not observer.holders(), "it holds the run still"
        workers.start()
    check(passage, workers)


@SOAK
async def test_a_server_that_crashes_while_a_run_is_taken_over_strands_nothing(tmp_path):
    server = PostgresServer()
    try:
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute("CREATE DATABASE work")
        address = with_database(server.address, "work")
        migrate(address)
        await play_with_a_server_that_crashes(tmp_path, server, address)
    finally:
        server.remove()


async def play_with_a_server_that_crashes(
    tmp_path: Path, server: PostgresServer, address: str
) -> None:
    passage, observer = Passage(tmp_path / "passage", address), Observer(address)
    projects = [passage.world.project]
    with Workers(tmp_path, passage.world.environment, projects) as workers:
        victim = workers.start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(passage.play)
            await in_a_turn(passage, observer, victim)
            survivors = [workers.start(), workers.start()]
            await until(lambda: len(workers.told("worker_started")) == 3)
            workers.kill(victim)
            await anyio.to_thread.run_sync(server.crash)
            await anyio.sleep(0.5)
            await anyio.to_thread.run_sync(server.start)
        assert all(each.is_running for each in survivors)
        judged = passage.judged()
        assert judged["faults"] == [], judged
    observer.close()
    passage.close()
