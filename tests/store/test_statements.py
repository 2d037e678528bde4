"""Statements: what a value's columns are is said by the value alone, and by no statement."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from upthread.core.types import Link
from upthread.store.sql import statements
from upthread.store.sql.statements import COLUMNS, read_queries

SQL = Path(statements.__file__).parent
FILES = sorted(SQL.glob("*/*.sql"))


def test_columns_are_written_out_with_their_table_and_as_numbered_values():
    columns = COLUMNS["link"]
    of_sqlite, of_postgres = read_queries("sqlite"), read_queries("postgres")
    assert ", ".join(f"l.{name}" for name in columns) in of_sqlite["links"]
    assert f"SELECT {', '.join(columns)} FROM upthread.link" in of_postgres["link"]
    numbered = range(2, 2 + len(columns))
    assert ", ".join(f"?{number}" for number in numbered) in of_sqlite["open_link"]
    assert ", ".join(f"${number}" for number in numbered) in of_postgres["open_link"]


def test_nothing_is_left_to_be_written_out():
    for dialect in ("sqlite", "postgres"):
        for file in ("queries", "recorded"):
            said = " ".join(read_queries(dialect, file).values())
            assert not re.findall(r"\{(?:[a-z]+\.|\d+:)?[a-z]+\}", said)


def test_a_new_field_of_a_link_is_a_column_of_every_statement():
    """A column costs a field and a migration for each backend; no statement names it again."""
    assert {*COLUMNS["link"]} < {each.name for each in fields(Link)}
    own = {*COLUMNS["link"]} - {"seq", "upstream_session_id", "agent", "opened_at_ms"}
    named = {(path.name, name) for path in FILES for name in own if name in path.read_text()}
    assert named == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_columns_that_a_value_says_are_not_listed_again(path: Path):
    text = " ".join(path.read_text().split())
    for value, names in COLUMNS.items():
        listed = r",\s(?:[a-z]\.)?".join(names)
        assert not re.search(listed, text), f"{path.name}: write {{{value}}}"
