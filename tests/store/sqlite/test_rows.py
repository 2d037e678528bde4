"""Damage that only a SQLite file can have, and what its reads cost and leave behind."""

import contextlib

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


def change(path, statement, bindings=()):
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.execute(statement, bindings)
    assert connection.changes() > 0
    connection.close()


def test_a_conversation_is_found_by_one_statement_and_read_by_another(path):
    store = SqliteStore(path)
    with statements_of(store) as statements:
        assert len(store.messages(CONVERSATION)) == 3
    assert len(list(filter(None, statements))) == 2
    store.close()


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=EXTENDED)])
def test_every_byte_of_an_event_is_covered(path, step):
    where = "WHERE kind = 'run_event' AND seq = 3"
    connection = apsw.Connection(str(path))
    ((kept,),) = connection.execute(f"SELECT kept FROM entry {where}").fetchall()
    connection.close()
    for place in range(0, len(kept), step):
        changed = kept[:place] + chr(ord(kept[place]) ^ 1) + kept[place + 1 :]
        change(path, f"UPDATE entry SET kept = ? {where}", (changed,))
        store = SqliteStore(path)
        with pytest.raises(StoreError, match="entry 3 of run run_one, run_event, is damaged") as it:
            store.run_events(samples.RUN)
        assert "upthread doctor" in it.value.hint
        store.close()


def test_text_that_is_no_text_any_more_is_damage(path):
    damage = "UPDATE entry SET kept = CAST(x'ff' AS TEXT) WHERE kind = 'act' AND at_ms = 2"
    change(path, damage)
    with contextlib.closing(SqliteStore(path)) as store, pytest.raises(StoreError, match="utf-8"):
        store.acts(CONVERSATION)


@pytest.mark.parametrize("row", ["99", "1"], ids=["nowhere", "another"])
def test_a_name_that_leads_elsewhere_is_damage(path, row):
    change(path, f"UPDATE tag SET stream = {row} WHERE tag GLOB 'key *' OR tag GLOB 'run *'")
    with contextlib.closing(SqliteStore(path)) as store:
        with pytest.raises(StoreError, match=r"damaged|was changed by something else"):
            store.resolve(samples.KEY)
        with pytest.raises(StoreError, match="damaged"):
            store.run(samples.RUN)
