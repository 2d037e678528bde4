"""OpenCode's database: read as it is, while it is written, and never changed by a byte.

Repair in a copy: all of the incident's calls closed, the original as it was, both kept.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from tests.agent_stores.opencode_database import (
    ORPHANS,
    SESSIONS,
    STEP,
    OpenCodeDatabase,
    damaged_database,
    text,
    tool,
)
from tests.core.history.requests import refusals

from upthread.agents.opencode.database import find_histories
from upthread.agents.opencode.reader import read_histories
from upthread.agents.opencode.reader import repair as repair_database
from upthread.core.events import INTERRUPTED
from upthread.core.history.model import faults
from upthread.core.history.repair import repair
from upthread.core.types import TextPart, ToolResultPart
from upthread.errors import StoreError, UsageError


def fingerprint(directory: Path, names: str = "*") -> dict[str, tuple[str, int]]:
    """The files of a directory, each with its content and the moment it was changed."""
    return {
        each.name: (hashlib.sha256(each.read_bytes()).hexdigest(), each.stat().st_mtime_ns)
        for each in directory.glob(names)
    }


@pytest.fixture
def database(tmp_path):
    made = OpenCodeDatabase(tmp_path / "opencode" / "opencode.db")
    yield made
    made.close()


def test_calls_and_results_come_apart_in_steps(database):
    session_id = database.session()
    ignored = {"type": "text", "text": "no", "ignored": True}
    database.message(session_id, "user", text("go"), ignored)
    steps = (
        *(STEP, {"type": "reasoning", "text": "hm"}, tool("bash", "c1")),
        *(tool("read", "c2", "error", error="File not found"), text("so")),
        *(STEP, tool("task", "c3", metadata={"sessionId": "ses_child"})),
        {"type": "file", "filename": "x.png", "mime": "image/png", "url": "data:,"},
        {"type": "patch", "files": []},
    )
    database.message(session_id, "assistant", *steps)
    (read,) = read_histories(database.path)
    spoken = [(str(m.speaker), [type(p).__name__ for p in m.parts]) for m in read.history]
    assert spoken == [
        ("user", ["TextPart"]),
        ("assistant", ["ReasoningPart", "ToolCallPart", "ToolCallPart"]),
        ("tool", ["ToolResultPart", "ToolResultPart"]),
        ("assistant", ["TextPart"]),
        ("assistant", ["ToolCallPart", "FilePart"]),
        ("tool", ["ToolResultPart"]),
    ]
    results = [p for m in read.history for p in m.parts if isinstance(p, ToolResultPart)]
    done, failed = ("completed", "done"), ("failed", "File not found")
    assert [(r.status, r.text) for r in results] == [done, failed, done]
    assert results[2].child_conversation_id == "ses_child"


@pytest.mark.extended
def test_a_database_in_use_is_read_with_its_log_and_nothing_beside_it_changes(database):
    session_id = database.session()
    database.message(session_id, "user", text("only in the log yet"))
    before = fingerprint(database.path.parent)
    assert set(before) == {"opencode.db", "opencode.db-wal", "opencode.db-shm"}
    assert messages_read_elsewhere(database.path) == 1
    assert fingerprint(database.path.parent) == before


def messages_read_elsewhere(path: Path) -> int:
    """Read in a process of its own: within one, SQLite shares the memory of all connections."""
    program = (
        "import sys; from pathlib import Path; from upthread.agents.opencode.reader import *; "
    )
    program += "print(sum(len(s.history) for s in read_histories(Path(sys.argv[1]))))"
    words = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ))
    return int(done.stdout)


def test_a_database_a_crash_left_behind_is_read_with_its_log(database, tmp_path):
    database.message(database.session(), "user", text("only in the log yet"))
    left = tmp_path / "left"
    left.mkdir()
    for name in ("opencode.db", "opencode.db-wal"):
        shutil.copy(database.path.with_name(name), left / name)
    before = fingerprint(left)
    (read,) = read_histories(left / "opencode.db")
    assert len(read.history) == 1
    assert fingerprint(left) == before


def test_one_session_is_read_alone_and_a_child_knows_its_parent(database):
    parent = database.session()
    child = database.session(parent=parent)
    assert list(find_histories(database.path.parents[1])) == [database.path]
    assert list(find_histories(database.path.parent)) == []
    (read,) = read_histories(database.path, session_id=child)
    assert (read.session_id, read.parent_session_id) == (child, parent)
    assert list(read_histories(database.path, session_id="ses_nowhere")) == []


@pytest.mark.parametrize(
    ("version", "is_known"),
    [("1.18.33", True), ("1.18", True), ("1.180.0", False), ("2.0.0", False)],
)
def test_a_version_nobody_has_seen_is_said_to_be_unknown(tmp_path, version, is_known):
    made = OpenCodeDatabase(tmp_path / "opencode.db", version=version)
    made.session()
    made.close()
    (read,) = read_histories(made.path)
    assert read.is_version_known is is_known


def test_a_row_that_cannot_be_read_is_reported_and_the_others_are_read(database):
    session_id = database.session()
    deep = '{"type": "text", "text": ' + "[" * 10_000 + "]" * 10_000 + "}"
    database.message(session_id, "user", '{"type": "text", "te', deep, "[]", text("fine"))
    database.connection.execute("UPDATE message SET data = '{}'")
    (read,) = read_histories(database.path)
    assert len(read.unreadable) == 4
    assert read.unreadable[0].why == "it has no role"
    assert read.history[-1].parts == (TextPart(text="fine"),)
    database.message(session_id, "user", text("x" * 1_000))
    (read,) = read_histories(database.path)
    assert read.history[-1].parts == (TextPart(text="x" * 200),)


def test_a_form_nobody_has_seen_is_refused_with_what_it_lacks(tmp_path):
    path = tmp_path / "opencode.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE session (id text)")
    connection.close()
    with pytest.raises(StoreError, match="session lacks directory"):
        list(read_histories(path))


@pytest.mark.parametrize("content", [b"", b"no database at all, only bytes", None])
def test_what_is_no_database_is_refused(tmp_path, content):
    path = tmp_path / "opencode.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError):
        list(read_histories(path))


def ids_in(path):
    return [each.session_id for each in read_histories(path)]


@pytest.mark.extended
def test_every_call_of_the_incident_is_closed_in_the_copy_and_the_original_is_untouched(tmp_path):
    database = damaged_database(tmp_path / "theirs" / "opencode.db")
    database.close()
    wrong = [fault for each in read_histories(database.path) for fault in faults(each.history)]
    assert [fault.rule for fault in wrong] == ["every_call_has_a_result"] * 311
    assert len(ids_in(database.path)) == SESSIONS + 3
    before = fingerprint(database.path.parent)
    made = repair_database(database.path, tmp_path / "ours", sessions=ids_in(database.path))
    assert fingerprint(database.path.parent) == before

    assert (len(made.edits), made.left) == (sum(ORPHANS.values()), ())
    for each in read_histories(made.after):
        assert faults(each.history) == ()
        assert refusals(repair(each.history).history) == []
    kept = fingerprint(tmp_path / "ours" / "before")
    assert {name: content for name, (content, _) in kept.items()} == {
        name: content for name, (content, _) in before.items()
    }
    again = repair_database(made.after, tmp_path / "two", sessions=ids_in(made.after))
    assert again.edits == (), "the repaired copy is whole"


def test_a_closed_call_keeps_what_was_asked_and_says_how_it_ended(tmp_path):
    database = OpenCodeDatabase(tmp_path / "opencode.db")
    session_id = database.session()
    running = tool("bash", "c1", "running", metadata={"output": "x"})
    database.message(session_id, "assistant", running)
    made = repair_database(database.path, tmp_path / "ours", sessions=[session_id])
    database.close()
    copy = apsw.Connection(str(made.after))
    ((data,),) = copy.execute("SELECT data FROM part")
    copy.close()
    ended = {"status": "error", "error": INTERRUPTED, "time": {"start": 7, "end": 7}}
    metadata = {"output": "x", "interrupted": True}
    kept = {"input": {"path": "a.py"}, "metadata": metadata}
    assert json.loads(data)["state"] == {**ended, **kept}
    (edit,) = made.edits
    assert (edit.before, edit.after) == ("bash c1 running", f"bash c1 error: {INTERRUPTED}")


def test_two_calls_under_one_id_are_told_apart(tmp_path):
    database = OpenCodeDatabase(tmp_path / "opencode.db")
    session_id = database.session()
    database.message(session_id, "user", text("a"))
    for _ in range(2):
        database.message(session_id, "assistant", tool("bash", "c"), tool("read", "c_2"))
    made = repair_database(database.path, tmp_path / "ours", sessions=[session_id])
    database.close()
    assert made.left == ()
    assert [edit.why for edit in made.edits] == ["another call has its id"] * 2


def test_sessions_that_are_not_named_are_left_as_they_are(tmp_path):
    database = OpenCodeDatabase(tmp_path / "opencode.db")
    named, other = database.session(), database.session()
    for session_id in (named, other):
        database.message(session_id, "assistant", tool("bash", f"c{session_id}", "running"))
    made = repair_database(database.path, tmp_path / "ours", sessions=[named])
    database.close()
    assert [edit.place.split()[0] for edit in made.edits] == [named]
    assert [line.split()[0] for line in made.left] == [other]


def test_copies_are_for_nobody_else_to_read_and_are_never_written_over(tmp_path):
    database = damaged_database(tmp_path / "opencode.db")
    database.close()
    into = tmp_path / "new" / "ours"
    made = repair_database(database.path, into)
    for each in (into.parent, into, into / "before", into / "after"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    for each in (made.before, made.after):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="has a repaired copy already"):
        repair_database(database.path, into)
    with pytest.raises(StoreError, match="cannot be made"):
        repair_database(database.path, database.path / "below-a-file")
