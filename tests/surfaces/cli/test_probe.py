"""`doctor --probe`: the quirks of an agent, found by trying; the rehearsal plays them on request."""

import shlex
import sys
from pathlib import Path

import pytest

SCRIPTED = Path(__file__).parents[2] / "agents" / "scripted_agent.py"
LIMITED = ("--rate-limit-prompt", "[[rehearse: rate_limit 9]]")


def verdicts(told):
    return {each["check"]: each["verdict"] for each in told["findings"]}


def seen(told, check):
    return next(each["seen"] for each in told["findings"] if each["check"] == check)


@pytest.fixture(scope="module")
def up(shared):
    return shared


def test_an_agent_that_keeps_its_promises_has_no_quirks_but_those_it_has(up):
    told = up("doctor", "--probe", "rehearsal", *LIMITED, "--yes", "--json").json
    assert set(told["can"]) == {"resume", "load", "list", "fork"}
    found = verdicts(told)
    assert found.pop("usage") == "quirk"  # the rehearsal counts no tokens
    assert set(found.values()) == {"good"}, told
    assert "heron-" in seen(told, "remembers")
    assert "rate_limited" in seen(told, "rate_limit")


def test_what_an_agent_does_not_offer_is_said_and_what_is_opaque_is_a_quirk(up):
    less = up.beside(UPTHREAD_REHEARSAL_CAPABILITIES="no_resume,no_fork,no_list,opaque_errors")
    told = less("doctor", "--probe", "rehearsal", "--yes", "--json").json
    found = verdicts(told)
    assert (found["resumed"], found["forked"], found["listed"]) == ("not_offered",) * 3
    assert (found["loaded"], found["remembers"]) == ("good", "good")
    assert found["unknown_id"] == "quirk"
    assert "unknown" in seen(told, "unknown_id")
    assert found["rate_limit"] == "not_tried"


def test_an_agent_that_takes_any_id_and_remembers_nothing_is_found_out(up):
    command = shlex.join([sys.executable, str(SCRIPTED), "well"])
    told = up("doctor", "--probe", f"acp:{command}", "--yes").out
    assert "quirk       remembers: " in told
    assert "good would be: after the kill it knows what it was told before" in told


def test_a_person_is_asked_and_an_agent_that_does_not_start_is_an_error(up):
    asked = up("doctor", "--probe", "rehearsal", code=2)
    assert "two short prompts go to its model" in asked.out
    assert "--yes" in asked.err
    dead = up("doctor", "--probe", "acp:/nonexistent/agent", "--yes", code=None)
    assert dead.code != 0
    assert "/nonexistent/agent" in dead.err
    assert up("doctor", "opencode", "--probe", "rehearsal", code=2)
