"""Damage that only a SQLite file can have, and what its reads cost and leave behind."""

from __future__ import annotations

import contextlib
import re

import apsw
import pytest
from tests.support.sets import EXTENDED
from tests.support.sqlite_faults import statements_of

from upthread.core.commands import RecordAct
from upthread.errors import StoreError
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

NUMBERS = (1, 2, 3)


@pytest.fixture
def path(tmp_path):
    """A closed store with three messages, events of a turn and of a run, and audit entries."""
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.commit([*samples.home(), samples.run(), *map(samples.said, NUMBERS)])
    store.commit([*map(samples.moved, NUMBERS), *map(samples.happened, NUMBERS)])
    store.commit([act(number) for number in NUMBERS])
    store.close()
    return path


def act(number):
    return RecordAct(
        conversation_id=CONVERSATION, what="told", by_user="ada", recorded_at_ms=number
    )


def read_acts(path):
    store = SqliteStore(path)
    try:
        return store.acts(CONVERSATION)
    finally:
        store.close()


def change(path, statement, bindings=()):
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.execute(statement, bindings)
    assert connection.changes() > 0
    connection.close()


def test_names_are_looked_up_once_for_many_messages(path):
    store = SqliteStore(path)
    store.messages(CONVERSATION)
    with statements_of(store) as statements:
        assert len(store.messages(CONVERSATION)) == 3
        assert len(store.messages(CONVERSATION, newest=2)) == 2
    assert len(statements) == 2
    store.close()


def test_an_act_that_is_gone_from_between_others_is_missed(path):
    change(path, "DELETE FROM act WHERE recorded_at_ms = 2")
    with pytest.raises(StoreError, match=r"act 3 is damaged: .* stood before it is gone"):
        read_acts(path)


def test_a_row_that_an_older_version_wrote_has_no_seal_and_is_read(path):
    change(path, "UPDATE act SET seal = NULL")
    assert [each.recorded_at_ms for each in read_acts(path)] == [1, 2, 3]


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=EXTENDED)])
def test_every_byte_of_an_event_is_covered(path, step):
    connection = apsw.Connection(str(path))
    ((payload,),) = connection.execute("SELECT payload FROM run_event WHERE seq = 2").fetchall()
    connection.close()
    for place in range(0, len(payload), step):
        other = bytes([payload[place] ^ 1])
        changed = payload[:place] + other + payload[place + 1 :]
        change(path, "UPDATE run_event SET payload = ? WHERE seq = 2", (changed,))
        store = SqliteStore(path)
        with pytest.raises(StoreError, match="event 2 of run run_one is damaged") as caught:
            store.run_events(samples.RUN)
        assert "upthread doctor" in caught.value.hint
        store.close()


def test_text_that_is_no_text_any_more_is_damage(path):
    change(path, "UPDATE act SET by_user = CAST(x'ff' AS TEXT) WHERE recorded_at_ms = 2")
    with pytest.raises(StoreError, match="utf-8"):
        read_acts(path)


def test_a_row_that_no_index_leads_to_is_found_by_verifying(path):
    in_the_index = re.compile(rb"(?<!con_one)prj_onespec-42planne(?=r)")
    damaged, places = in_the_index.subn(b"prj_onespec-42plannf", path.read_bytes())
    assert places == 1
    path.write_bytes(damaged)
    with contextlib.closing(SqliteStore(path)) as store:
        assert store.resolve(samples.KEY) is None
        with pytest.raises(StoreError, match=r"is damaged: .*conversation_by_key"):
            store.verify(CONVERSATION)
