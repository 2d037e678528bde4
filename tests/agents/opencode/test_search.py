"""What a part of a message says, for a search."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest
from tests.agent_stores.opencode_database import OpenCodeDatabase, text
from tests.agents.opencode.test_version_2 import ANSWER, TABLES, TOOL

from upthread.agent_stores.outline import look
from upthread.agent_stores.text_search import Words
from upthread.agents.opencode.database import opened
from upthread.agents.opencode.reader import said_in, sessions


@pytest.fixture
def database(tmp_path):
    (tmp_path / "opencode").mkdir()
    return OpenCodeDatabase(tmp_path / "opencode" / "opencode.db")


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
    answer = {**ANSWER, "content": [{"type": "text", "text": "the answer"}]}
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
