"""Which agent: the only one, the configured one, the one a person chooses, else an error."""

import pytest

REPORT = '```upthread\\n{\\"status\\": \\"done\\"}\\n```'
ONE_STEP = f'[[pipeline.steps]]\nrole = "planner"\ntask = "[[rehearse: say {REPORT}]]"\n'


def test_with_several_installed_and_nobody_to_ask_it_is_an_error_with_the_cure(with_gemini):
    done = with_gemini("tell", "a/planner", "hello", code=2)
    assert "several agents are installed: opencode, gemini" in done.err
    assert "--agent" in done.err


@pytest.mark.soak
@pytest.mark.parametrize(("answer", "agent"), [("2", "gemini"), ("opencode", "opencode")])
def test_a_person_is_asked_which_and_the_turn_goes_to_it(with_gemini, answer, agent):
    terminal = with_gemini.on_terminal("tell", f"{agent}/planner", "hello")
    terminal.wait_for("which one?")
    assert "1  opencode" in terminal.seen
    terminal.type("neither")
    terminal.type(answer)
    assert terminal.end() == 0
    assert with_gemini("show", agent, "--json").json["roles"][0]["agent"] == agent
    assert "several agents" not in with_gemini("tell", f"{agent}/planner", "again").err


def test_a_run_asks_too_and_once_for_all_its_roles(with_gemini):
    with_gemini.configure(ONE_STEP)
    terminal = with_gemini.on_terminal("run", "r", "do it")
    terminal.wait_for("which one?")
    terminal.type("1")
    assert terminal.end() == 0
    (with_gemini.directory / "upthread.toml").unlink()
    assert with_gemini("show", "r", "--json").json["roles"][0]["agent"] == "opencode"


def test_whoever_closes_the_input_has_chosen_none(with_gemini):
    terminal = with_gemini.on_terminal("tell", "closed/planner", "hello")
    terminal.wait_for("which one?")
    terminal.type("\x04")
    assert terminal.end() == 2
    assert "no agent was chosen" in terminal.seen
    with_gemini("show", "closed", code=3)
