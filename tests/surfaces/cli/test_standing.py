"""How things stand, told to a person and to programs: the state, why, since when, and what helps."""

from __future__ import annotations

import re
import signal

REHEARSAL = ("--agent", "rehearsal")
ONE_STEP = '[[pipeline.steps]]\nrole = "planner"\ntask = "[[rehearse: once hang]]"\n'


def interrupted(up, *arguments: str) -> None:
    """Start a verb, and end it with Ctrl-C once its turn has a session."""
    child = up.start(*arguments)
    assert child.stderr
    assert child.stdout
    stream = child.stdout if arguments[0] == "run" else child.stderr
    while b"STARTED" not in (line := stream.readline()):
        assert line, "it ended before its turn had a session"
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert child.returncode == 130


def killed(up, *arguments: str) -> None:
    child = up.start(*arguments)
    assert child.stderr
    assert b"STARTED" in child.stderr.readline()
    child.kill()
    child.communicate(timeout=30)


def row(listed: str, name: str) -> str:
    return next(line for line in listed.splitlines() if line.startswith(name))


def test_ls_says_the_state_of_each_workstream_since_when_and_by_which_agent(shared):
    killed(shared, "tell", "killed/planner", "[[rehearse: hang]]", *REHEARSAL)
    interrupted(shared, "tell", "stopped/planner", "[[rehearse: hang]]", *REHEARSAL)
    shared("tell", "failed/planner", "[[rehearse: stop refusal]]", *REHEARSAL, code=None)
    shared("tell", "parked/planner", "[[rehearse: rate_limit 3000]]", *REHEARSAL, code=4)
    shared("tell", "said/planner", "[[rehearse: say hi]]", *REHEARSAL)
    listed = shared("ls").out
    head, *_ = listed.splitlines()
    states = {name: row(listed, name) for name in ("killed", "stopped", "failed", "parked", "said")}

    assert head.split()[:5] == ["WORKSTREAM", "NAME", "STATE", "SINCE", "AGENT"]
    assert " interrupted " in states["killed"]
    assert " interrupted " in states["stopped"]
    assert " failed " in states["failed"]
    assert " parked " in states["parked"]
    assert " done " in states["said"]
    for line in states.values():
        assert re.search(r" \d\d:\d\d \((just now|\d min ago)\) +rehearsal ", line), line
    one = shared("ls", "killed").out
    assert one.splitlines()[0].split()[:4] == ["ADDRESS", "NAME", "STATE", "SINCE"]
    assert " interrupted " in row(one, "killed/planner")


def test_show_and_why_of_a_limit_say_until_when_and_what_goes_on(shared):
    shared("tell", "limit/planner", "[[rehearse: say hi]]", *REHEARSAL)
    shared("tell", "limit/planner", "[[rehearse: rate_limit 7200]]", code=4)
    shown = shared("show", "limit/planner").out
    whole = shared("show", "limit").out
    why = shared("why", "limit/planner").out
    as_json = shared("why", "limit/planner", "--json").json
    told = shared("tell", "limit/planner", "[[rehearse: say again]]")

    limit = r"the agent is rate limited until (\S+ )?\d\d:\d\d \(in (2 h|1 h 5\d min)\)"
    for text in (shown, whole, why):
        assert re.search(limit, text), text
    assert "wait, or go on with another --agent" in shown
    assert "go on with   upthread tell limit/planner --continue" in shown
    # What `why` says is what `tell` does.
    asked = "the agent said that it is limited; it is asked all the same"
    assert asked in why
    assert "nothing stands against it" not in why.partition("  now ")[2]
    assert as_json["now"]["reasons"][0] == "agent_limited"
    assert as_json["now"]["limit"]["reason"] == "rate_limited"
    assert as_json["standing"]["until_ms"] == as_json["now"]["limit"]["until_ms"]
    assert asked in told.err
    assert "agent_limited" not in shared("why", "limit/planner", "--json").json["now"]["reasons"]


def test_a_limit_is_that_of_the_agent_and_no_other(shared):
    shared("tell", "other/planner", "[[rehearse: say hi]]", *REHEARSAL)
    shared("tell", "other/planner", "[[rehearse: rate_limit 7200]]", code=4)
    now = shared("why", "other/planner", "--agent", "opencode", "--json").json["now"]
    assert (now["limit"], now["reasons"][0]) == (None, "other_agent")


def test_a_run_that_was_stopped_with_ctrl_c_is_interrupted_and_says_what_goes_on(shared):
    shared.configure(ONE_STEP)
    interrupted(shared, "run", "stop", "Do it.", *REHEARSAL)
    shown = shared("show", "stop", "--json").json
    shared.configure("")

    assert " interrupted " in row(shared("ls").out, "stop ")
    assert (shown["state"], shown["status"]) == ("interrupted", "idle")
    assert shown["standing"]["command"] == "upthread run stop"
    assert shown["standing"]["agent"] == "rehearsal"
    assert [role["state"] for role in shown["roles"]] == ["interrupted"]


def test_an_agent_that_answers_nothing_or_declines_is_told_and_is_no_success(shared):
    shared("tell", "empty/planner", "[[rehearse: say hi]]", *REHEARSAL)
    silent = shared("tell", "empty/planner", "[[rehearse: empty]]", code=1)
    as_json = shared("tell", "empty/planner", "[[rehearse: empty]]", "--json", code=1).stream[-1]
    shown = shared("show", "empty/planner", "--json").json
    declined = shared("tell", "empty/planner", "[[rehearse: stop refusal]]", code=1)
    worked = shared("tell", "empty/planner", "[[rehearse: read README.md]] [[rehearse: empty]]")
    cut = shared(
        "tell",
        "empty/planner",
        "[[rehearse: say ok]] [[rehearse: usage 10 100]] [[rehearse: stop max_tokens]]",
    )

    assert "error: empty/planner: the agent answered nothing (ask in other words" in silent.err
    assert (as_json["status"], as_json["outcome"], as_json["exit_code"]) == ("failed", "ok", 1)
    assert as_json["detail"] == "the agent answered nothing"
    assert (shown["state"], shown["standing"]["reason"]) == ("failed", as_json["detail"])
    assert "error: empty/planner: the agent declined to go on" in declined.err
    assert "empty/planner: the agent worked, and answered nothing" in worked.err
    assert "the reply was cut off by the model's output limit" in cut.err
