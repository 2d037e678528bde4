"""What a commit leaves behind saves the next one its questions, and is never believed unchecked.

The promises of the store port hold on this way as on the other: the conformance suite and the state
machine in tests/store go both.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.support.world import eventually

from upthread.core.commands import RecordAct
from upthread.core.types import TextPart
from upthread.errors import ConflictError, FencedError
from upthread.store.postgres import PostgresStore, remembered
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION, HOLDER, OTHER_HOLDER, TURN


@pytest.fixture
def ways(monkeypatch):
    """How each commit was made: "one", "looked up", or the error the server stopped it with."""
    seen = []
    commit = remembered.commit_as_remembered

    def noted(connection, known, steps, fences):
        try:
            seen.append("one" if commit(connection, known, steps, fences) else "looked up")
        except Exception as error:
            seen.append(type(error).__name__)
            raise
        return seen[-1] == "one"

    monkeypatch.setattr(remembered, "commit_as_remembered", noted)
    return seen


@pytest.fixture
def other(address):
    """Another process's store, as the server sees it."""
    store = PostgresStore(address)
    yield store
    store.close()


def text(words):
    return TextPart(text=words)


def test_what_follows_a_commit_of_the_same_process_is_one_statement(store, ways):
    store.commit(samples.home())
    store.commit([samples.said(1)])
    store.commit([samples.said(1, text("more"), first_ordinal=1), samples.happened(1)])
    store.commit([samples.turn("trn_two"), samples.said(2, turn_id="trn_two")])
    assert ways == ["looked up", "one", "one", "one"]
    assert store.verify(CONVERSATION).damaged_seq is None


@pytest.mark.extended
@pytest.mark.parametrize(
    "late",
    [
        pytest.param(samples.said(2, text("late")), id="the same place"),
        pytest.param(samples.said(1, text("late"), first_ordinal=1), id="a message before"),
    ],
)
def test_a_conversation_that_has_grown_elsewhere_is_looked_at_again(store, other, ways, late):
    store.commit([*samples.home(), samples.said(1)])
    other.commit([samples.said(2)])
    ways.clear()
    with pytest.raises(ConflictError):
        store.commit([late])
    assert ways == ["SerializationFailure", "looked up"]
    assert [message.text for message in store.messages(CONVERSATION)] == ["message 1", "message 2"]
    assert store.verify(CONVERSATION).damaged_seq is None
    store.commit([samples.said(3)])
    assert store.verify(CONVERSATION).damaged_seq is None


def test_what_another_process_wrote_already_is_the_same_again(store, other, ways):
    store.commit([*samples.home(), samples.said(1), samples.happened(1)])
    again = [samples.happened(2), samples.said(2)]
    other.commit(again)
    store.commit(again)
    store.commit(again)
    assert store.message_count(CONVERSATION) == 2
    assert len(store.turn_events(TURN)) == 2
    assert "SerializationFailure" in ways or "UniqueViolation" in ways


def test_a_turn_event_in_a_place_that_was_taken_elsewhere_is_a_conflict(store, other, ways):
    store.commit([*samples.home(), samples.happened(1)])
    other.commit([samples.happened(2)])
    ways.clear()
    with pytest.raises(ConflictError, match="event 2 of turn trn_one"):
        store.commit([samples.happened(2, samples.PromptSent(prompt_seq=9))])
    assert ways == ["UniqueViolation", "looked up"]


def test_a_lease_that_was_lost_keeps_the_batch_out(store, other, ways):
    store.commit([*samples.home(), samples.said(1)])
    lease = store.acquire_lease("spec-42", HOLDER)
    store.commit([samples.said(2)], fences=[samples.fence(lease)])
    other.acquire_lease("spec-42", OTHER_HOLDER, seen=lease)
    ways.clear()
    with pytest.raises(FencedError, match="'spec-42' is no longer held under token 1"):
        store.commit([samples.said(3)], fences=[samples.fence(lease)])
    assert ways == ["SerializationFailure", "looked up"]
    assert store.message_count(CONVERSATION) == 2


def test_who_waits_for_another_writer_sees_what_it_wrote_and_no_deadlock(store, address, ways):
    store.commit([*samples.home(), samples.said(1)])
    ways.clear()
    with psycopg.connect(address) as first, psycopg.connect(address, autocommit=True) as watch:
        first.execute("SET upthread.project = '*'")
        first.execute("SELECT 1 FROM upthread.conversation FOR NO KEY UPDATE")
        late = threading.Thread(target=store.commit, args=([samples.said(2)],))
        late.start()
        waiting = "SELECT FROM pg_locks WHERE NOT granted"
        eventually(lambda: watch.execute(waiting).fetchone() is not None)
        first.execute(
            "INSERT INTO upthread.part SELECT conversation_id, 2, 0, speaker, turn_id,"
            " upstream_session_id, recorded_at_ms, kind, call_id, sha256('x'), digest,"
            " convert_to(replace(convert_from(content, 'UTF8'), '1', '2'), 'UTF8')"
            " FROM upthread.part"
        )
        first.commit()
        late.join()
    assert ways == ["SerializationFailure", "looked up"], "and no DeadlockDetected"
    assert store.message_count(CONVERSATION) == 2


def test_what_nothing_would_stop_a_second_time_is_looked_up(store, ways):
    """An act by itself has no unique key; beside a turn's, it goes in or stays out with it."""
    act = RecordAct(
        conversation_id=CONVERSATION, what="told", by_user="kim", detail="d", recorded_at_ms=1
    )
    store.commit([*samples.home(), samples.said(1)])
    ways.clear()
    store.commit([act])
    store.commit([samples.turn("trn_two"), act])
    assert ways == ["looked up", "one"]
    assert len(store.acts(CONVERSATION)) == 1


@pytest.mark.extended
def test_many_writers_of_one_conversation_leave_one_chain(address):
    """Each believes to know its end, and most are wrong."""
    first = PostgresStore(address)
    first.commit([*samples.home(), samples.said(1)])
    written = []

    def write(name):
        store = PostgresStore(address)
        for number in range(20):
            seq = store.message_count(CONVERSATION) + 1
            with contextlib.suppress(ConflictError):
                store.commit([samples.said(seq, text(f"{name} {number}"))])
                written.append(f"{name} {number}")
                store.commit([samples.said(seq, text("more"), first_ordinal=1)])
        store.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, "abcd"))
    found = [message.parts[0].text for message in first.messages(CONVERSATION, after_seq=1)]
    assert sorted(found) == sorted(written)
    assert first.verify(CONVERSATION).damaged_seq is None
    first.close()


def test_what_waits_sees_what_was_written_whatever_the_database_says(address):
    name = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'"
        )
    store = PostgresStore(address)
    shown = store.server.run(
        "read", lambda found: found.execute(b"SHOW transaction_isolation").fetchone()
    )
    store.close()
    assert shown == ("read committed",)
