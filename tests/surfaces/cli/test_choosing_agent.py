"""Which agent: the only one, the configured one, the one a person chooses, else an error."""

from __future__ import annotations

import sys

import pytest

REPORT = '```upthread\\n{\\"status\\": \\"done\\"}\\n```'
ONE_STEP = f'[[pipeline.steps]]\nrole = "planner"\ntask = "[[rehearse: say {REPORT}]]"\n'


@pytest.fixture(scope="module")
def two(tmp_path_factory, make_upthread):
    """A project on a machine with two agents."""
    made = make_upthread(tmp_path_factory.mktemp("two"))
    agent = made.home / "bin" / "gemini"
    agent.write_text(f"#!/bin/sh\nexec {sys.executable} -I -m upthread.agents.rehearsal\n")
    agent.chmod(0o755)
    return made


def test_with_several_installed_and_nobody_to_ask_it_is_an_error_with_the_cure(two):
    done = two("tell", "a/planner", "hello", code=2)
    assert "several agents are installed: opencode, gemini" in done.err
    assert "--agent" in done.err


@pytest.mark.soak
@pytest.mark.parametrize(("answer", "agent"), [("2", "gemini"), ("opencode", "opencode")])
def test_a_person_is_asked_which_and_the_turn_goes_to_it(two, answer, agent):
    terminal = two.on_terminal("tell", f"{agent}/planner", "hello")
    terminal.wait_for("which one?")
    assert "1  opencode" in terminal.seen
    terminal.type("neither")
    terminal.type(answer)
    assert terminal.end() == 0
    assert two("show", agent, "--json").json["roles"][0]["agent"] == agent
    assert "several agents" not in two("tell", f"{agent}/planner", "again").err


def test_a_run_asks_too_and_once_for_all_its_roles(two):
    two.configure(ONE_STEP)
    terminal = two.on_terminal("run", "r", "do it")
    terminal.wait_for("which one?")
    terminal.type("1")
    assert terminal.end() == 0
    (two.directory / "upthread.toml").unlink()
    assert two("show", "r", "--json").json["roles"][0]["agent"] == "opencode"


def test_whoever_closes_the_input_has_chosen_none(two):
    terminal = two.on_terminal("tell", "closed/planner", "hello")
    terminal.wait_for("which one?")
    terminal.type("\x04")
    assert terminal.end() == 2
    assert "no agent was chosen" in terminal.seen
    two("show", "closed", code=3)
