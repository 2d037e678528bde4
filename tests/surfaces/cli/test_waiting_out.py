"""`--wait` waits for what time alone mends: another turn, and a limit that the agent named."""

import signal
import subprocess

import pytest
from tests.support.decisions_told import decisions_told

from upthread.core.decision.words import RESUME

AGENT = ("--agent", "rehearsal")
LIMITED_S = 3
LIMITED = f"[[rehearse: once rate_limit {LIMITED_S}]]"


def notices(stream) -> list[dict]:
    told = (line for line in stream if line.get("type") == "notice")
    return [line for line in told if line["kind"] != "waiting_for_agent"]


@pytest.mark.soak
def test_tell_waits_for_a_limit_to_pass_says_until_when_and_goes_on(shared):
    done = shared("tell", "past/planner", LIMITED, *AGENT, "--wait")
    assert "past/planner: waiting: the agent is rate limited until " in done.err
    assert (
        "nothing is lost by Ctrl-C, go on with: upthread tell past/planner --continue" in done.err
    )
    assert decisions_told(done.err.partition("waiting: ")[2]) == [RESUME]
    (role,) = shared("show", "past", "--json").json["roles"]
    last = role["last_turn"]
    assert (role["turns"], last["outcome"], last["is_finished"]) == (1, "ok", True)


def test_a_limit_without_an_end_is_not_waited_for(shared):
    parked = shared("tell", "never/planner", "[[rehearse: rate_limit]]", *AGENT, "--wait", code=4)
    assert "until when it did not say" in parked.err


def test_who_gives_up_waiting_loses_nothing(shared):
    far = "[[rehearse: once rate_limit 3000]]"
    child = shared.start("tell", "far/planner", far, *AGENT, "--wait", "--json")
    assert child.stdout
    while b'"limit"' not in (line := child.stdout.readline()):
        assert line
    end(child)
    (role,) = shared("show", "far", "--json").json["roles"]
    assert (role["state"], role["last_turn"]["parked"]["reason"]) == ("parked", "rate_limited")
    shared("tell", "far/planner", "--continue")
    (role,) = shared("show", "far", "--json").json["roles"]
    assert (role["turns"], role["last_turn"]["ending"]) == (1, "finished: it is blocked")


@pytest.mark.extended
def test_a_run_that_waits_says_until_when(make_upthread, tmp_path):
    up = make_upthread(tmp_path)
    up.configure(f"[[pipeline.steps]]\nrole = \"planner\"\ntask = '{LIMITED}'\n")
    done = up("run", "w", "Plan.", *AGENT, "--wait", code=4)
    assert "w: waiting: the agent is rate limited until " in done.err
    assert "go on with: upthread run w" in done.err
    assert "blocked: No specification with requirements" in done.out, "it has gone on"


def end(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert child.returncode == 130
