"""Repair in a copy: all of the incident's calls closed, the original as it was, both kept."""

from __future__ import annotations

import json
import stat

import apsw
import pytest
from tests.agents.opencode.test_histories import fingerprint
from tests.vendors.opencode_database import OpenCodeDatabase, damaged_database, text, tool

from upthread.agents.opencode.histories import read_histories
from upthread.agents.opencode.repair import repair as repair_database
from upthread.core.history.model import is_sound
from upthread.core.history.proof import PROVIDERS, proof
from upthread.core.history.repair import repair
from upthread.core.turns.stream import INTERRUPTED
from upthread.errors import StoreError, UsageError


def ids_in(path):
    return [each.session_id for each in read_histories(path)]


def test_every_call_of_the_incident_is_closed_in_the_copy_and_the_original_is_untouched(tmp_path):
    database = damaged_database(tmp_path / "theirs" / "opencode.db")
    database.close()
    before = fingerprint(database.path.parent)
    made = repair_database(database.path, tmp_path / "ours", sessions=ids_in(database.path))
    assert fingerprint(database.path.parent) == before

    assert len(made.edits) == 311
    assert made.left == ()
    for each in read_histories(made.after):
        assert is_sound(each.history.messages)
        assert proof(repair(each.history).history) == dict.fromkeys(PROVIDERS, ())
    kept = (tmp_path / "ours" / "before").iterdir()
    assert {each.name for each in kept} == set(before)
    assert all(
        fingerprint(tmp_path / "ours" / "before")[name][0] == before[name][0] for name in before
    )


def test_repair_of_a_repaired_copy_changes_nothing(tmp_path):
    database = damaged_database(tmp_path / "opencode.db")
    database.close()
    first = repair_database(database.path, tmp_path / "one", sessions=ids_in(database.path))
    second = repair_database(first.after, tmp_path / "two", sessions=ids_in(first.after))
    assert second.edits == ()


def test_a_closed_call_keeps_what_was_asked_and_says_how_it_ended(tmp_path):
    database = OpenCodeDatabase(tmp_path / "opencode.db")
    session_id = database.session()
    database.message(
        session_id, "assistant", tool("bash", "c1", "running", metadata={"output": "x"})
    )
    made = repair_database(database.path, tmp_path / "ours", sessions=[session_id])
    database.close()
    copy = apsw.Connection(str(made.after))
    ((data,),) = copy.execute("SELECT data FROM part")
    copy.close()
    assert json.loads(data)["state"] == {
        "status": "error",
        "input": {"path": "a.py"},
        "error": INTERRUPTED,
        "metadata": {"output": "x", "interrupted": True},
        "time": {"start": 7, "end": 7},
    }
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


def test_a_place_that_cannot_be_made_is_named(tmp_path):
    database = damaged_database(tmp_path / "opencode.db")
    database.close()
    with pytest.raises(StoreError, match="cannot be made"):
        repair_database(database.path, database.path / "below-a-file")
