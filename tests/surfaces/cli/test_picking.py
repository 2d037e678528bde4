"""`adopt --pick`: which sessions there are, under which address each would go on, and a choice."""

import re

import pytest
from tests.surfaces.cli.test_keeping import transcript


@pytest.fixture
def up(make_upthread, tmp_path):
    made = make_upthread(tmp_path)
    transcript(made, "older", asked="Paint the zebra crossing", said="Yes", age_days=2)
    transcript(made, "newer", asked="Count the giraffes", said="Yes", age_days=1)
    return made


def test_without_a_person_it_says_which_there_are_and_how_each_is_taken(up):
    told = up("adopt", "--pick").out
    assert "fix-the-export/planner: would be adopted newer of claude-code" in told
    assert "fix-the-export-2/planner: would be adopted older of claude-code" in told
    assert "upthread adopt --pick --yes" in told
    assert up("ls", "--json").json["workstreams"] == []


def test_programs_are_told_the_same(up):
    told = up("adopt", "--pick", "--json").json
    assert told["is_done"] is False
    assert [each["session_id"] for each in told["sessions"]] == ["newer", "older"]
    assert up("adopt", "--pick", "--agent", "opencode", "--json").json["sessions"] == []


def test_one_that_its_agent_cannot_be_asked_for_costs_no_other_one(up):
    """Claude Code is not installed here: each is tried, and each says why not."""
    told = up("adopt", "--pick", "--yes", "--json", code=1).json
    assert [bool(each["fault"]) for each in told["sessions"]] == [True, True]


def test_a_person_filters_and_marks_in_a_list(up):
    terminal = up.on_terminal("adopt", "--pick")
    terminal.wait_for("Which sessions are conversations from now on?")
    assert "Count the giraffes" in terminal.seen
    assert "Paint the zebra crossing" in terminal.seen
    terminal.press("zebra")
    terminal.press(" ")
    terminal.press("\r")
    assert terminal.end() == 1
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.seen)
    assert "fix-the-export-2/planner: NOT ADOPTED" in plain
    assert "fix-the-export/planner: NOT ADOPTED" not in plain


@pytest.mark.extended
def test_a_person_who_marks_none_or_goes_away_changes_nothing(up):
    for key, code, told in (("\r", 0, "none was chosen"), ("\x03", 130, "interrupted")):
        terminal = up.on_terminal("adopt", "--pick")
        terminal.wait_for("Which sessions")
        terminal.press(key)
        assert terminal.end() == code
        assert told in terminal.seen
    assert up("ls", "--json").json["workstreams"] == []


def test_what_goes_together_is_said(up):
    assert "leave the address out" in up("adopt", "w/planner", "--pick", code=2).err
    assert "adopt --pick" in up("adopt", "w/planner", code=2).err
