"""A changed, missing or unreadable row is an error that names the row. No read skips the row."""

from contextlib import closing
from hashlib import sha256

import apsw
import psycopg
import pytest
from tests.support.postgres_server import as_owner, database_at, drop_database_at
from tests.support.shipped_stores import POSTGRES, SQLITE

from upthread.core.types import Speaker, TextPart, ToolCallPart
from upthread.errors import StoreError
from upthread.store.postgres import migrate, schema
from upthread.store.sqlite import database
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION, PROJECT, WORKSTREAM

MESSAGES = 12
PRIOR = {"upstream_session_ids": ("ses_a",), "newest": 20}


class Record:
    """A conversation of twelve messages with two parts each, and raw access to its entries.

    Statements are written for both databases: `?` is a value.
    """

    def __init__(self, backend, place) -> None:
        self.backend, self.place = backend, place
        self.is_sqlite = backend is SQLITE
        with closing(backend.make(place)) as store:
            store.commit([*samples.home(), samples.run()])
            store.commit([_message(seq) for seq in range(1, MESSAGES + 1)])
            self.stream = store.head("conversation", CONVERSATION).row
            self.run = store.head("run", samples.RUN).row
            self.after = store.head("conversation", CONVERSATION).last - MESSAGES

    def rows(self, statement, *values: object):
        if self.is_sqlite:
            connection = apsw.Connection(str(self.place))
            rows = connection.execute(statement, values).fetchall()
            connection.close()
            return rows
        statement = statement.replace("?", "%s")
        with psycopg.connect(database_at(self.place)) as connection:
            connection.execute("SET search_path = upthread")
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def where(self, message):
        """Return the condition for the entry of a message."""
        return f"stream = {self.stream} AND seq = {self.after + message}"

    def change(self, assignment, *values: object, message=5):
        rows = self.rows(
            f"UPDATE entry SET {assignment} WHERE {self.where(message)} RETURNING 1", *values
        )
        assert rows, "nothing was changed"

    def ask(self, question):
        with closing(self.backend.make(self.place)) as store:
            return question(store)

    def verify(self):
        return self.ask(lambda store: store.verify(CONVERSATION))

    def damaged(self, *home: str):
        """Return the names of the streams that are not what was recorded."""
        return self.ask(lambda store: {each.name for each in store.proofs(*home) if each.damage})

    def messages(self, **limits):
        return self.ask(lambda store: store.messages(CONVERSATION, **limits))

    def column(self, value):
        """Return JSON as the backend has it."""
        return value.decode() if self.is_sqlite and isinstance(value, bytes) else value


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


@pytest.mark.soak
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kind", "done"),
        ("at_ms", 1),
        ("hash", b"\0" * 32),
        ("digest", b"\0" * 32),
        ("said", None),
        ("said", b'[{"type":"text","text":"forged"}]'),
        ("kept", b'{"seq":5,"speaker":"user","turn":"trn_one"}'),
        ("stream", 99),
        ("seq", 99),
    ],
)
def test_a_change_of_any_column_is_found(record, column, value):
    is_json = column in {"said", "kept"}
    record.change(f"{column} = ?", record.column(value) if is_json else value)
    assert record.verify() == 5


def test_forged_words_are_found_beside_a_digest_and_in_place_of_forgotten_words(record):
    ((said,),) = record.rows(f"SELECT said FROM entry WHERE {record.where(5)}")
    words = said.encode() if isinstance(said, str) else said
    forged = record.column(words.replace(b"mark", b"MARK"))
    record.change("digest = ?, said = ?", sha256(words).digest(), forged)
    assert record.verify() == 5
    record.change("said = NULL")
    assert record.verify() is None
    record.change("said = ?", forged)
    assert record.verify() == 5


OWN = 'workstream ["prj_one","spec-42"]'
TALK, RUN = f"conversation {CONVERSATION}", f"run {samples.RUN}"
IN, OWN_NAME, KEY = ("substr(tag, 1, 3) = 'in '", "substr(tag, 1, 5) = 'conve'", "nth = 1")
EDITS = {
    "DELETE FROM head WHERE kind = 'workstream'": {OWN},
    "UPDATE head SET project = 'x' WHERE kind = 'workstream'": {OWN},
    "DELETE FROM head WHERE id = {0}": {'conversation ["con_one"]'},
    f"DELETE FROM tag WHERE {IN}": {TALK, RUN},
    f"UPDATE tag SET stream = {{1}} WHERE stream = {{0}} AND {IN}": {TALK, RUN},
    f"DELETE FROM tag WHERE {OWN_NAME}": {TALK},
    f"UPDATE tag SET seq = 99 WHERE {OWN_NAME}": {TALK},
    f"UPDATE tag SET nth = 2 WHERE {KEY}": {TALK},
    "DELETE FROM tag WHERE stream = {1}; DELETE FROM head WHERE id = {1}": {"stream {1}"},
    "DELETE FROM entry WHERE stream = {1}": {RUN},
}


@pytest.mark.parametrize("edit", EDITS)
def test_every_stream_is_proved_whatever_leads_to_it(record, edit):
    assert record.damaged() == set()
    for statement in edit.format(record.stream, record.run).split(";"):
        record.rows(statement)
    names = {each.format(record.stream, record.run) for each in EDITS[edit]}
    assert (
        record.damaged() == record.damaged(PROJECT, WORKSTREAM) == record.damaged(PROJECT) == names
    )
    assert record.damaged(PROJECT, "another") == names & {f"stream {record.run}"}


def test_an_end_that_is_missing_is_found(record):
    record.rows(f"DELETE FROM entry WHERE {record.where(MESSAGES)}")
    assert record.verify() == MESSAGES
    with pytest.raises(StoreError, match=f"message {MESSAGES} of {CONVERSATION} is damaged"):
        record.messages()


@pytest.mark.parametrize(
    ("column", "value"),
    [("said", b"\xff{"), ("said", b"[{}]"), ("kept", b"{}"), ("kept", b'{"seq":5}')],
)
def test_an_entry_that_cannot_be_read_is_an_error_that_names_the_message(record, column, value):
    if record.is_sqlite and value == b"\xff{":
        value = b"{"
    record.change(f"{column} = ?", record.column(value))
    damaged = f"message 5 of {CONVERSATION} is damaged"
    with pytest.raises(StoreError, match=damaged) as caught:
        record.messages()
    assert "doctor" in caught.value.hint
    with pytest.raises(StoreError, match=r"damaged|is not what it should be"):
        record.ask(lambda store: store.prior_messages(CONVERSATION, **PRIOR))


def test_heads_of_an_older_version_are_folded_again(record, monkeypatch):
    before = record.ask(lambda store: store.heads(PROJECT, "conversation"))
    record.rows("UPDATE head SET state = '{}'")
    older = "PRAGMA user_version = 99" if record.is_sqlite else "UPDATE meta SET value = 99"
    record.rows(older)
    for module in (database, schema):
        monkeypatch.setattr(module, "LOG_VERSION", 1)
    if not record.is_sqlite:
        with pytest.raises(StoreError, match="upthread migrate"):
            record.damaged()
        assert migrate(as_owner(database_at(record.place))).schema_before == 99
    assert record.ask(lambda store: store.heads(PROJECT, "conversation")) == before
    assert record.damaged() == set()
    assert record.ask(lambda store: store.commit([_message(MESSAGES + 1)])) is None


def test_a_store_that_was_open_writes_nothing_into_a_newer_version(record):
    with closing(record.backend.make(record.place)) as store:
        store.commit([_message(MESSAGES + 1)])
        record.backend.mark_newer(record.place)
        for _ in range(2):
            with pytest.raises(StoreError, match="written by a newer upthread"):
                store.commit([_message(MESSAGES + 2)])
        assert store.message_count(CONVERSATION) == MESSAGES + 1
