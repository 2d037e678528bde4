"""Another version than the tested one is said once: both versions, and how to try it."""

import pytest
from tests.support.decisions_told import decisions_told

import upthread
from upthread.core.decision.words import FIRST

LINE = (
    f"gemini {upthread.__version__} is older than 0.61.0, which this upthread was tested with; "
    "try what it does: upthread doctor --probe gemini"
)
REPORT = '```upthread\\n{\\"status\\": \\"done\\"}\\n```'
TWO_STEPS = "".join(
    f'[[pipeline.steps]]\nrole = "{role}"\ntask = "[[rehearse: say {REPORT}]]"\n'
    for role in ("planner", "clarifier")
)


def test_tell_says_it_once_and_not_in_the_next_turn(with_gemini):
    assert with_gemini("tell", "a/planner", "hello", "--agent", "gemini").err.count(LINE) == 1
    assert "tested with" not in with_gemini("tell", "a/planner", "again").err


def test_run_says_it_once_for_all_its_steps(with_gemini):
    with_gemini.configure(TWO_STEPS)
    done = with_gemini("run", "c", "--spec", "spec.md", "--agent", "gemini")
    assert (done.out + done.err).count(LINE) == 1
    assert decisions_told(done.out) == [FIRST, FIRST]


OF_2 = (
    "opencode 2.1.4 is of another major version than 1.18.33, which this upthread was tested with "
    "(not tried on the real opencode 2): its sessions are listed, searched and kept, and "
    "setup writes its plug-in; tell and run do not drive it"
)


@pytest.fixture
def with_opencode_2(tmp_path, make_upthread):
    """A machine whose `opencode` says that it is of version 2."""
    made = make_upthread(tmp_path)
    program = made.home / "bin" / "opencode"
    program.write_text("#!/bin/sh\necho 2.1.4\n")
    program.chmod(0o755)
    return made


def test_agents_says_of_an_untested_major_version_what_works_and_what_does_not(with_opencode_2):
    (with_opencode_2.home / "upthread" / "config.toml").unlink()  # which has one of that name
    told = with_opencode_2("agents", "--json").json
    (opencode,) = [each for each in told["agents"] if each["agent"] == "opencode"]
    assert opencode["notice"] == OF_2
