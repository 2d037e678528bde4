"""`compare`: three ways of one task beside each other, as the agent counted them."""

from __future__ import annotations

import subprocess

import pytest
from tests.support.decisions_told import decisions_told
from tests.support.sets import EXTENDED

from upthread.core.decision.words import RESUME

FIRST = "[[rehearse: tokens 900 100]] [[rehearse: read README.md]] [[rehearse: say planned]]"
THEN = "[[rehearse: tokens 50 20]] [[rehearse: read README.md]] [[rehearse: say the tests]]"
AGENT = ("--agent", "rehearsal")
LIMIT = ("--tokens-max", "100000")


@pytest.fixture
def up(make_upthread, tmp_path):
    return make_upthread(tmp_path)


def git(up, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=up.directory, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_each_way_is_what_it_says_and_took_what_the_agent_counted(up):
    told = up("compare", "planner", FIRST, THEN, *AGENT, *LIMIT, "--yes", "--json").json
    ways = {each["way"]: each for each in told["ways"]}
    assert {name: each["decision"] for name, each in ways.items()} == {
        "resumed": "resume",
        "briefed": "start_fresh_with_briefing",
        "fresh": "first",
    }
    for each in ways.values():
        assert (each["read"], each["written"], each["fault"]) == (50, 20, None)
        assert each["reply"].endswith("the tests")
    assert [len(ways[name]["files_again"]) for name in ("resumed", "briefed", "fresh")] == [0, 1, 0]
    assert told["spent"] == 2 * 1_000 + 3 * 70


@EXTENDED
def test_nothing_of_the_persons_is_touched_and_no_tree_stays(up):
    up("tell", "spec/planner", "[[rehearse: say mine]]", *AGENT)
    before = (git(up, "status", "--short"), git(up, "rev-parse", "HEAD"), up("id", "spec/planner"))
    shown = up("compare", "planner", FIRST, THEN, *AGENT, *LIMIT, "--yes")
    assert RESUME in decisions_told(shown.out)
    assert "git branch -d upthread/compare-" in shown.out
    assert len(git(up, "worktree", "list").splitlines()) == 1
    after = (git(up, "status", "--short"), git(up, "rev-parse", "HEAD"), up("id", "spec/planner"))
    assert [str(each) for each in after] == [str(each) for each in before]


def test_what_was_written_is_left_where_it_is_and_said(up):
    (up.home / "upthread" / "config.toml").write_text('[permissions]\nedit = "allow"\n')
    then = "[[rehearse: write new.txt text]]"
    told = up("compare", "constructor", FIRST, then, *AGENT, *LIMIT, "--yes", "--json").json
    for each in told["ways"]:
        assert each["tree_kept"] is not None
    assert not (up.directory / "new.txt").exists()
    assert len(git(up, "worktree", "list").splitlines()) == 4


@EXTENDED
def test_no_turn_begins_once_the_limit_is_spent(up):
    limit = ("--tokens-max", "500")
    told = up("compare", "planner", FIRST, THEN, *AGENT, *limit, "--yes", "--json", code=1).json
    assert [each["fault"] for each in told["ways"]] == ["the 500 tokens are spent"] * 3
    assert told["spent"] == 1_000


@EXTENDED
def test_what_one_way_fails_at_costs_no_other_one(up):
    then = "[[rehearse: if_resumed fail no good]] [[rehearse: say fine]]"
    told = up("compare", "planner", FIRST, then, *AGENT, *LIMIT, "--yes", "--json", code=1).json
    assert [bool(each["fault"]) for each in told["ways"]] == [True, False, False]


def test_the_limit_and_a_yes_come_before_anything_else(up):
    assert "--tokens-max" in up("compare", "planner", "a", "b", *AGENT, code=2).err
    assert "say --yes" in up("compare", "planner", "a", "b", *AGENT, *LIMIT, code=2).err
    assert "no role" in up("compare", "nurse", "a", "b", *AGENT, *LIMIT, "--yes", code=3).err
    assert up("ls", "--json").json["workstreams"] == []
    assert len(git(up, "worktree", "list").splitlines()) == 1


def test_a_person_who_says_no_spends_nothing(up):
    terminal = up.on_terminal("compare", "planner", "a", "b", *AGENT, *LIMIT)
    terminal.wait_for("Spend at most 100,000 tokens?")
    terminal.type("n")
    assert terminal.end() == 0
    assert "nothing was spent" in terminal.seen
    assert up("ls", "--json").json["workstreams"] == []
