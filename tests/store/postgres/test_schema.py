"""The schema: made by `migrate` alone, by many at once, checked at every opening; and its queue."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors
from tests.support.postgres_server import database_at, drop_database_at
from tests.support.sets import EXTENDED, SOAK

from upthread.errors import StoreError
from upthread.store.postgres import PostgresStore, migrate, schema
from upthread.testing.store_conformance import samples

PROCESSES = 4

OPEN = """
import sys
from upthread.store.postgres import PostgresStore, migrate
from upthread.testing.store_conformance import samples

number = sys.argv[1]
print("ready", flush=True)
for address in sys.stdin:
    migrate(address.strip())
    store = PostgresStore(address.strip())
    store.commit([samples.workstream(f"ws-{number}", base_name=f"Name{number}")])
    print(len(store.workstreams(samples.PROJECT)) > 0, flush=True)
    store.close()
"""


def test_a_database_without_a_schema_is_refused_with_the_cure(fresh_address):
    with pytest.raises(StoreError, match="has no schema of upthread yet") as caught:
        PostgresStore(fresh_address)
    assert "upthread migrate" in caught.value.hint
    with psycopg.connect(fresh_address) as connection, pytest.raises(errors.InvalidSchemaName):
        connection.execute("CREATE TABLE upthread.made_by_opening (id INTEGER)")


@EXTENDED
def test_a_step_that_fails_leaves_nothing(fresh_address):
    with psycopg.connect(fresh_address) as connection:
        connection.execute("CREATE SCHEMA upthread")
        connection.execute("CREATE TABLE upthread.lease (mine INTEGER)")  # the last step's name
    with pytest.raises(StoreError, match='relation "lease" already exists'):
        migrate(fresh_address)
    with psycopg.connect(fresh_address) as connection:
        left = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'upthread'"
        ).fetchall()
    assert left == [("lease",)]


def test_a_database_of_tables_is_refused_with_the_cure_and_left_alone(fresh_address):
    with psycopg.connect(fresh_address) as connection:
        connection.execute("CREATE SCHEMA upthread")
        connection.execute("CREATE TABLE upthread.schema_migration (version INTEGER)")
    for opened in (PostgresStore, migrate):
        with pytest.raises(StoreError, match="older version") as caught:
            opened(fresh_address)
        assert "tools/convert_database.py" in caught.value.hint


def test_a_commit_that_waits_for_an_upgrade_is_refused_after_it(address):
    store = PostgresStore(address)
    with psycopg.connect(address) as connection, ThreadPoolExecutor() as threads:
        connection.execute(schema._LOCK_HEADS)
        committed = threads.submit(store.commit, samples.home())
        while not connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
            assert not committed.done()
        connection.execute("UPDATE upthread.meta SET value = 999 WHERE name = 'schema'")
        connection.commit()
        with pytest.raises(StoreError, match="newer upthread"):
            committed.result()
    with pytest.raises(StoreError, match="newer upthread"):
        migrate(address)
    store.close()


@SOAK
@pytest.mark.parametrize("openings", [pytest.param(2, id="twice"), pytest.param(20, marks=SOAK)])
def test_processes_open_at_once_a_database_that_has_no_schema_yet(tmp_path, openings):
    """Schema and tables made at one moment by many clash in PostgreSQL itself."""
    command = [sys.executable, "-c", OPEN]
    opening = [
        subprocess.Popen(
            [*command, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for process in opening:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    for number in range(openings):
        place = tmp_path / str(number)
        address = database_at(place)
        for process in opening:
            process.stdin.write(f"{address}\n")
            process.stdin.flush()
        for process in opening:
            assert process.stdout.readline() == "True\n", process.stderr.read()
        store = PostgresStore(address)
        assert len(store.workstreams(samples.PROJECT)) == PROCESSES
        store.close()
        drop_database_at(place)
    for process in opening:
        process.communicate(timeout=60)
        assert process.returncode == 0


# --- the job queue --------------------------------------------------------------------------------

ELSEWHERE = """
SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname LIKE 'procrastinate%' AND n.nspname <> 'upthread'
"""
JOBS = "SELECT count(*) FROM upthread.procrastinate_jobs"
DEFER = """
SELECT upthread.procrastinate_defer_jobs_v1(ARRAY[
    row('q', 'transition', 0, NULL, '1:1', '{}', NULL)::upthread.procrastinate_job_to_defer_v1
])
"""


def test_the_queue_s_functions_find_its_tables_wherever_a_connection_looks(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET search_path = pg_temp")
        connection.execute(DEFER)
        assert connection.execute(JOBS).fetchone() == (1,)
        assert connection.execute(ELSEWHERE).fetchone() == (0,)


def test_a_step_that_a_newer_queue_brings_is_made_by_the_next_migration_and_no_other_again(address):
    last = max(schema._steps())
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(DEFER)
        connection.execute("DELETE FROM upthread.job_queue_migration WHERE name = %s", (last,))
        migrate(address)
        made = connection.execute("SELECT name FROM upthread.job_queue_migration").fetchall()
        assert connection.execute(JOBS).fetchone() == (1,)
    assert {name for (name,) in made} == set(schema._steps())
