"""What the reader says of OpenCode's sessions, in the rows of either version."""

import json
from contextlib import ExitStack

import apsw
import pytest
from tests.agent_stores.opencode_database import OpenCodeDatabase, text

from upthread.agent_stores.base import look
from upthread.agent_stores.reader import Words
from upthread.agents.opencode.database import find_histories, opened
from upthread.agents.opencode.reader import (
    outlines,
    read_histories,
    read_session,
    said_in,
    sessions,
    stamp_of,
    undecided_calls,
)
from upthread.core.turns.agent_history import answered_turns
from upthread.runtime.turns.recovery import joined

ANSWER = {
    "role": "assistant",
    "modelID": "glm-5",
    "finish": "stop",
    "tokens": {"input": 900, "output": 50, "reasoning": 8, "cache": {"read": 40, "write": 2}},
    "time": {"created": 1, "completed": 2},
}


@pytest.fixture
def database(tmp_path):
    return OpenCodeDatabase(tmp_path / "opencode" / "opencode.db")


def found(tmp_path):
    return list(outlines(tmp_path, look()))


def answer(database, session, **more):
    message = database.message(session, "assistant")
    data = json.dumps({**ANSWER, **more})
    database.connection.execute("UPDATE message SET data = ? WHERE id = ?", (data, message))


def test_a_session_and_its_sub_agent(tmp_path, database):
    main = database.session()
    child = database.session(parent=main)
    database.connection.execute("ALTER TABLE session ADD COLUMN model text")
    database.connection.execute("UPDATE session SET agent = 'planner', model = '{\"id\":\"m\"}'")
    answer(database, main)
    database.close()
    by_id = {each.session_id: each for each in found(tmp_path)}
    of_main, of_child = by_id[main], by_id[child]
    assert (of_main.tokens, of_main.model, of_main.ending) == (1000, "glm-5", "ended")
    assert (of_main.unredacted_title, of_main.directory, of_main.role) == ("Title", "/work", "")
    assert (of_child.parent_session_id, of_child.role) == (main, "planner")
    assert (of_child.model, of_child.ending) == ("m", "unknown")


@pytest.mark.parametrize(
    "more", [{"time": {"created": 1}}, {"error": {"name": "Aborted"}}, {"finish": "tool-calls"}]
)
def test_an_answer_without_its_end_was_interrupted(tmp_path, database, more):
    answer(database, database.session(), **more)
    database.close()
    assert [each.ending for each in found(tmp_path)] == ["interrupted"]


def test_a_message_that_is_no_json_leaves_its_session_listed(tmp_path, database):
    database.message(database.session(), "assistant")
    database.connection.execute("UPDATE message SET data = '{'")
    database.close()
    assert [each.ending for each in found(tmp_path)] == ["unknown"]


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_session_of_version_2_is_listed_and_its_row_counts(tmp_path, database, is_alone):
    session = database.session()
    execute = database.connection.execute
    for table in ("part", "message", "session") if is_alone else ():
        execute(f"DROP TABLE {table}")
    execute(
        "CREATE TABLE session_v2 (id text, parent_id text, directory text, title text,"
        " agent text, time_created integer, time_updated integer)"
    )
    execute("INSERT INTO session_v2 VALUES (?, NULL, '/new', 'Newer', 'build', 1, 5)", (session,))
    database.close()
    (each,) = found(tmp_path)
    assert (each.session_id, each.unredacted_title, each.directory) == (session, "Newer", "/new")


def test_a_query_that_takes_too_long_is_ended_and_the_look_is_cut_short(tmp_path, database):
    for _ in range(50):
        database.session()
    database.close()
    seen = look(seconds_max=-1)
    assert list(outlines(tmp_path, seen)) == []
    assert seen.is_cut_short


def told(path, session):
    with opened(path) as store:
        said = [each for message in store.messages(session) for each in said_in(message)]
    return [(each.speaker, each.text) for each in said]


def test_texts_and_what_a_tool_took_and_gave_are_said(database):
    state = {"input": {"command": "make"}, "output": "made"}
    parts = ({"type": "text", "text": "done"}, {"type": "tool", "state": state})
    nothing = ({}, {"type": "step-start"}, {"type": "tool", "state": 3})
    session = database.session()
    database.message(session, "assistant", *parts, *nothing)
    database.close()
    assert told(database.path, session) == [("assistant", "done"), ("tool", "make\nmade")]


def test_what_version_2_stores_in_one_row_is_said_by_whom_it_is_from(database):
    """In the form of its public source; not tried on the real one."""
    content = [{"type": "reasoning", "text": "hm"}, TOOL, {"type": "text", "text": "done"}]
    answered = [("assistant", "hm"), ("tool", "make\nmade"), ("assistant", "done")]
    rows = (
        ("user", {"text": "go", "files": []}, [("user", "go")]),
        ("assistant", {"content": content}, answered),
        ("shell", {"command": "ls", "output": "a"}, [("tool", "ls\na")]),
        ("compaction", {"summary": "so far"}, [("assistant", "so far")]),
        ("idle", {"outcome": "succeeded"}, []),
        ("martian", {"text": "x"}, []),
        ("user", {"nope": 1}, []),
        ("assistant", {"content": "text"}, []),
    )
    database.connection.execute(TABLES)
    for seq, (kind, message, _) in enumerate(rows):
        database.connection.execute(
            "INSERT INTO session_message VALUES (?, 'ses_1', ?, ?, 1, 1, ?)",
            (f"m{seq}", kind, seq, json.dumps(message)),
        )
    database.close()
    assert told(database.path, "ses_1") == [each for *_, texts in rows for each in texts]


def test_of_a_session_of_both_versions_the_words_of_the_second_are_found(tmp_path, database):
    both, first = database.session(), database.session()
    for session in (both, first):
        database.message(session, "user", text("zebra of the first"))
    database.connection.execute(TABLES)
    database.connection.execute("INSERT INTO session_v2 VALUES (?, '/w', 'T', 9)", (both,))
    answer = {**ANSWER_OF_2, "content": [{"type": "text", "text": "the answer"}]}
    for seq, (kind, message) in enumerate(
        (("user", {"text": "zebra of the second"}), ("assistant", answer), ("idle", {}))
    ):
        database.connection.execute(
            "INSERT INTO session_message VALUES (?, ?, ?, ?, 1, 1, ?)",
            (f"m{seq}", both, kind, seq, json.dumps(message)),
        )
    database.close()
    words, found = Words(["zebra"]), {}
    with ExitStack() as held:
        for each in sessions(tmp_path, look(), held):
            outline = each.outline()
            assert outline is not None
            found[outline.session_id] = (outline, [said.text for said in each.said(words)])
    assert found[both][1] == ["zebra of the second"]
    assert found[first][1] == ["zebra of the first"]
    outline = found[both][0]
    assert (outline.model, outline.tokens, outline.ending) == ("glm-6", 105, "ended")


ANSWER_OF_2 = {
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
        ("assistant", {**ANSWER_OF_2, "content": [TOOL, {"type": "text", "text": "Painted"}]}),
        ("martian", {"text": "x"}),
        ("user", {"text": "And now"}),
        ("assistant", {**ANSWER_OF_2, "content": [{"type": "text", "text": "Done"}]}),
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


CALL = {"toolCallId": "c1", "toolName": "bash", "state": "result", "args": {}, "result": "made"}
TEXT = {"type": "text", "text": "built"}
FILES = {
    "before 1.2": {
        "storage/session/p/ses_1.json": {"directory": "/work", "time": {"updated": 5}},
        "storage/session/moved/ses_1.json": {"directory": "/work", "time": {"updated": 6}},
        "storage/message/ses_1/msg_1.json": {"role": "assistant"},
        "storage/part/msg_1/prt_1.json": TEXT,
    },
    "before 0.6": {
        "project/p/storage/session/info/ses_1.json": {},
        "project/p/storage/session/message/ses_1/msg_1.json": {
            "role": "assistant",
            "path": {"cwd": "/work"},
        },
        "project/p/storage/session/part/ses_1/msg_1/prt_1.json": TEXT,
    },
    "before 0.4": {
        "project/p/storage/session/info/ses_1.json": {"directory": "/work"},
        "project/p/storage/session/message/ses_1/msg_1.json": {
            "role": "assistant",
            "parts": [TEXT, {"toolInvocation": CALL}],
        },
    },
}


@pytest.mark.parametrize("age", FILES)
def test_a_session_of_files_is_read_unless_the_database_has_it(tmp_path, age):
    for name, value in FILES[age].items():
        path = tmp_path / "opencode" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    (outline,) = found(tmp_path)
    assert (outline.directory, outline.is_too_old) == ("/work", True)
    with ExitStack() as held:
        (one,) = sessions(tmp_path, look(), held)
        assert [each.text for each in one.said(Words(["built"]))] == ["built"]
    texts = [getattr(event, "text", "") for event in read_session(tmp_path, "ses_1").events]
    assert "built" in texts
    assert ("made" in texts) is (age == "before 0.4")
    (history,) = (h for p in find_histories(tmp_path) for h in read_histories(p))
    assert history.unreadable[0].why.startswith("an OpenCode before 1.2 wrote it")
    assert list(undecided_calls(tmp_path, "mark", 0)) == []
    database = OpenCodeDatabase(tmp_path / "opencode" / "opencode.db")
    database.session()
    database.connection.execute("UPDATE session SET id = 'ses_1'")
    database.close()
    assert [each.is_too_old for each in found(tmp_path)] == [False]
