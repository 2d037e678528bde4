"""A turn of upthread's own and a plug-in's call, on one session at the same moment: never both."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.support.decisions_told import decisions_told
from tests.support.world import eventually
from tests.surfaces.hook.conftest import TIMEOUT_S, HookPlace

from upthread.core.decision.words import (
    FIRST,
    RESUME_WITH_REPLAY,
    START_FRESH,
    UNDECIDED,
    done_in_words,
)

SLOW = "[[rehearse: slow 40 100]]"


@pytest.fixture
def ours(place: HookPlace) -> HookPlace:
    """A place where `upthread tell` works, with the agent that needs no model."""
    (place.project / "upthread.toml").write_text('agent = "rehearsal"\n')
    place.upthread("use", "spec-42")
    place.environment["UPTHREAD_REHEARSAL_HOME"] = str(place.home.parent / "sessions")
    return place


def tell(place: HookPlace, prompt: str, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "upthread", "tell", "spec-42/planner", prompt, "--json", *more],
        cwd=place.project,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until_it_runs(place: HookPlace) -> None:
    eventually(lambda: '"running"' in json.dumps(place.upthread("ls")))


def result_of(told: subprocess.Popen[str]) -> list[dict]:
    out, err = told.communicate(timeout=TIMEOUT_S)
    assert told.returncode == 0, (out, err)
    return [json.loads(line) for line in out.splitlines()]


def test_a_person_frees_a_call_of_an_agent_on_a_host_that_is_gone(ours):
    ours.hook(ours.request("before", "c1", prompt="Plan."), UPTHREAD_HOST="far")
    cure = "if far is gone: upthread reset spec-42/planner --turn"
    assert cure in ours.run("tell", "spec-42/planner", "Go on.").err
    assert cure in ours.hook(ours.request("before", "c2", prompt="Plan.")).answer["line"]
    assert "on far" in ours.run("reset", "spec-42/planner", "--turn", "--dry-run").out
    ours.upthread("reset", "spec-42/planner", "--turn", "--yes")
    assert "no agent on another host" in ours.run("reset", "spec-42/planner", "--turn", "--yes").err
    assert ours.run("tell", "spec-42/planner", "Go on.").code == 0
    assert '"freed"' in json.dumps(ours.upthread("audit", "spec-42"))


@pytest.mark.soak
def test_a_call_finds_a_turn_under_way_and_works_beside_it(ours):
    told = tell(ours, SLOW)
    wait_until_it_runs(ours)
    line = ours.hook(ours.request("before", "c1", prompt="Plan it.")).answer["line"]
    assert line.startswith(f"upthread: spec-42/planner~2: {done_in_words(FIRST, None)}")
    assert f"spec-42/planner is in use by `upthread tell spec-42/planner` (pid {told.pid})" in line
    assert result_of(told)[-1]["status"] == "done"
    ours.hook(ours.request("started", "c1", child="ses_1"))
    ours.hook(ours.request("ended", "c1", child="ses_1", outcome="ok", prompt="Plan it."))
    again = ours.hook(ours.request("before", "c2", prompt="Go on.")).answer["line"]
    assert again.startswith("upthread: spec-42/planner"), "the turn is over: nothing is in use"
    assert "in use" not in again


def test_a_turn_is_refused_while_a_call_uses_the_session_and_says_who(ours):
    ours.hook(ours.request("before", "c1", prompt="Plan it."))
    refused = ours.run("tell", "spec-42/planner", "Me too.")
    assert refused.code == 6
    assert f"pid {os.getpid()}" in refused.err
    assert "a call in opencode" in refused.err
    assert ours.hook(ours.request("ended", "c1", child="ses_1", outcome="ok")).code == 0
    ours.hook(ours.request("before", "c2", prompt="Go on."))
    assert ours.run("reset", "spec-42/planner", "--yes").code == 6


@pytest.mark.extended
def test_a_turn_that_waits_goes_on_in_the_session_the_call_has_left(ours):
    """Its words are taken in first, else the turn would know nothing of the call."""
    ours.hook(ours.request("before", "c1", prompt="Plan it."))
    ours.hook(ours.request("started", "c1", child="ses_1"))
    told = tell(ours, "[[rehearse: say hi]]", "--wait", "--agent", "rehearsal")
    time.sleep(2)
    assert told.poll() is None, "it waits"
    end = {"child": "ses_1", "outcome": "ok", "reply": "Planned.", "prompt": "Plan it."}
    ours.hook(ours.request("ended", "c1", **end))
    (started,) = [line for line in result_of(told) if line["type"] == "turn_started"]
    assert started["reasons"][0] == "other_agent", "it knew whose session it was"
    view = ours.upthread("show", "spec-42/planner")
    assert view["chain"][0]["upstream_session_id"] == "ses_1"
    assert view["turns"] == 2


@pytest.mark.extended
def test_after_a_turn_that_was_killed_a_call_is_told_what_it_came_to(ours):
    ours.commits_max = 2
    told = tell(ours, SLOW)
    wait_until_it_runs(ours)
    time.sleep(1)
    os.killpg(told.pid, signal.SIGKILL)
    told.communicate()
    answer = ours.hook(ours.request("before", "c1", prompt="Go on.")).answer
    assert decisions_told(answer["line"]) == [RESUME_WITH_REPLAY]
    assert SLOW in answer["prompt"], "it is not as if there had been nothing"


def test_settings_that_were_changed_hold_at_once(place):
    place.call("c0", "ses_1")
    (place.project / "upthread.toml").write_text('[roles.planner]\ncontinuity = "fresh"\n')
    line = place.hook(place.request("before", "c1", prompt="Go on.")).answer["line"]
    assert decisions_told(line) == [START_FRESH]
    assert "the role starts fresh every time" in line


def test_settings_that_cannot_be_read_are_told_and_the_agent_goes_on(place):
    place.call("c0", "ses_1")
    (place.project / "upthread.toml").write_text("[roles\n")
    said = place.hook(place.request("before", "c1", prompt="Go on."))
    assert said.answer["line"].startswith(f"upthread: {UNDECIDED}")
    assert "upthread.toml" in said.answer["line"]
