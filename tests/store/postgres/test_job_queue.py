"""The job queue's own tables: in our schema and nowhere else, made once, found by its functions."""

from __future__ import annotations

import psycopg

from upthread.store.postgres import migrate, schema

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
