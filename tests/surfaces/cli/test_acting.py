"""Acting: a person is somebody at a terminal of their own; a model in a shell of its own is none."""

import os

import pytest

from upthread.core.agents import MARKS, PROGRAM
from upthread.surfaces.cli.terminal.input import is_at_terminal, who_acts


@pytest.fixture
def asked(tmp_path, make_upthread):
    up = make_upthread(tmp_path)
    up("run", "w", "--spec", "spec.md", "--agent", "rehearsal", code=4)
    return up


def who_answered(up) -> list[str]:
    (run,) = up("audit", "w", "--json").json["runs"]
    return [
        (event["answered_by"] if event["kind"] == "question_answered" else event["by"])["kind"]
        for event in run["events"]
        if event["kind"] in {"question_answered", "answer_suggested"}
    ]


@pytest.mark.soak
def test_an_answer_is_a_person_s_only_if_it_came_from_their_terminal(asked):
    terminal = asked.on_terminal("answer", "w", "opening", "Good day")
    terminal.wait_for("w: answered")
    terminal.end()
    asked("answer", "w", "stranger", "whoever you are", code=None)
    assert who_answered(asked) == ["person", "program"]
    audit = asked("audit", "w").out
    assert "a person at a terminal answered `opening`" in audit
    assert "a program, with nobody at a terminal answered `stranger`" in audit
    (run,) = asked("audit", "w", "--json").json["runs"]
    acts = [act["by_user"] for act in run["acts"] if act["what"] == "answered"]
    assert [act.endswith(" (program)") for act in acts] == [False, True]


@pytest.mark.extended
def test_a_model_in_a_shell_of_its_agent_s_is_no_person_terminal_or_not(asked):
    terminal = asked.on_terminal("answer", "w", "opening", "Good day", CLAUDECODE="1")
    terminal.wait_for("w: suggested; a person decides")
    terminal.end()
    assert who_answered(asked) == ["model"]
    shown = asked("show", "w").out
    assert "suggested by a model (claude-code):  Good day" in shown
    assert "upthread answer w opening" in shown


@pytest.mark.parametrize("variable", MARKS)
def test_every_mark_of_an_agent_is_a_model_s(variable):
    acting = who_acts({variable: "1"})
    assert acting.kind == "model"


def test_what_is_not_in_the_foreground_of_its_terminal_is_a_program():
    reading, writing = os.pipe()
    try:
        assert not is_at_terminal(reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert not is_at_terminal(reading)
    if not is_at_terminal():
        assert who_acts({}) == PROGRAM
