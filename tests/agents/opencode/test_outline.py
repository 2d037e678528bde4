"""What an outline says of an OpenCode session, by the rows of either version."""

from __future__ import annotations

import json

import pytest
from tests.agent_stores.opencode_database import OpenCodeDatabase

from upthread.agent_stores.outline import look
from upthread.agents.opencode.reader import outlines

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
