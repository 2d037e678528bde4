"""What the turn costs that figures are given for, in things that can be counted."""

from __future__ import annotations

import itertools

import pytest
from tests.support.default_turn import (
    CHARACTERS,
    MESSAGES,
    commits_of,
    open_place,
    prepare_turn,
    record_turn,
)
from tests.support.sqlite_faults import faulty_file_system

from upthread.core.types import Durability
from upthread.store.sqlite import SqliteStore

TURNS = 40
STATEMENTS_MAX = 27  # 5 commits: 10; 2 for `synchronous`; 15 for writes
LOG_BYTES_MAX = 116_000  # 27 pages of 4 kB
TEXT_BYTES = sum(CHARACTERS)


@pytest.fixture
def disk():
    with faulty_file_system() as disk:
        yield disk


@pytest.fixture
def store(tmp_path, disk):
    store = SqliteStore(tmp_path / "store.db", vfs=disk.name)
    yield store
    store.close()


def test_it_is_five_commits_of_which_the_last_is_synced(store):
    place = open_place(store, "spec-42")
    commits = [
        max(write.durability for write in writes)
        for writes in commits_of(place, prepare_turn(place, 1))
    ]
    assert commits == [Durability.PROCESS] * 4 + [Durability.SYNCED]


def test_it_is_six_messages_of_eight_parts(store):
    place = open_place(store, "spec-42")
    record_turn(store, place, prepare_turn(place, 1))
    record_turn(store, place, prepare_turn(place, 2))
    conversation_id = place.conversation.conversation_id
    messages = store.messages(conversation_id)
    assert len(messages) == 2 * MESSAGES == place.next_seq - 1
    assert [len(message.parts) for message in messages] == [1, 2, 1, 2, 1, 1] * 2
    assert store.verify(conversation_id) is None


def test_a_turn_costs_one_sync_whatever_came_before(store, disk):
    place = open_place(store, "spec-42")
    store.database.connection.pragma("wal_autocheckpoint", 0)
    for number in range(TURNS):
        before = disk.log_syncs
        record_turn(store, place, prepare_turn(place, number))
        assert disk.log_syncs - before == 1


def test_a_turn_writes_so_many_bytes_whatever_came_before(store, disk):
    place = open_place(store, "spec-42")
    store.database.connection.pragma("wal_autocheckpoint", 0)
    written = []
    for number in range(TURNS):
        before = disk.written_bytes
        record_turn(store, place, prepare_turn(place, number))
        written.append(disk.written_bytes - before)
    half = TURNS // 2
    assert sum(written) / TURNS < LOG_BYTES_MAX
    assert sum(written[half:]) < 1.1 * sum(written[:half])


def test_the_database_grows_by_little_more_than_the_text(store):
    place = open_place(store, "spec-42")
    record_turn(store, place, prepare_turn(place, 0))
    before = store.database.connection.pragma("page_count")
    for number in range(1, TURNS + 1):
        record_turn(store, place, prepare_turn(place, number))
    grown = (store.database.connection.pragma("page_count") - before) * 4096
    # Whole pages: raw rows of the same text take 1.3, and a seal is 32 bytes a row.
    assert grown < 1.41 * TURNS * TEXT_BYTES


def test_a_turn_takes_so_many_statements_whatever_came_before(store):
    place = open_place(store, "spec-42")
    counts = []
    for number in range(TURNS):
        statements = []
        store.database.connection.set_exec_trace(
            lambda _cursor, statement, _bindings, found=statements: found.append(statement) or True
        )
        record_turn(store, place, prepare_turn(place, number))
        counts.append(len(statements))
    assert max(counts[1:]) <= STATEMENTS_MAX
    assert len(set(counts[1:])) == 1


def test_a_turn_takes_so_many_steps_of_the_engine_whatever_came_before(store):
    """A statement that looks at all that is there is still one statement."""
    place = open_place(store, "spec-42")
    steps = []
    for number in range(1_000):
        count = itertools.count()
        if number in {3, 999}:
            store.database.connection.set_progress_handler(lambda count=count: next(count) < 0, 1)
        record_turn(store, place, prepare_turn(place, number))
        store.database.connection.set_progress_handler(None)
        steps.append(next(count))
    assert steps[3] > 100
    assert steps[999] < 1.05 * steps[3]


def test_to_read_a_long_conversation_takes_few_statements(store, tmp_path):
    place = open_place(store, "spec-42")
    for number in range(TURNS):
        record_turn(store, place, prepare_turn(place, number))
    again = SqliteStore(tmp_path / "store.db")
    statements = []
    again.database.connection.set_exec_trace(
        lambda _cursor, statement, _bindings: statements.append(statement) or True
    )
    assert len(again.messages(place.conversation.conversation_id)) == TURNS * MESSAGES
    # Its row, its parts, the names of its turns and of its upstream session.
    assert len(statements) == 4
    again.close()
