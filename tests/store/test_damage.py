"""A changed, missing or unreadable row is an error that names the row. No read skips the row."""

from __future__ import annotations

from contextlib import closing

import apsw
import psycopg
import pytest
from tests.support.postgres_server import database_at, drop_database_at
from tests.support.sets import spread
from tests.support.shipped_stores import POSTGRES, SQLITE

from upthread.core.types import Speaker, TextPart, ToolCallPart
from upthread.errors import StoreError
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

MESSAGES = 12
PRIOR = {"upstream_session_ids": ("ses_a",), "newest": 20}


class Record:
    """A conversation of twelve messages with two parts each, and raw access to its rows.

    Statements are written for SQLite: `part` is a table, `?` a value.
    """

    def __init__(self, backend, place) -> None:
        self.backend, self.place = backend, place
        self.is_sqlite = backend is SQLITE
        with closing(backend.make(place)) as store:
            store.commit(samples.home())
            store.commit([_message(seq) for seq in range(1, MESSAGES + 1)])

    def rows(self, statement, *values: object):
        if self.is_sqlite:
            connection = apsw.Connection(str(self.place))
            connection.execute("PRAGMA foreign_keys=OFF")
            rows = connection.execute(statement, values).fetchall()
            connection.close()
            return rows
        statement = statement.replace("?", "%s").replace("part ", "upthread.part ", 1)
        with psycopg.connect(database_at(self.place)) as connection:
            cursor = connection.execute(statement.replace(" turn ", " turn_id "), values)
            return cursor.fetchall() if cursor.description else []

    def change(self, assignment, *values: object, where="message_seq = 5 AND ordinal = 0"):
        rows = self.rows(f"UPDATE part SET {assignment} WHERE {where} RETURNING 1", *values)
        assert rows, "nothing was changed"

    def ask(self, question):
        with closing(self.backend.make(self.place)) as store:
            return question(store)

    def verify(self):
        return self.ask(lambda store: store.verify(CONVERSATION).damaged_seq)

    def messages(self, **limits):
        return self.ask(lambda store: store.messages(CONVERSATION, **limits))


def _message(seq):
    call = ToolCallPart(call_id=f"call-{seq}", title="t", tool_kind="read", arguments={"n": seq})
    # Every third message is too large for one page.
    text = TextPart(text=f"<mark-{seq:03}>" + "x" * (9_000 if seq % 3 == 0 else 10))
    return samples.said(seq, text, call, speaker=Speaker.ASSISTANT)


@pytest.fixture(params=[SQLITE, POSTGRES], ids=lambda backend: backend.name)
def record(request, tmp_path):
    yield Record(request.param, tmp_path / "store.db")
    if request.param is POSTGRES:
        drop_database_at(tmp_path / "store.db")


def flipped(content):
    """Return some bytes with one bit in their middle changed."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


PARTS = [(seq, ordinal) for seq in range(1, MESSAGES + 1) for ordinal in (0, 1)]


@pytest.mark.extended
@pytest.mark.parametrize("part", spread(PARTS, first=[(1, 0), (6, 0), (12, 1)], extended=12))
def test_one_flipped_bit_in_a_part_is_found(record, part):
    seq, ordinal = part
    where = f"message_seq = {seq} AND ordinal = {ordinal}"
    ((content,),) = record.rows(f"SELECT content FROM part WHERE {where}")
    record.change("content = ?", flipped(content), where=where)
    assert record.verify() == seq


@pytest.mark.soak
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("speaker", "user"),
        ("turn", "99"),
        ("upstream", None),
        ("recorded_at_ms", 1),
        ("kind", "reasoning"),
        ("call_id", "other"),
        ("chain", b"\0" * 32),
        ("content", None),
        ("content", "text where bytes should be"),
        ("conversation", "99"),
    ],
)
def test_a_change_of_any_column_is_found(record, column, value):
    if not record.is_sqlite:
        names = {"turn": "turn_id", "upstream": "upstream_session_id"}
        column = names.get(column, column).replace("conversation", "conversation_id")
        value = value.encode() if isinstance(value, str) else value
    record.change(f"{column} = ?", value)
    assert record.verify() == 5


@pytest.mark.extended
def test_a_message_that_was_moved_or_swapped_is_found(record):
    record.change("message_seq = 99", where="message_seq = 5")
    assert record.verify() == 5
    record.change("message_seq = 5", where="message_seq = 6")
    record.change("message_seq = 6", where="message_seq = 99")
    assert record.verify() == 5


@pytest.mark.extended
def test_a_missing_message_is_found_and_not_skipped(record):
    record.rows("DELETE FROM part WHERE message_seq = 5")
    assert record.verify() == 5
    for limits in ({}, {"after_seq": 4}, {"newest": 10}):
        with pytest.raises(StoreError, match=f"of {CONVERSATION} is damaged"):
            record.messages(**limits)
    assert len(record.messages(newest=MESSAGES - 5)) == MESSAGES - 5


def test_a_missing_part_is_found_and_not_skipped(record):
    record.rows("DELETE FROM part WHERE message_seq = 5 AND ordinal = 0")
    assert record.verify() == 5
    with pytest.raises(StoreError, match="damaged"):
        record.messages()


@pytest.mark.parametrize(
    ("column", "value"), [("content", b"\xff{"), ("turn", 99), ("speaker", b"nobody")]
)
def test_a_row_that_cannot_be_read_is_an_error_that_names_the_message(record, column, value):
    if record.is_sqlite:
        value = value.decode() if column == "speaker" else value
    elif column == "turn":
        column, value = "turn_id", b"\xff"
    record.change(f"{column} = ?", value, where="message_seq = 5")
    damaged = f"message .* of {CONVERSATION} is damaged"
    with pytest.raises(StoreError, match=damaged) as caught:
        record.messages()
    assert "doctor" in caught.value.hint
    if column != "speaker":  # prior context holds what users and assistants said
        with pytest.raises(StoreError, match=damaged):
            record.ask(lambda store: store.prior_messages(CONVERSATION, **PRIOR))
