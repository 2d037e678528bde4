"""One connection: opening, versions, and what is left when writing fails."""

from __future__ import annotations

import re
from contextlib import closing

import apsw
import pytest
from tests.support.sets import EXTENDED, SOAK
from tests.support.shipped_stores import disk_full
from tests.support.sqlite_faults import faulty_file_system
from upthread.store.sql.statements import read_migrations

from upthread.core.types import Durability, TextPart
from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.database import check_engine
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

KNOWN = len(read_migrations("sqlite"))
BIG = TextPart(text="x" * 20_000)


def raw(path):
    return apsw.Connection(str(path))


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7.17"])
def test_an_engine_that_can_corrupt_is_refused(version):
    with pytest.raises(StoreError, match=f"SQLite {version} is too old"):
        check_engine(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "4.0.0"])
def test_an_engine_without_the_bug_is_accepted(version):
    check_engine(version)


def test_every_setting_is_in_force(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    settings = {
        "journal_mode": "wal",
        "page_size": 4096,
        "journal_size_limit": 16 * 1024 * 1024,
        "cache_size": -8 * 1024,
        "temp_store": 2,
        "trusted_schema": 0,
    }
    assert {name: store.database.connection.pragma(name) for name in settings} == settings
    store.close()


def test_who_had_it_open_writes_nothing_into_the_schema_of_a_newer_version(tmp_path):
    """What it wrote would have another seal than the newer version looks for: damage by us."""
    path = tmp_path / "store.db"
    with closing(SqliteStore(path)) as store:
        connection = raw(path)
        connection.execute(f"PRAGMA user_version = {KNOWN + 1}")
        connection.close()
        before = raw(path).execute("SELECT count(*) FROM workstream").fetchone()
        for _ in range(2):
            with pytest.raises(StoreError, match=f"schema {KNOWN + 1}, this version knows {KNOWN}"):
                store.commit(samples.home())
        assert raw(path).execute("SELECT count(*) FROM workstream").fetchone() == before
        connection = raw(path)
        connection.execute(f"PRAGMA user_version = {KNOWN}")
        connection.close()
        store.commit(samples.home())


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE schema_migration SET checksum = 'other'",
        # As in the oldest versions: our second migration would fail on a table that is missing.
        (
            "DELETE FROM schema_migration WHERE version > 1; DROP TABLE turn;"
            "UPDATE schema_migration SET checksum = 'other'; PRAGMA user_version = 1"
        ),
        "DROP TABLE schema_migration",
    ],
)
def test_a_schema_made_by_other_migrations_is_refused_and_stays_as_it_is(tmp_path, change):
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    connection = raw(path)
    connection.execute(change)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="other migrations"):
        SqliteStore(path)
    assert path.read_bytes() == before


def as_of(path, version):
    """A database as the version with so many migrations left it, with a conversation in it."""
    SqliteStore(path).close()
    connection = raw(path)
    views = connection.execute("SELECT name FROM sqlite_schema WHERE type='view'").fetchall()
    for (view,) in views:
        connection.execute(f"DROP VIEW {view}")
    added = "examined", "briefing_edit", "act"
    for table in added:
        connection.execute(f"DROP TABLE {table}")
    for table in {view.partition("_")[2] for (view,) in views}.difference(added):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN seal")
    connection.execute("ALTER TABLE part DROP COLUMN erased_bytes")
    connection.execute("DROP INDEX transition_due")
    connection.execute("ALTER TABLE transition DROP COLUMN is_settled")
    connection.execute("ALTER TABLE project_identity DROP COLUMN owner")
    connection.execute("ALTER TABLE lease DROP COLUMN call")
    connection.execute("DELETE FROM schema_migration WHERE version > ?", (version,))
    connection.execute(f"PRAGMA user_version={version}")
    made = "".join(step.script for step in read_migrations("sqlite")[:version])
    expected = set(re.findall(r"^CREATE TABLE (\w+)", made, re.MULTILINE))
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type='table'")
    assert {name for (name,) in tables} == expected
    connection.execute("INSERT INTO workstream VALUES (1, 'prj_old', 'spec-1', 'Lyra', 5)")
    connection.close()


@EXTENDED
def test_a_database_of_the_first_schema_is_moved_on_with_all_it_holds(tmp_path):
    path = tmp_path / "store.db"
    as_of(path, 1)
    store = SqliteStore(path)
    assert [each.base_name for each in store.workstreams("prj_old")] == ["Lyra"]
    store.commit(samples.home())
    seals = store.database.connection.execute("SELECT seal FROM workstream").fetchall()
    assert [len(seal) for (seal,) in seals] == [32, 32], "what was there is sealed, too"
    assert store.examined(CONVERSATION) == ()
    assert store.briefing_edit(CONVERSATION) is None
    assert store.database.connection.pragma("user_version") == KNOWN
    store.close()
    SqliteStore(path).close()  # its checksums are those of this version


@EXTENDED
def test_an_upgrade_that_fails_leaves_the_database_as_it_was(tmp_path):
    path = tmp_path / "store.db"
    as_of(path, 1)
    connection = raw(path)
    connection.execute("CREATE TABLE examined (in_the_way)")
    connection.close()
    with pytest.raises(StoreError, match="already exists"):
        SqliteStore(path)
    connection = raw(path)
    assert connection.pragma("user_version") == 1
    connection.execute("DROP TABLE examined")
    connection.close()
    SqliteStore(path).close()


def test_a_full_disk_is_an_error_that_says_so(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    store.commit([*samples.home(), samples.said(1)])
    with disk_full(store), pytest.raises(StoreError, match="full") as caught:
        store.commit([samples.said(2, BIG)])
    assert "free some space" in caught.value.hint
    assert store.message_count(CONVERSATION) == 1
    store.commit([samples.said(2, BIG)])
    assert store.verify(CONVERSATION).damaged_seq is None
    store.close()


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("durability", Durability)
def test_an_io_error_at_any_operation_loses_nothing_acknowledged(tmp_path, operation, durability):
    path = tmp_path / "store.db"
    failures: list[StoreError] = []
    with faulty_file_system() as disk:
        store = SqliteStore(path, vfs=disk.name)
        store.commit([*samples.home(), samples.said(1)])
        for operations_left in range(100):
            last = store.message_count(CONVERSATION)
            disk.failing, disk.operations_left = frozenset({operation}), operations_left
            try:
                store.commit([samples.said(last + 1, BIG, durability=durability)])
            except StoreError as error:
                failures.append(error)
                disk.failing = frozenset()
                assert store.message_count(CONVERSATION) == last
                assert store.verify(CONVERSATION).damaged_seq is None
            else:
                disk.failing = frozenset()
                assert store.message_count(CONVERSATION) == last + 1
                break
        else:
            pytest.fail("no commit ever succeeded")
        store.commit([samples.said(store.message_count(CONVERSATION) + 1)])
        expected = store.messages(CONVERSATION)
        store.close()
    assert all("injected" in error.message and error.hint for error in failures)
    assert failures or (operation, durability) == ("sync", Durability.PROCESS)
    reopened = SqliteStore(path)
    assert reopened.messages(CONVERSATION) == expected
    assert reopened.verify(CONVERSATION).damaged_seq is None
    reopened.close()
    assert raw(path).pragma("integrity_check") == "ok"


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=SOAK)])
def test_an_io_error_while_opening_leaves_a_store_that_opens_later(tmp_path, step):
    with faulty_file_system() as disk:
        for operations_left in range(0, 200, step):
            path = tmp_path / f"store-{operations_left}.db"
            disk.failing = frozenset({"write", "sync"})
            disk.operations_left = operations_left
            try:
                SqliteStore(path, vfs=disk.name).close()
            except StoreError:
                disk.failing = frozenset()
                store = SqliteStore(path)
                store.commit(samples.home())
                store.close()
            else:
                disk.failing = frozenset()
                assert operations_left > 3
                return
    pytest.fail("no opening ever succeeded")


def test_a_writer_that_never_ends_is_named_as_the_cause(tmp_path):
    path = tmp_path / "store.db"
    store = SqliteStore(path, busy_timeout_s=0.05)
    other = raw(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as caught:
        store.commit(samples.home())
    assert "another process holds the database" in caught.value.hint
    other.execute("ROLLBACK")
    store.commit(samples.home())
    other.close()
    store.close()


def test_a_closed_store_says_so(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    store.close()
    for call in (
        lambda: store.resolve(samples.KEY),
        lambda: store.messages(CONVERSATION),
        lambda: store.verify(CONVERSATION),
        lambda: store.acquire_lease("x", samples.HOLDER),
    ):
        with pytest.raises(StoreError, match="closed") as caught:
            call()
        assert "open it again" in caught.value.hint
