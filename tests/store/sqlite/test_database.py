"""One connection: opening, versions, and what is left when writing fails."""

import apsw
import pytest
from tests.support.sets import SOAK
from tests.support.shipped_stores import disk_full
from tests.support.sqlite_faults import faulty_file_system, statements_of

from upthread.core.types import Durability, Fence, TextPart
from upthread.errors import ConflictError, FencedError, StoreError
from upthread.store.sqlite import SqliteStore
from upthread.store.sqlite.database import check_engine
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

BIG = TextPart(text="x" * 20_000)


def raw(path):
    return apsw.Connection(str(path))


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7.17"])
def test_an_engine_that_can_corrupt_is_refused(version):
    with pytest.raises(StoreError, match=f"SQLite {version} is too old"):
        check_engine(version)
    for without_the_bug in ("3.51.3", "3.54.1", "4.0.0"):
        check_engine(without_the_bug)


def test_every_setting_is_in_force(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    settings = {
        "journal_mode": "wal",
        "page_size": 2048,
        "journal_size_limit": 16 * 1024 * 1024,
        "cache_size": -8 * 1024,
        "temp_store": 2,
        "trusted_schema": 0,
    }
    assert {name: store.database.connection.pragma(name) for name in settings} == settings
    store.close()


def test_a_database_of_tables_is_refused_with_the_cure_and_stays_as_it_is(tmp_path):
    path = tmp_path / "store.db"
    connection = raw(path)
    connection.execute("PRAGMA application_id = 0x75707468; PRAGMA user_version = 9;")
    connection.execute("CREATE TABLE turn (id INTEGER PRIMARY KEY)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="older version") as caught:
        SqliteStore(path)
    assert "tools/convert_database.py" in caught.value.hint
    assert path.read_bytes() == before


def test_a_full_disk_is_an_error_that_says_so(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    store.commit([*samples.home(), samples.said(1)])
    with disk_full(store), pytest.raises(StoreError, match="full") as caught:
        store.commit([samples.said(2, BIG)])
    assert "free some space" in caught.value.hint
    assert store.message_count(CONVERSATION) == 1
    store.commit([samples.said(2, BIG)])
    assert store.verify(CONVERSATION) is None
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
                assert store.verify(CONVERSATION) is None
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
    assert reopened.verify(CONVERSATION) is None
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


@pytest.fixture
def pair(tmp_path):
    """Two connections to one file, as two processes have them."""
    one, other = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    one.commit(samples.home())
    yield one, other
    one.close()
    other.close()


def leased(store):
    lease = store.acquire_lease("conversation", samples.HOLDER)
    return Fence(name=lease.name, token=lease.token)


def test_a_commit_after_one_of_its_own_asks_for_nothing(pair):
    one, _ = pair
    fence = leased(one)
    one.commit([samples.said(1)], fences=[fence])
    with statements_of(one) as statements:
        one.commit([samples.said(2)], fences=[fence])
    assert not [each for each in statements if each.startswith("SELECT")]


@pytest.mark.parametrize("giving", [0, 1], ids=["itself", "another"])
def test_a_lease_that_a_connection_gave_back_is_seen(pair, giving):
    one, _ = pair
    fence = leased(one)
    one.commit([samples.said(1)], fences=[fence])
    pair[giving].release_lease(fence)
    assert not giving or leased(pair[giving])
    with pytest.raises(FencedError):
        one.commit([samples.said(2)], fences=[fence])
    assert one.message_count(CONVERSATION) == 1


def test_what_a_commit_that_failed_has_said_is_forgotten(pair):
    one, _ = pair
    one.commit([samples.said(1)])
    with pytest.raises(ConflictError):
        one.commit([samples.said(2), samples.said(9)])
    one.commit([samples.said(2)])
    assert one.verify(CONVERSATION) is None
    assert one.message_count(CONVERSATION) == 2
