"""How things stand, told to a person and to programs: the state, why, since when, and what helps."""

import re
import signal

import pytest
from tests.support.decisions_told import decisions_told
from tests.support.golden import seen_at

from upthread.core.decision.words import FIRST

REHEARSAL = ("--agent", "rehearsal")
ONE_STEP = '[[pipeline.steps]]\nrole = "planner"\ntask = "[[rehearse: once hang]]"\n'


def interrupted(up, *arguments: str) -> None:
    """Start a verb, and end it with Ctrl-C once its turn has a session."""
    child = up.start(*arguments)
    assert child.stderr
    assert child.stdout
    stream = child.stdout if arguments[0] == "run" else child.stderr
    while FIRST not in decisions_told(line := stream.readline()):
        assert line, "it ended before its turn had a session"
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert child.returncode == 130


def killed(up, *arguments: str) -> None:
    child = up.start(*arguments)
    assert child.stderr
    assert decisions_told(child.stderr.readline()) == [FIRST]
    child.kill()
    child.communicate(timeout=30)


def row(listed: str, name: str) -> str:
    return next(line for line in listed.splitlines() if line.startswith(name))


@pytest.mark.soak
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
    assert "nothing has changed since" not in why.partition("  next ")[2]
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


@pytest.mark.soak
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


def test_the_cure_names_the_file_with_an_agents_last_words_only_where_there_are_some(
    make_upthread, tmp_path
):
    up = make_upthread(tmp_path)
    with (up.home / "upthread" / "config.toml").open("a") as settings:
        settings.write('[agents.silent]\ncommand = ["sh", "-c", "exit 7"]\n')
        settings.write('[agents.loud]\ncommand = ["sh", "-c", "echo boom >&2; exit 7"]\n')
    told = up("tell", "w/planner", "Hi.", "--agent", "silent", code=1).err
    shown = up("show", "w/planner").out
    for text in (told, shown):
        assert "the agent died" in text
        assert "tell it again" in text
        assert "agent-stderr" not in text

    told = up("tell", "w/auditor", "Hi.", "--agent", "loud", code=1).err
    (log,) = (up.home / "upthread" / "agent-stderr").glob("loud-*.log")
    shown = up("show", "w/auditor").out
    for text in (told, shown):
        assert f"its last words are in {log}; tell it again" in text


def test_what_was_done_is_read_to_its_end_and_nothing_is_said_in_one_sentence(shared):
    name = "/".join(["a-directory-with-a-long-name"] * 6) + "/the-file-itself.txt"
    shared.configure('[permissions]\nedit = "allow"\n')
    shared("tell", "long/planner", f"[[rehearse: write {name} hi]]", *REHEARSAL)
    shared("tell", "none/planner", "[[rehearse: say hi]]", *REHEARSAL)
    shared.configure("")
    words = shared.words("show", "long", "--effects")
    seen = seen_at(80, words, directory=shared.directory, environment=shared.environment)
    unwrapped = re.sub(r"\s+", "", seen)
    assert "localbefore" in unwrapped
    assert name in unwrapped
    nothing = shared("show", "none", "--effects")
    assert nothing.out == "nothing was done to the world in none\n"
    assert nothing.err == ""
