"""The costs of the measured turn, counted: syncs, statements, bytes, steps of the engine."""

import itertools

import pytest
from tests.support.default_turn import MESSAGES, commits_of, open_place, prepare_turn, record_turn
from tests.support.sets import EXTENDED
from tests.support.sqlite_faults import faulty_file_system, statements_of

from upthread.core.commands import OpenLink
from upthread.core.types import Durability
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples

TURNS = 40
LOG_BYTES_MAX = 73_000  # 35 pages of 2 kB


@pytest.fixture
def disk():
    with faulty_file_system() as disk:
        yield disk


@pytest.fixture
def store(tmp_path, disk):
    store = SqliteStore(tmp_path / "store.db", vfs=disk.name)
    yield store
    store.close()


@pytest.fixture
def place(store):
    return open_place(store, "spec-42")


def assert_reads_indexes_alone(store, statement, values, *, scan="SCAN"):
    plan = store.database.connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
    assert not [row for row in plan if scan in row[3] or "TEMP B-TREE" in row[3]], plan


def record_turns(store, place, numbers):
    for number in numbers:
        record_turn(store, place, prepare_turn(place, number))


def test_a_turn_is_five_commits_of_which_the_last_is_synced(place):
    commits = [
        max(write.durability for write in writes)
        for writes in commits_of(place, prepare_turn(place, 1))
    ]
    assert commits == [Durability.PROCESS] * 4 + [Durability.SYNCED]


def test_a_turn_is_six_messages_of_eight_parts(store, place):
    record_turns(store, place, (1, 2))
    conversation_id = place.conversation.conversation_id
    messages = store.messages(conversation_id)
    assert len(messages) == 2 * MESSAGES == place.next_seq - 1
    assert [len(message.parts) for message in messages] == [1, 2, 1, 2, 1, 1] * 2
    assert store.verify(conversation_id) is None


@EXTENDED
def test_a_turn_costs_one_sync_and_so_many_bytes_whatever_came_before(store, place, disk):
    store.database.connection.pragma("wal_autocheckpoint", 0)
    written = []
    for number in range(TURNS):
        before = disk.written_bytes, disk.log_syncs
        record_turn(store, place, prepare_turn(place, number))
        written.append(disk.written_bytes - before[0])
        assert disk.log_syncs - before[1] == 1
    half = TURNS // 2
    assert sum(written) / TURNS < LOG_BYTES_MAX
    assert sum(written[half:]) < 1.1 * sum(written[:half])


def test_a_synced_batch_that_was_there_already_is_synced_again(store, place, disk):
    """Its writer may have died between writing and syncing."""
    batches = list(commits_of(place, prepare_turn(place, 1)))
    for batch in batches:
        store.commit(batch)
    before = disk.log_syncs
    store.commit(batches[-1])
    assert disk.log_syncs - before == 1
    store.commit(batches[0])
    assert disk.log_syncs - before == 1


def test_a_new_link_is_synced_at_once(store, disk):
    store.commit(samples.home())
    before = disk.log_syncs
    store.commit([OpenLink(link=samples.link(2, "ses_b"))])
    assert disk.log_syncs - before == 1


@pytest.mark.parametrize("turns", [100, pytest.param(1_000, marks=EXTENDED)])
def test_a_turn_takes_so_many_steps_of_the_engine_whatever_came_before(store, place, turns):
    """A statement that looks at all rows is still one statement."""
    steps = []
    record_turns(store, place, range(3))
    for numbers in (range(3, turns - 1), range(turns - 1, turns)):
        first, *rest = numbers
        count = itertools.count()
        store.database.connection.set_progress_handler(lambda count=count: next(count) < 0, 1)
        record_turns(store, place, [first])
        store.database.connection.set_progress_handler(None)
        steps.append(next(count))
        record_turns(store, place, rest)
    assert steps[0] > 100
    assert steps[1] < 1.05 * steps[0]


def test_resolve_is_one_statement_on_indexes_alone(store, place):
    with statements_of(store) as statements:
        assert store.resolve(place.conversation.key) is not None
    (statement,) = statements
    assert_reads_indexes_alone(store, statement, ("",))


def test_prior_context_is_two_statements_on_indexes_alone(store, place):
    record_turns(store, place, range(30))
    conversation_id, session = place.conversation.conversation_id, place.link.upstream_session_id
    with statements_of(store) as statements:
        found = store.prior_messages(conversation_id, upstream_session_ids=[session], newest=20)
    assert len(found) == 20 * 4
    _head, entries = statements
    assert_reads_indexes_alone(store, entries, (1, 0, 2**31, 82))
