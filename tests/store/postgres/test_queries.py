"""The statements: each has a name of its own, compiles, and is used; migrations are numbered."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

from upthread.store import postgres
from upthread.store.postgres.queries import QUERIES
from upthread.store.sql.statements import read_migrations

SOURCES = Path(postgres.__file__).parent
SQL = SOURCES.parent / "sql" / "postgres"


PLANNED = {name: text for name, text in QUERIES.items() if not text.startswith(b"VACUUM")}
"""All but the one that only the server itself can carry out, which has no plan."""


def test_every_query_has_a_name_of_its_own_and_a_comment():
    titles = re.findall(r"^-- (\w+): \S", (SQL / "queries.sql").read_text(), re.MULTILINE)
    assert len(titles) == len(set(titles)) == len(QUERIES)


def test_every_query_is_one_statement_that_compiles(address):
    with psycopg.connect(address, autocommit=True) as connection:
        for name, statement in PLANNED.items():
            assert statement.count(b";") == 1, name
            connection.execute(b"PREPARE tried AS " + statement)
            connection.execute("DEALLOCATE tried")


def test_every_query_is_used():
    sources = [*SOURCES.glob("*.py"), *(SOURCES.parent / "sql").glob("*.py")]
    said = "".join(path.read_text() for path in sources)
    of_events = {f"record_{table}_event" for table in ("turn", "run")}
    opened = {"open_conversation", "open_turn", "open_run"}
    unused = {name for name in QUERIES if f'"{name}"' not in said}
    assert unused == of_events | opened, "these are named by their table"


def test_no_query_scans_a_table_that_grows(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        plans = {
            name: connection.execute(b"EXPLAIN (GENERIC_PLAN) " + statement).fetchall()
            for name, statement in PLANNED.items()
        }
    scanning = {name for name, plan in plans.items() if any("Seq Scan" in row[0] for row in plan)}
    assert scanning <= {"register_worker"}, "workers are few"


def test_an_act_is_looked_for_at_its_time_and_not_among_all(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")
        plan = connection.execute(b"EXPLAIN (GENERIC_PLAN) " + QUERIES["record_act"]).fetchall()
    conditions = [row[0] for row in plan if "Index Cond" in row[0]]
    assert len(conditions) == 2
    assert all("recorded_at_ms = $6" in each for each in conditions)


def test_migrations_are_numbered_without_a_gap_and_have_a_checksum():
    migrations = read_migrations("postgres")
    assert [step.version for step in migrations] == list(range(1, len(migrations) + 1))
    assert all(re.fullmatch(r"[0-9a-f]{64}", step.checksum) for step in migrations)


def test_units_are_in_the_names_of_columns():
    script = "".join(step.script for step in read_migrations("postgres"))
    times = re.findall(r"^\s+(\w+_at\w*) BIGINT", script, re.MULTILINE)
    assert times
    assert all(name.endswith(("_at_ms", "_at_ticks")) for name in times)


def test_no_column_takes_text_that_postgresql_would_refuse():
    script = "".join(step.script for step in read_migrations("postgres"))
    texts = set(re.findall(r"^    (\w+) TEXT NOT NULL", script, re.MULTILINE))
    assert texts == {"name", "checksum"}, "those of the migrations, which we write"
