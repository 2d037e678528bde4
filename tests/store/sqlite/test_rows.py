"""Damage: a changed, missing or unreadable row is an error with a place, never a skipped row."""

from __future__ import annotations

import contextlib
import re
import tracemalloc

import apsw
import pytest

from upthread.core.commands import RecordAct
from upthread.core.types import ErasedPart, Speaker, TextPart, ToolCallPart
from upthread.errors import StoreError
from upthread.store._rules import digest_of
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION

MESSAGES = 12


@pytest.fixture
def path(tmp_path):
    """A closed store with twelve messages of two parts, each with a mark of its own."""
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.commit(samples.home())
    for seq in range(1, MESSAGES + 1):
        call = ToolCallPart(
            call_id=f"call-{seq}",
            title=f"<mark-{seq:03}-1>",
            tool_kind="read",
            arguments={"n": seq},
        )
        # One in three is large enough for overflow pages.
        filler = "x" * (9_000 if seq % 3 == 0 else 10)
        said = TextPart(text=f"{filler}<mark-{seq:03}-0>")
        store.commit([samples.said(seq, said, call, speaker=Speaker.ASSISTANT)])
    assert store.verify(CONVERSATION) is None
    store.close()
    return path


def change(path, statement, bindings=()):
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.execute(statement, bindings)
    assert connection.changes() > 0
    connection.close()


def verify(path):
    store = SqliteStore(path)
    try:
        return store.verify(CONVERSATION)
    finally:
        store.close()


@pytest.mark.parametrize("seq", range(1, MESSAGES + 1))
@pytest.mark.parametrize("ordinal", [0, 1])
def test_one_flipped_bit_in_a_part_is_found(path, seq, ordinal):
    mark = f"<mark-{seq:03}-{ordinal}>".encode()
    flipped = mark.replace(b"m", b"i")  # one bit
    content = path.read_bytes()
    assert mark in content
    # SQLite leaves copies in free space when it moves a row: flip those, too.
    path.write_bytes(content.replace(mark, flipped))
    assert verify(path) == seq


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("speaker", "user"),
        ("turn", 99),
        ("upstream", None),
        ("recorded_at_ms", 1),
        ("kind", "reasoning"),
        ("call_id", "other"),
        ("chain", b"\0" * 32),
        ("content", None),
        ("content", "text where bytes should be"),
        ("conversation", 99),
    ],
)
def test_a_change_of_any_column_is_found(path, column, value):
    change(path, f"UPDATE part SET {column} = ? WHERE message_seq = 5 AND ordinal = 0", (value,))
    assert verify(path) == 5


@pytest.mark.parametrize("column", ["content", "kind", "call_id", "speaker"])
@pytest.mark.parametrize("value", ["text", b"bytes", 1, 1.5, None])
def test_a_value_of_another_type_is_read_as_what_it_is_or_is_said(path, column, value):
    """One bit of a row's header makes bytes a text, or a text bytes."""
    connection = apsw.Connection(str(path))
    statement = f"UPDATE OR IGNORE part SET {column} = ? WHERE message_seq = 5 AND ordinal = 0"
    with contextlib.suppress(apsw.ConstraintError):  # the schema forbids it
        connection.execute(statement, (value,))
    connection.close()
    store = SqliteStore(path)
    with contextlib.suppress(StoreError):
        store.messages(CONVERSATION)
    store.close()


def test_a_message_moved_elsewhere_is_found(path):
    change(path, "UPDATE part SET message_seq = 40 WHERE message_seq = 5")
    assert verify(path) == 5


def test_two_messages_that_changed_places_are_found(path):
    for old, new in ((5, 99), (6, 5), (99, 6)):
        change(path, "UPDATE part SET message_seq = ? WHERE message_seq = ?", (new, old))
    assert verify(path) == 5


def test_a_missing_message_is_found_and_not_skipped(path):
    change(path, "DELETE FROM part WHERE message_seq = 5")
    assert verify(path) == 5
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=f"of {CONVERSATION} is damaged"):
        store.messages(CONVERSATION)
    with pytest.raises(StoreError):
        store.messages(CONVERSATION, after_seq=4)
    with pytest.raises(StoreError):
        store.messages(CONVERSATION, newest=10)
    assert len(store.messages(CONVERSATION, newest=MESSAGES - 5)) == MESSAGES - 5
    store.close()


def test_a_missing_part_is_found_and_not_skipped(path):
    change(path, "DELETE FROM part WHERE message_seq = 5 AND ordinal = 0")
    assert verify(path) == 5
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="damaged"):
        store.messages(CONVERSATION)
    store.close()


@pytest.mark.parametrize(
    ("column", "value"), [("content", b"\xff{"), ("turn", 99), ("speaker", "nobody")]
)
def test_a_row_that_cannot_be_read_is_an_error_that_names_the_message(path, column, value):
    change(path, f"UPDATE part SET {column} = ? WHERE message_seq = 5", (value,))
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=f"message .* of {CONVERSATION} is damaged") as caught:
        store.messages(CONVERSATION)
    assert "doctor" in caught.value.hint
    store.close()


def test_an_erased_part_leaves_its_digest_and_still_verifies(path):
    connection = apsw.Connection(str(path))
    ((content,),) = connection.execute(
        "SELECT content FROM part WHERE message_seq = 5 AND ordinal = 1"
    ).fetchall()
    connection.close()
    change(
        path,
        "UPDATE part SET content = NULL, digest = ? WHERE message_seq = 5 AND ordinal = 1",
        (digest_of(content),),
    )
    assert verify(path) is None
    store = SqliteStore(path)
    message = store.message(CONVERSATION, 5)
    assert message is not None
    assert message.parts[1] == ErasedPart(kind="tool_call", call_id="call-5")
    change(path, "UPDATE part SET digest = ? WHERE message_seq = 5", (b"\1" * 32,))
    assert store.verify(CONVERSATION) == 5
    store.close()


def test_an_event_of_an_unknown_kind_is_an_error(path):
    store = SqliteStore(path)
    store.commit([samples.happened(1)])
    change(path, "UPDATE turn_event SET kind = 'hologram_shown', seal = NULL")
    with pytest.raises(StoreError, match="hologram_shown"):
        store.turn_events(samples.TURN)
    store.close()


def test_names_are_looked_up_once_for_many_messages(path):
    store = SqliteStore(path)
    store.messages(CONVERSATION)
    statements = []
    store.database.connection.set_exec_trace(
        lambda _cursor, statement, _bindings: statements.append(statement) or True
    )
    assert len(store.messages(CONVERSATION)) == MESSAGES
    assert len(store.messages(CONVERSATION, newest=3)) == 3
    assert len(statements) == 2
    store.close()


def events(path, count):
    store = SqliteStore(path)
    told = range(1, count + 1)
    store.commit([samples.run(), *(samples.moved(seq) for seq in told)])
    store.commit([samples.happened(seq) for seq in told])
    store.commit([act(number) for number in told])
    store.close()


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


def test_an_act_that_is_gone_from_between_others_is_missed(path):
    events(path, 3)
    change(path, "DELETE FROM act WHERE recorded_at_ms = 2")
    with pytest.raises(StoreError, match=r"act 3 is damaged: .* stood before it is gone"):
        read_acts(path)


def test_a_row_that_an_older_version_wrote_has_no_seal_and_is_read(path):
    events(path, 3)
    change(path, "UPDATE act SET seal = NULL")
    assert [each.recorded_at_ms for each in read_acts(path)] == [1, 2, 3]


def test_every_byte_of_an_event_is_covered(path):
    events(path, 3)
    connection = apsw.Connection(str(path))
    ((payload,),) = connection.execute("SELECT payload FROM run_event WHERE seq = 2").fetchall()
    connection.close()
    for place in range(len(payload)):
        other = bytes([payload[place] ^ 1])
        changed = payload[:place] + other + payload[place + 1 :]
        change(path, "UPDATE run_event SET payload = ? WHERE seq = 2", (changed,))
        store = SqliteStore(path)
        with pytest.raises(StoreError, match="event 2 of run run_one is damaged") as caught:
            store.run_events(samples.RUN)
        assert "upthread doctor" in caught.value.hint
        store.close()


def test_text_that_is_no_text_any_more_is_damage(path):
    events(path, 3)
    change(path, "UPDATE act SET by_user = CAST(x'ff' AS TEXT) WHERE recorded_at_ms = 2")
    with pytest.raises(StoreError, match="utf-8"):
        read_acts(path)


def test_a_row_that_no_index_leads_to_is_found_by_verifying(path):
    in_the_index = re.compile(rb"(?<!con_one)prj_onespec-42planne(?=r)")
    damaged, places = in_the_index.subn(b"prj_onespec-42plannf", path.read_bytes())
    assert places == 1
    path.write_bytes(damaged)
    store = SqliteStore(path)
    assert store.resolve(samples.KEY) is None
    store.close()
    with pytest.raises(StoreError, match=r"is damaged: .*conversation_by_key"):
        verify(path)


def test_reading_again_and_again_leaves_nothing_in_memory(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    store.commit([*samples.home(), samples.said(1)])

    def read():
        for _ in range(1_000):
            store.messages(samples.CONVERSATION)
            store.prior_messages(samples.CONVERSATION, upstream_session_ids=(), newest=1)

    read()
    tracemalloc.start()
    read()
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    store.close()
    assert left < 20_000  # a cursor of each read would be 400,000
