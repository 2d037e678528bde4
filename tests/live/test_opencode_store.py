"""The reader of OpenCode's database against the database of the real OpenCode."""

import json

import apsw
import pytest
from tests.agent_stores.opencode_database import SCHEMA
from tests.agents.opencode.test_database import fingerprint
from tests.core.history.requests import refusals
from tests.live.opencode import call, command, database_of, delegation
from tests.live.shell import ADDRESS, only
from tests.support.sets import EXTENDED

from upthread.agents.opencode.reader import read_histories
from upthread.agents.opencode.reader import repair as repair_database
from upthread.core.history.model import faults
from upthread.core.history.repair import repair
from upthread.core.types import TextPart, ToolCallPart, ToolResultPart

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


def started(agent, project):
    return agent.call("session/new", cwd=str(project), mcpServers=[])["result"]["sessionId"]


@EXTENDED
def test_a_real_database_is_read_diagnosed_and_repaired_in_a_copy(
    start_opencode, project, tmp_path
):
    agent = start_opencode()
    session = started(agent, project)
    steps = [
        call("write", filePath=str(project / "new.txt"), content="x"),
        call("read", filePath="/nonexistent/file"),
        delegation(f"{command('pwd')} [[SAY child says]]"),
        "[[SAY done]]",
    ]
    agent.prompt(session, " ".join(steps))
    killed = started(agent, project)
    agent.start_prompt(killed, command("echo started; sleep 60"))
    agent.wait_for(
        lambda: [u for u in agent.updates("tool_call_update") if "started" in json.dumps(u)]
    )
    agent.kill()
    path = database_of(tmp_path / "home")
    before = fingerprint(path.parent, "opencode.db*")
    assert len(before) == 3  # with its log, as the crash left it

    read = {each.session_id: each for each in read_histories(path)}

    assert fingerprint(path.parent, "opencode.db*") == before
    assert all(each.is_version_known for each in read.values())
    (child_id,) = (key for key, each in read.items() if each.parent_session_id == session)
    assert faults(read[session].history) == ()
    assert faults(read[child_id].history) == ()
    assert [fault.rule for fault in faults(read[killed].history)] == ["every_call_has_a_result"]

    copy = repair_database(path, tmp_path / "ours", sessions=list(read))
    assert [edit.place.split()[0] for edit in copy.edits] == [killed]
    assert copy.left == ()
    for each in read_histories(copy.after):
        assert refusals(repair(each.history).history) == []
    (whole,) = read_histories(copy.after, session_id=session)
    parts = [part for message in whole.history for part in message.parts]
    calls = [part.title for part in parts if isinstance(part, ToolCallPart)]
    results = [part for part in parts if isinstance(part, ToolResultPart)]
    assert calls == ["write", "read", "task"]
    assert [part.status for part in results] == ["completed", "failed", "completed"]
    assert results[2].child_conversation_id == child_id
    assert [part.text for part in parts if isinstance(part, TextPart)][-1] == "done"

    theirs, ours = apsw.Connection(str(path)), apsw.Connection(":memory:")
    ours.execute(SCHEMA)
    for table in ("session", "message", "part"):
        assert columns(ours, table) <= columns(theirs, table), "the tables of our generator"
    theirs.close()


@pytest.mark.parametrize("name", ["opencode"])
def test_a_session_with_a_damaged_message_is_named_and_goes_on_in_a_new_one(name, shell):
    """In seconds: OpenCode 1.18.33 takes the prompt and says nothing of it in an answer."""
    session = shell.tell("Remember KIWI-1.")["upstream_session_id"]
    database = apsw.Connection(str(database_of(shell.home)))
    database.execute("UPDATE message SET data = '{bro'")
    database.close()
    lines = shell.lines("tell", ADDRESS, "Go on. [[SAY KIWI-2]]")
    notice = only(lines, "notice")
    assert notice["kind"] == "session_unreadable"
    assert f"cannot read session {session}" in notice["text"]
    assert "Error" in notice["about"]["detail"], "its own words"
    first, second = (line for line in lines if line["type"] == "turn_started")
    assert (first["upstream_session_id"], second["reasons"][0]) == (session, "corrupted")
    assert only(lines, "turn_ended")["reply"] == "KIWI-2"
    (found,) = shell.one("doctor", "opencode")["findings"]
    assert (found["history"], found["unreadable"]) == (session, 2)
    assert "begins a new session" in found["cure"]


def columns(connection, table):
    return {
        name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    }
