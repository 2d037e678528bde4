"""Damage: a changed, missing or unreadable row is an error with a place, never a skipped row."""

from __future__ import annotations

import psycopg
import pytest

from upthread.core.types import ErasedPart, Speaker, TextPart, ToolCallPart
from upthread.errors import StoreError
from upthread.store._rules import digest_of
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

MESSAGES = 12


@pytest.fixture
def damaged(store, address):
    """Twelve messages of two parts, and a way to change what is stored of them."""
    store.commit(samples.home())
    for seq in range(1, MESSAGES + 1):
        call = ToolCallPart(
            call_id=f"call-{seq}", title="t", tool_kind="read", arguments={"n": seq}
        )
        # One in three is too large for its row, and kept beside it.
        text = TextPart(text=f"<mark-{seq}>" + "x" * (9_000 if seq % 3 == 0 else 10))
        store.commit([samples.said(seq, text, call, speaker=Speaker.ASSISTANT)])
    assert store.verify(CONVERSATION) is None

    def change(statement, *values: object):
        with psycopg.connect(address) as connection:
            assert connection.execute(statement, values).rowcount > 0

    return store, change


@pytest.mark.parametrize("seq", range(1, MESSAGES + 1))
def test_one_flipped_bit_in_a_part_is_found(damaged, seq):
    store, change = damaged
    change(
        "UPDATE upthread.part SET content = set_bit(content, 20, 1 - get_bit(content, 20))"
        " WHERE message_seq = %s AND ordinal = %s",
        seq,
        seq % 2,
    )
    assert store.verify(CONVERSATION) == seq


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("speaker", b"user"),
        ("turn_id", b"trn_other"),
        ("upstream_session_id", None),
        ("recorded_at_ms", 1),
        ("kind", b"reasoning"),
        ("call_id", b"other"),
        ("chain", b"\0" * 32),
        ("content", None),
        ("conversation_id", b"con_other"),
    ],
)
def test_a_change_of_any_column_is_found(damaged, column, value):
    store, change = damaged
    change(
        f"UPDATE upthread.part SET {column} = %s WHERE message_seq = 5 AND ordinal = 0".encode(),
        value,
    )
    assert store.verify(CONVERSATION) == 5


def test_two_messages_that_changed_places_are_found(damaged):
    store, change = damaged
    for old, new in ((5, 99), (6, 5), (99, 6)):
        change("UPDATE upthread.part SET message_seq = %s WHERE message_seq = %s", new, old)
    assert store.verify(CONVERSATION) == 5


def test_a_missing_message_is_found_and_not_skipped(damaged):
    store, change = damaged
    change("DELETE FROM upthread.part WHERE message_seq = 5")
    assert store.verify(CONVERSATION) == 5
    for limits in ({}, {"after_seq": 4}, {"newest": 10}):
        with pytest.raises(StoreError, match=f"of {CONVERSATION} is damaged"):
            store.messages(CONVERSATION, **limits)
    assert len(store.messages(CONVERSATION, newest=MESSAGES - 5)) == MESSAGES - 5


def test_a_missing_part_is_found_and_not_skipped(damaged):
    store, change = damaged
    change("DELETE FROM upthread.part WHERE message_seq = 5 AND ordinal = 0")
    assert store.verify(CONVERSATION) == 5
    with pytest.raises(StoreError, match=f"message 5 of {CONVERSATION} is damaged"):
        store.messages(CONVERSATION)


@pytest.mark.parametrize(
    ("column", "value"), [("content", b"\xff{"), ("turn_id", b"\xff"), ("speaker", b"nobody")]
)
def test_a_row_that_cannot_be_read_is_an_error_that_names_the_message(damaged, column, value):
    store, change = damaged
    change(f"UPDATE upthread.part SET {column} = %s WHERE message_seq = 5".encode(), value)
    with pytest.raises(StoreError, match=f"message 5 of {CONVERSATION} is damaged") as caught:
        store.messages(CONVERSATION)
    assert "doctor" in caught.value.hint


def test_what_was_said_is_not_read_from_a_row_that_cannot_be_read(damaged):
    store, change = damaged
    change("UPDATE upthread.part SET speaker = 'user', turn_id = %s WHERE message_seq = 5", b"\xff")
    with pytest.raises(StoreError, match=f"message 5 of {CONVERSATION} is damaged"):
        store.prior_messages(CONVERSATION, upstream_session_ids=("ses_a",), newest=20)


def test_an_erased_part_leaves_its_digest_and_still_verifies(damaged, address):
    store, change = damaged
    with psycopg.connect(address) as connection:
        ((content,),) = connection.execute(
            "SELECT content FROM upthread.part WHERE message_seq = 5 AND ordinal = 1"
        ).fetchall()
    change(
        "UPDATE upthread.part SET content = NULL, digest = %s"
        " WHERE message_seq = 5 AND ordinal = 1",
        digest_of(content),
    )
    assert store.verify(CONVERSATION) is None
    message = store.message(CONVERSATION, 5)
    assert message is not None
    assert message.parts[1] == ErasedPart(kind="tool_call", call_id="call-5")
    change("UPDATE upthread.part SET digest = %s WHERE message_seq = 5", b"\1" * 32)
    assert store.verify(CONVERSATION) == 5


def test_an_event_of_an_unknown_kind_is_an_error(store, address):
    store.commit([*samples.home(), samples.happened(1)])
    with psycopg.connect(address) as connection:
        connection.execute("UPDATE upthread.turn_event SET kind = 'hologram_shown', seal = NULL")
    with pytest.raises(StoreError, match="hologram_shown"):
        store.turn_events(samples.TURN)


def test_of_a_long_conversation_only_what_is_needed_is_read(store, monkeypatch):
    store.commit(samples.home())
    store.commit([samples.said(seq) for seq in range(1, 5_001)])
    read = []
    whole = type(store)._read

    def counted(self, query, *values: object):
        rows = whole(self, query, *values)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(type(store), "_read", counted)
    found = store.prior_messages(CONVERSATION, upstream_session_ids=("ses_a",), newest=20)
    assert [message.seq for message in found] == list(range(4_981, 5_001))
    assert sum(read) <= 100
