"""What a commit costs: answers waited for and statements are counted, not timed."""

from __future__ import annotations

import pytest
from tests.support.default_turn import open_place, prepare_turn, record_turn

from upthread.core.types import TextPart
from upthread.store.postgres import batch
from upthread.store.postgres.prepared import Prepared
from upthread.store.postgres.remembered import Memory
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION, HOLDER


@pytest.fixture
def counted(store, monkeypatch):
    """Statements sent and answers waited for, since the list was last cleared."""
    seen = []
    connection = store.server.run("read", lambda found: found)
    execute, send, exchange = connection.execute, Prepared._executed, batch.at_once

    def counting_execute(statement, given=None, **options):
        seen.append(first_word(bytes(statement)))
        return execute(statement, given, **options)

    def counting_send(self, statement, values):
        sent = send(self, statement, values)
        if sent is not None:  # else it goes through the connection
            seen.append(first_word(statement))
        return sent

    def counting_exchange(connection, statements):
        seen.extend(first_word(statement) for statement, _ in statements)
        if seen[-1] != "COMMIT":
            seen.append("wait")
        return exchange(connection, statements)

    monkeypatch.setattr(connection, "execute", counting_execute)
    monkeypatch.setattr(Prepared, "_executed", counting_send)
    monkeypatch.setattr(batch, "at_once", counting_exchange)
    return seen


def first_word(statement):
    return statement.split(b" ", 1)[0].decode()


@pytest.fixture
def forgetful(monkeypatch):
    """Every commit is as one of a process that has just begun."""
    monkeypatch.setattr(Memory, "put", lambda *_: None)


@pytest.mark.usefixtures("forgetful")
def test_one_part_costs_seven_statements_and_one_wait(store, counted):
    store.commit(samples.home())
    lease = store.acquire_lease("spec-42", HOLDER)
    counted.clear()
    store.commit([samples.said(1)], fences=[samples.fence(lease)])
    assert counted == [
        *("BEGIN", "SELECT", "SELECT", "SELECT", "SELECT", "wait"),  # lease, lock, tail, turn
        *("INSERT", "COMMIT"),
    ]


def test_a_turn_of_a_process_that_goes_on_is_one_statement_a_commit(store, counted):
    place = open_place(store, "spec-42")
    record_turn(store, place, prepare_turn(place, 1))
    counted.clear()
    record_turn(store, place, prepare_turn(place, 2))
    assert counted == ["WITH"] * 5


@pytest.mark.usefixtures("forgetful")
def test_much_is_sent_by_the_megabyte(store, counted):
    store.commit(samples.home())
    counted.clear()
    store.commit([samples.said(seq, TextPart(text="x" * 300_000)) for seq in range(1, 11)])
    four = [*["INSERT"] * 4, "wait"]
    assert counted[5:] == [*four, *four, "INSERT", "INSERT", "COMMIT"]
    assert store.message_count(CONVERSATION) == 10
