"""What version 2 stores, read as version 1's: in the form of its public source, never run here."""

from __future__ import annotations

import json

import apsw
import pytest

from upthread.agents.opencode.reader import read_session, stamp_of
from upthread.core.turns.replayed_history import answered_turns, joined

ANSWER = {
    "agent": "build",
    "model": {"id": "glm-6", "providerID": "p"},
    "finish": "stop",
    "time": {"created": 1, "completed": 2},
    "tokens": {"input": 90, "output": 10, "reasoning": 0, "cache": {"read": 5, "write": 0}},
}
MADE = [{"type": "text", "text": "made"}]
STATE = {"status": "completed", "input": {"command": "make"}, "content": MADE}
TOOL = {"type": "tool", "id": "c1", "name": "bash", "state": STATE}
TABLES = (
    "CREATE TABLE session_v2 (id text, directory text, title text, time_updated integer);"
    "CREATE TABLE session_message (id text, session_id text, type text, seq integer,"
    " time_created integer, time_updated integer, data text)"
)


@pytest.fixture
def store(tmp_path):
    (tmp_path / "opencode").mkdir()
    connection = apsw.Connection(str(tmp_path / "opencode" / "opencode.db"))
    connection.execute(TABLES)
    rows = (
        ("user", {"text": "Paint the zebra", "files": []}),
        ("idle", {"outcome": "succeeded"}),
        ("assistant", {**ANSWER, "content": [TOOL, {"type": "text", "text": "Painted"}]}),
        ("martian", {"text": "x"}),
        ("user", {"text": "And now"}),
        ("assistant", {**ANSWER, "content": [{"type": "text", "text": "Done"}]}),
    )
    for seq, (kind, message) in enumerate(rows):
        connection.execute(
            "INSERT INTO session_message VALUES (?, 'ses_1', ?, ?, 1, ?, ?)",
            (f"m{9 - seq}", kind, seq, 100 + seq, json.dumps(message)),
        )
    yield connection
    connection.close()


def test_its_turns_are_read_in_their_order_with_what_they_did(tmp_path, store):
    found = read_session(tmp_path, "ses_1")
    assert found is not None
    turns = answered_turns(tuple(joined(found.events)))
    assert [turn.prompt for turn in turns] == ["Paint the zebra", "And now"]
    told = repr(turns)
    for words in ("make", "made", "Painted", "Done"):
        assert words in told
    assert found.written_at_ns == 106_000_000


def test_one_more_message_gives_another_stamp_and_no_session_has_none(tmp_path, store):
    before = stamp_of(tmp_path, "ses_1")
    assert before
    store.execute("INSERT INTO session_message VALUES ('n', 'ses_1', 'user', 9, 1, 1, '{}')")
    assert stamp_of(tmp_path, "ses_1") != before
    assert stamp_of(tmp_path, "ses_2") == ""
    assert read_session(tmp_path, "ses_2") is None


def test_what_is_no_json_costs_that_message_alone(tmp_path, store):
    store.execute("UPDATE session_message SET data = '{no' WHERE seq = 2")
    found = read_session(tmp_path, "ses_1")
    assert found is not None
    assert "Done" in repr(found.events)
    assert "Painted" not in repr(found.events)
