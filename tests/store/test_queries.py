"""Statements reach rows by an index, and migrations can be told apart."""

from __future__ import annotations

import re

import psycopg
import pytest
from tests.support.postgres_server import drop_database_at, migrated_database_at

from upthread.store.postgres.queries import QUERIES as OF_POSTGRES
from upthread.store.sql.statements import read_migrations
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.batch import QUERIES as OF_SQLITE


def test_no_query_of_sqlite_scans_a_table_that_grows(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    allowed = re.compile(r"SCAN (?!json_each|CONSTANT)")
    for name, statement in OF_SQLITE.items():
        numbered = set(re.findall(r"\?\d+", statement))
        values = (None,) * (len(numbered) or statement.count("?"))
        plan = store.database.connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        assert not [row for row in plan if allowed.match(row[3])], name
    store.close()


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """The plan of each query of PostgreSQL, as lines; VACUUM has no plan."""
    place = tmp_path_factory.mktemp("plans")
    with psycopg.connect(migrated_database_at(place), autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield {
            name: [line for (line,) in connection.execute(b"EXPLAIN (GENERIC_PLAN) " + statement)]
            for name, statement in OF_POSTGRES.items()
            if not statement.startswith(b"VACUUM")
        }
    drop_database_at(place)


def test_no_query_of_postgresql_scans_a_table_that_grows(plans):
    scanning = {name for name, plan in plans.items() if any("Seq Scan" in line for line in plan)}
    assert scanning <= {"register_worker"}, "workers are few"


def test_an_audit_entry_is_looked_for_at_its_time_and_not_among_all(plans):
    conditions = [line for line in plans["record_act"] if "Index Cond" in line]
    assert len(conditions) == 2
    assert all("recorded_at_ms = $6" in line for line in conditions)


@pytest.mark.parametrize(("dialect", "integer"), [("sqlite", "INTEGER"), ("postgres", "BIGINT")])
def test_migrations_are_numbered_and_their_columns_name_the_unit_of_a_time(dialect, integer):
    migrations = read_migrations(dialect)
    assert [step.version for step in migrations] == list(range(1, len(migrations) + 1))
    script = "".join(step.script for step in migrations)
    times = re.findall(rf"^\s+(\w+_at\w*) {integer}", script, re.MULTILINE)
    assert times
    assert all(name.endswith(("_at_ms", "_at_ticks")) for name in times)
