"""`tell`: one decision line, the reply, and nothing else; each ending has its words and code."""

import json
import signal
import subprocess
import sys

import pytest
from inline_snapshot import snapshot
from tests.support.decisions_told import decisions_told

from upthread.core.decision.words import FIRST, REFUSE, RESUME, done_in_words

REHEARSAL = ("--agent", "rehearsal")


@pytest.mark.extended
def test_decision_line_is_beside_the_reply_and_tells_first_resume_and_fresh(shared, tidy):
    first = shared("tell", "t1/planner", "[[rehearse: say one]]", *REHEARSAL)
    again = shared("tell", "t1/planner", "-", stdin=b"[[rehearse: say from a pipe]]")
    name = shared("show", "t1/planner", "--json").json["instance_name"]
    named = shared("tell", name, "[[rehearse: say by name]]")
    fresh = shared("tell", "t1/planner", "[[rehearse: say new]]", "--fresh")

    assert named.out == "by name\n"
    assert first.out == snapshot(
        """\
This is a rehearsal: no model is behind it.

one
"""
    )
    assert again.out == "from a pipe\n"
    assert tidy(first.err + again.err + named.err + fresh.err) == snapshot("""\
t1/planner (Silas-planner): STARTED ses_1
t1/planner (Silas-planner): RESUMED ses_1 · 2nd turn
t1/planner (Silas-planner): RESUMED ses_1 · 3rd turn
t1/planner (Silas-planner): STARTED FRESH ses_2 with a briefing · 4th turn: a fresh session was asked for
""")


@pytest.mark.extended
def test_lost_session_is_never_silently_fresh(shared, tidy):
    shared("tell", "t2/planner", "[[rehearse: say remember]]", *REHEARSAL)
    prompt = "[[rehearse: if_resumed lose_session]] [[rehearse: say hello]]"
    lost = shared("tell", "t2/planner", prompt)
    shown = shared("show", "t2/planner", "--json").json

    assert lost.out.endswith("hello\n")
    assert tidy(lost.err) == snapshot("""\
t2/planner (Zev-planner): RESUMED ses_1 · 2nd turn
t2/planner (Zev-planner): ROLLED OVER to ses_2 with replay · 2nd turn: the agent no longer has the session
""")
    assert [link["ended_because"] for link in shown["chain"]] == ["missing", None]


@pytest.mark.soak
def test_failures_of_the_agent_have_words_a_hint_and_their_code(shared):
    limited = shared("tell", "t3/planner", "[[rehearse: rate_limit]]", *REHEARSAL, code=4)
    unborn = shared("tell", "t3/auditor", "hi", "--agent", "acp:false", code=1)
    died = shared("tell", "t3/planner", "[[rehearse: crash]]")

    assert "PARKED: the agent is rate limited, until when it did not say" in limited.err
    assert "upthread tell t3/planner --continue" in limited.err
    assert "wait, or go on with another --agent" in limited.err
    assert "error: t3/auditor:" in unborn.err
    assert unborn.err.count("error:") == 1
    assert "the turn did not come to its end; it goes on from there" in died.err
    assert "Traceback" not in limited.err + unborn.err + died.err


def test_unanswered_permission_parks_and_continue_goes_on(shared):
    parked = shared("tell", "t4/planner", "[[rehearse: write a.txt hello]]", *REHEARSAL, code=4)
    listed = shared("ls", "t4")
    shared.configure('[permissions]\nedit = "allow"\n')
    went_on = shared("tell", "t4/planner", "--continue")
    (shared.directory / "upthread.toml").unlink()
    nothing_left = shared("tell", "t4/planner", "--continue", code=2)

    assert (
        "t4/planner: PARKED: it needs a permission: Write a.txt (edit): nobody was there to allow it"
        in parked.err
    )
    assert "upthread tell t4/planner --continue" in parked.err
    assert "parked" in listed.out
    assert decisions_told(went_on.err) == [RESUME]
    assert "the turn did not come to its end; it goes on from there" in went_on.err
    assert "the last one has ended" in nothing_left.err


def test_busy_is_refused_or_a_sibling_and_ctrl_c_ends_the_turn_as_cancelled(shared):
    opencode = ("--agent", "opencode")
    running = shared.start("tell", "t5/planner", "[[rehearse: hang]]", *opencode)
    assert running.stderr is not None
    assert decisions_told(running.stderr.readline()) == [FIRST]
    refused = shared("tell", "t5/planner", "hi", code=6)
    as_json = shared("tell", "t5/planner", "hi", "--json", code=6)
    opened = shared("open", "t5/planner", code=6)
    sibling = shared("tell", "t5/planner", "[[rehearse: say me too]]", "--sibling", *opencode)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    shown = shared("show", "t5", "--json").json

    words = f"t5/planner: {done_in_words(REFUSE, None)}: busy — pid {running.pid} on "
    assert refused.err.startswith(words)
    assert "--wait" in refused.err
    assert as_json.json["error"]["kind"] == "busy"
    assert as_json.json["status"] == "refused"
    assert "open it when the turn has ended" in opened.err
    assert "t5/planner~2 (" in sibling.err
    assert running.returncode == 130
    assert err.decode() == "interrupted\n"
    assert [(role["slot"], role["state"]) for role in shown["roles"]] == [
        (1, "interrupted"),
        (2, "done"),
    ]
    assert shown["roles"][0]["last_turn"]["outcome"] == "cancelled"


@pytest.mark.extended
def test_what_an_agent_says_cannot_act_on_the_terminal(shared):
    said = "[[rehearse: say \x1b]0;title\x07\x9b31m\u202egnp.exe\r]] [[rehearse: surrogate]]"
    plain = shared("tell", "t6/planner", said, *REHEARSAL)
    exact = shared("tell", "t6/planner", said, "--json")

    assert r"\x1b]0;title\x07\x9b31m\u202egnp.exe" in plain.out
    assert r"half a pair \ud83d, a NUL \x00, and the end" in plain.out
    assert "\x1b" not in plain.out + plain.err + exact.out
    assert "\x1b]0;title\x07\x9b31m\u202egnp.exe" in exact.stream[-1]["reply"]
    assert "half a pair \ud83d, a NUL \x00" in exact.stream[-1]["reply"]


@pytest.mark.extended
def test_reader_that_goes_away_costs_no_turn(shared):
    child = shared.start("tell", "t7/planner", "[[rehearse: slow 6 100]]", *REHEARSAL)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    code = child.wait(30)
    err = child.stderr.read().decode()
    child.stderr.close()
    kept = shared("audit", "t7").out

    assert code == 0
    assert len(err.splitlines()) == 1, err
    assert "chunk 6 of 6" in kept


@pytest.mark.soak
def test_terminal_has_colour_unless_no_color_and_asks_for_permission(shared):
    prompt = "[[rehearse: write b.txt hello]] [[rehearse: say written]]"
    terminal = shared.on_terminal("tell", "t9/planner", prompt, *REHEARSAL)
    terminal.wait_for("y = allow once, n = reject once:")
    terminal.type("what?")
    terminal.type("y")
    allowed = terminal.end()
    plain = shared.on_terminal("tell", "t9/planner", "[[rehearse: say hi]]", NO_COLOR="1")
    plain_code = plain.end()

    assert allowed == 0
    assert "? the agent asks: Write b.txt (edit)" in terminal.seen
    assert (shared.directory / "b.txt").read_text() == "hello"
    assert "\x1b[36mt9/planner (" in terminal.seen
    assert "answered by `the person at the terminal`" in shared("audit", "t9").out
    assert plain_code == 0
    assert decisions_told(plain.seen) == [RESUME]
    assert "\x1b[3" not in plain.seen, "a colour"


def test_rejection_at_the_terminal_is_honoured(shared):
    prompt = "[[rehearse: write c.txt hello]]"
    terminal = shared.on_terminal("tell", "t10/planner", prompt, *REHEARSAL)
    terminal.wait_for("n = reject once:")
    terminal.type("n")

    assert terminal.end() == 0
    assert not (shared.directory / "c.txt").exists()


@pytest.mark.soak
def test_watching_shows_each_change_until_it_is_interrupted(make_upthread, tmp_path):
    up = make_upthread(tmp_path)
    watching = subprocess.Popen(
        [sys.executable, "-m", "upthread", "ls", "--watch", "--json"],
        cwd=up.directory,
        env=up.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout
    assert json.loads(watching.stdout.readline())["workstreams"] == []
    up("tell", "watched/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    while True:
        (seen,) = json.loads(watching.stdout.readline())["workstreams"]
        if seen["roles"] and seen["roles"][0]["turns"] == 1 and seen["status"] == "idle":
            break
    watching.terminate()
    watching.communicate(timeout=30)
