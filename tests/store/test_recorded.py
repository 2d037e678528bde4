"""A store read whole: whatever backend it comes from and goes to, no table is left behind."""

from __future__ import annotations

import itertools

import psycopg
import pytest
from tests.support.dumps import NOT_MOVED, dump
from tests.support.postgres_server import migrated_database_at
from tests.support.sets import spread
from tests.support.shipped_stores import SHIPPED_STORES, SQLITE

from upthread.store import base
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance.copies import everything, recorded_in
from upthread.testing.store_conformance.samples import PROJECT

SECTIONS = {*base.PROJECT_SECTIONS, *base.CONVERSATION_SECTIONS}

TABLE_OF_SECTION = {"project": "project_identity", "once": "once_event"}
"""Where a section has another name than its table."""

NOT_MOVED_ON_POSTGRES = {
    **NOT_MOVED,
    "worker": "the workers of one database",
    "job_queue_migration": "the job queue's schema",
}


WAYS = list(itertools.product(SHIPPED_STORES, repeat=2))


@pytest.mark.parametrize("way", spread(WAYS, name=lambda way: f"{way[0].name} to {way[1].name}"))
def test_what_one_backend_holds_every_other_one_holds_as_well(way, tmp_path):
    source, target = way
    first, second = source.make(tmp_path / "first.db"), target.make(tmp_path / "second.db")
    first.commit(everything())
    second.commit(recorded_in(first, PROJECT))
    one, other = (list(map(repr, recorded_in(each, PROJECT))) for each in (first, second))
    assert one == other
    first.close()
    second.close()


def test_a_table_that_has_no_section_is_found(tmp_path):
    """Whoever adds a table says here why it is not moved, or gives it a section."""
    store = SqliteStore(tmp_path / "store.db")
    query = "SELECT name FROM sqlite_schema WHERE type = 'table'"
    of_sqlite = {name for (name,) in store.database.rows(query)}
    store.close()
    with psycopg.connect(migrated_database_at(tmp_path)) as connection:
        found = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'upthread'"
        ).fetchall()
    of_postgres = {name for (name,) in found if not name.startswith("procrastinate_")}
    moved = {TABLE_OF_SECTION.get(section, section) for section in SECTIONS}
    assert of_sqlite == moved | NOT_MOVED.keys()
    assert of_postgres == (moved | NOT_MOVED_ON_POSTGRES.keys()) - {"upstream", "sync_mark"}


def test_a_column_that_is_not_moved_is_found(tmp_path):
    """Each column of each table that is moved differs from its default in what is moved here."""
    store = SQLITE.make(tmp_path / "store.db")
    store.commit(everything())
    for table in dump(tmp_path / "store.db"):
        columns = store.database.rows(f"PRAGMA table_info({table})")
        for _, name, _, _, default, _ in columns:
            query = f"SELECT count(*) FROM {table} WHERE {name} IS NOT ?"
            ((written,),) = store.database.rows(query, (default,))
            assert written, f"{table}.{name} has nothing in it: let everything() write it"
    store.close()
