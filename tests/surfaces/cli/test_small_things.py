"""What people trip over: narrow terminals, mistyped names, a home that nothing can be written to."""

import os

import pytest
from tests.support.golden import seen_at
from tests.support.sets import spread

from upthread.surfaces.cli.terminal.phrases import message_in

WS = "small-things"


@pytest.fixture(scope="module")
def begun(shared):
    shared("tell", f"{WS}/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    return shared


def test_help_shows_the_table_of_the_configuration_by_its_name(shared):
    assert "`[keep]`" in shared("keep", "--help").out


@pytest.mark.extended
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("tell", f"{WS}/plannr", "hi", "--agent", "rehearsal"), "planner"),
        (("show", "small-thing"), WS),
        (("id", "small-thing/planner"), f"{WS}/planner"),
        (("why", f"{WS}/planer"), f"{WS}/planner"),
        (("tell", f"{WS}/planner", "hi", "--agent", "claud-code"), "claude-code"),
        (("doctor", "opncode"), "opencode"),
        (("setup", "cloude"), "claude"),
        (("setup", "codex", "--role", "plannr=resume", "--dry-run"), "planner"),
        (("shwo", WS), "show"),
        (("ls", "--jsn"), "--json"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_one_like_it(begun, words, meant):
    failed = begun(*words, code=None)
    assert failed.code != 0
    assert f"Did you mean '{meant}'?" in failed.err


def test_a_name_like_none_is_answered_with_none(begun):
    assert "Did you mean" not in begun("show", "elsewhere", code=3).err


@pytest.mark.parametrize(
    "words",
    [("doctor", "claude"), ("doctor", "claude-code"), ("repair", "claude", "--dry-run")],
)
def test_an_agent_is_known_by_its_program_as_by_its_name(begun, words):
    done = begun(*words, code=None)
    assert (done.code, done.err) == (0, "")


def test_setup_takes_the_name_that_all_other_verbs_take(begun):
    named = begun("setup", "claude-code", "--dry-run")
    assert named.out == begun("setup", "claude", "--dry-run").out


@pytest.mark.parametrize("words", [("ls",), ("tell", "w/planner", "hi", "--agent", "rehearsal")])
def test_a_home_that_cannot_be_written_to_is_said_in_one_line(shared, words):
    # Nobody makes a directory there, root included.
    nowhere = shared.beside(**{**shared.environment, "UPTHREAD_HOME": "/proc/upthread"})
    failed = nowhere(*words, code=1)
    assert "Traceback" not in failed.err
    assert failed.err.startswith("error: /proc/upthread cannot be made: ")
    assert failed.err.endswith("(set UPTHREAD_HOME to a directory that you may write to)\n")
    assert len(failed.err.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_database_that_became_read_only_is_no_bug_of_ours(shared, tmp_path):
    home = tmp_path / "home"
    up = shared.beside(**{**shared.environment, "UPTHREAD_HOME": str(home)})
    up("ls")
    home.chmod(0o500)
    assert "bug" not in up("tell", "w/planner", "hi", "--agent", "rehearsal", code=1).err
    home.chmod(0o700)


@pytest.mark.soak
@pytest.mark.parametrize("words", spread([("show", WS), ("agents",), ("ls",), ("ls", WS)], first=2))
@pytest.mark.parametrize("columns", spread([40, 80]))
def test_no_word_is_cut_and_no_column_is_lost_on_a_narrow_terminal(begun, words, columns):
    where = {"directory": begun.directory, "environment": begun.environment}
    seen = seen_at(columns, begun.words(*words), **where)
    lines = seen.splitlines()
    assert max(map(len, lines)) <= columns
    piped = begun(*words).out
    for word in piped.split():
        if word.isupper() or len(word) > columns - 8:
            continue  # a heading is a label there; what no line has room for cannot be whole
        assert word in seen.split(), f"{word!r} was cut in:\n{seen}"


def test_status_says_how_the_work_stands(begun):
    begun("tell", f"{WS}/auditor", "[[rehearse: rate_limit]]", "--agent", "rehearsal", code=None)
    said = begun("status").out
    assert f"  {WS}: parked: " in said
    assert f"    go on with upthread tell {WS}/auditor --continue" in said


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('529 {"type":"error","error":{"type":"overloaded","message":"Busy"}}', "529 Busy"),
        ('{"code": -32603, "message": "Internal error"}', "Internal error"),
        ('{"error": "no credit"}', "no credit"),
        ("no JSON at all", "no JSON at all"),
        ("a set {1, 2}", "a set {1, 2}"),
        ('{"code": 7}', '{"code": 7}'),
        ("{" * 100_000, "{" * 100_000),
    ],
)
def test_of_an_error_in_json_a_person_reads_the_message(said, told):
    assert message_in(said) == told


def test_what_moved_last_is_listed_first(up):
    for workstream in ("a", "b", "c", "b"):
        up("tell", f"{workstream}/planner", "hi", "--agent", "rehearsal")
    listed = up("ls", "--json").json["workstreams"]
    assert [each["workstream"] for each in listed] == ["b", "c", "a"]
