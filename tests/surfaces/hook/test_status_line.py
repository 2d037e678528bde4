"""The status line: what an agent, or a shell, shows of the workstream all the time."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

GREETER = Path(__file__).parents[3] / "examples/greeter"


@pytest.fixture
def line(place):
    (words,) = [place.upthread("status", "--snippet")["snippet"]["statusLine"]["command"]]

    def shown(**asked: object) -> str:
        done = subprocess.run(
            ["sh", "-c", words],
            input=json.dumps({"cwd": str(place.project), **asked}),
            cwd=place.project,
            env=place.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout.strip()

    return shown


@pytest.mark.extended
def test_it_says_which_workstream_and_what_runs(place, line):
    assert line() == "spec-42"
    place.hook(place.request("before", "c1", prompt="Plan it."))
    place.hook(place.request("before", "c2", prompt="Plan it."))
    assert set(line().split(" · ")) == {"spec-42", "planner running", "planner~2 running"}
    place.hook(place.request("before", "c3", prompt="Look.", role="explore"))
    assert line().count("running") == 2, "what is only recorded is not of the workstream"


@pytest.mark.extended
def test_it_says_where_there_is_none_and_nothing_where_nobody_set_up(place, line, tmp_path):
    place.upthread("use", "--clear")
    assert line() == "no workstream"
    (tmp_path / "elsewhere").mkdir()
    assert line(workspace={"current_dir": str(tmp_path / "elsewhere")}) == ""


@pytest.mark.extended
def test_it_says_how_many_questions_are_open(place, line):
    shutil.copytree(GREETER, place.project, dirs_exist_ok=True)
    place.run("run", "spec-42", "--spec", "spec.md", "--agent", "rehearsal")
    place.upthread("use", "spec-42")
    assert line() == "spec-42 · 2 open questions"


def test_a_home_that_is_not_absolute_is_passed_over_as_hooks_do(place, line, monkeypatch):
    monkeypatch.setitem(place.environment, "UPTHREAD_HOME", "somewhere")
    assert line() == "spec-42"
    assert not (place.project / "somewhere").exists()


@pytest.mark.extended
def test_what_it_cannot_read_stands_in_the_line(place, line):
    (place.home / "upthread.db").write_text("no database" * 1_000)
    assert line().startswith("upthread: ")
