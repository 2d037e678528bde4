"""The statements: each has a name of its own, compiles, and is used; migrations are numbered."""

from __future__ import annotations

import re
from pathlib import Path

from upthread.store import sqlite
from upthread.store.sql.statements import read_migrations
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.batch import QUERIES

SOURCES = Path(sqlite.__file__).parent
SQL = SOURCES.parent / "sql" / "sqlite"


def test_every_query_has_a_name_of_its_own_and_a_comment():
    titles = re.findall(r"^-- (\w+): \S", (SQL / "queries.sql").read_text(), re.MULTILINE)
    assert len(titles) == len(set(titles)) == len(QUERIES)


def test_every_query_is_one_statement_that_compiles(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    for name, statement in QUERIES.items():
        assert statement.count(";") == 1, name
        bindings = (None,) * len(set(re.findall(r"\?\d*", statement)) - {"?"}) or (
            (None,) * statement.count("?")
        )
        store.database.connection.execute(f"EXPLAIN {statement}", bindings).fetchall()
    store.close()


def test_no_query_scans_a_table_that_grows(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    scanning = set()
    for name, statement in QUERIES.items():
        bindings = (None,) * len(set(re.findall(r"\?\d*", statement)) - {"?"}) or (
            (None,) * statement.count("?")
        )
        plan = store.database.connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)
        if any(
            re.match(r"SCAN (?!json_each|CONSTANT|\w+ USING INDEX transition_due)", row[3])
            for row in plan
        ):
            scanning.add(name)
    assert scanning == set()
    store.close()


def test_migrations_are_numbered_without_a_gap_and_have_a_checksum():
    migrations = read_migrations("sqlite")
    assert [step.version for step in migrations] == list(range(1, len(migrations) + 1))
    assert all(re.fullmatch(r"[0-9a-f]{64}", step.checksum) for step in migrations)


def test_units_are_in_the_names_of_columns():
    script = "".join(step.script for step in read_migrations("sqlite"))
    times = re.findall(r"^\s+(\w+_at\w*) INTEGER", script, re.MULTILINE)
    assert times
    assert all(name.endswith(("_at_ms", "_at_ticks")) for name in times)
