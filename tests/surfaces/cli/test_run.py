"""`run` and `answer`: a passage to its end, with what to do next at every stop."""

import re

import pytest
from inline_snapshot import snapshot


@pytest.fixture(scope="module")
def passage(tmp_path_factory, make_upthread):
    """One passage in five calls; each test looks at its part of it."""
    up = make_upthread(tmp_path_factory.mktemp("run"))
    rules = '[permissions]\nedit = "allow"\nexecute = "allow"\n'
    calls = {
        "begun": up("run", "spec-42", "--spec", "spec.md", "--agent", "rehearsal", code=4),
        "unclear": up("answer", "spec-42", "Hello", code=2),
        "answered": up("answer", "spec-42", "opening", "Good day", code=4),
        "all answered": up("answer", "spec-42", "whoever you are"),
        "parked": up("run", "spec-42", code=4),
        "status": up("show", "spec-42", code=0),
    }
    up.configure(rules)
    calls["stepped"] = up("run", "spec-42", "--steps", "1", "--json")
    calls["approved"] = up("run", "spec-42")
    return up, calls


@pytest.mark.soak
def test_questions_come_with_the_command_that_answers_them(passage, tidy):
    _, calls = passage
    assert tidy(calls["begun"].out) == snapshot("""\
spec-42: a run begins
spec-42/clarifier (Leda-clarifier): STARTED ses_1
  asks 2 questions
spec-42: waiting for human

  opening  Which word does a greeting begin with?
    upthread answer spec-42 opening "…"

  stranger  What is somebody called who gives no name?
    upthread answer spec-42 stranger "…"

  then go on: upthread run spec-42
""")
    assert "which question?" in calls["unclear"].err
    assert calls["answered"].out == snapshot("""\
spec-42: answered

  stranger  What is somebody called who gives no name?
    upthread answer spec-42 stranger "…"

  then go on: upthread run spec-42
""")
    assert calls["all answered"].out == snapshot("""\
spec-42: answered
  go on: upthread run spec-42
""")


def test_run_goes_on_with_the_agent_it_began_with_and_says_why_it_stops(passage, tidy):
    _, calls = passage
    assert tidy(calls["parked"].out) == snapshot("""\
spec-42/clarifier (Leda-clarifier): RESUMED ses_1 · 2nd turn
  done: I read nothing new. All 2 questions are answered.
spec-42/planner (Leda-planner): STARTED ses_2
  done: I read greeter/__init__.py, README.md, pyproject.toml. My first plan: (and 5 more lines)
spec-42/auditor (Leda-auditor): STARTED ses_3
  rejected: R3 is missing from the plan: `greet_all` greets several people, each once, in the order they were named.
spec-42/planner (Leda-planner): RESUMED ses_2 · 2nd turn
  done: I read nothing new. My plan, mended: (and 6 more lines)
spec-42/auditor (Leda-auditor): STARTED FRESH ses_4 with a briefing · 2nd turn: what the role judged last time has changed
  approved: R1 is planned; R2 is planned; R3 is planned; R4 is planned; R5 is planned
spec-42/constructor (Leda-constructor): STARTED ses_5
  parked: Write greeter/words.py (edit): nobody was there to allow it
spec-42: parked
  constructor: it needs a permission: Write greeter/words.py (edit): nobody was there to allow it
  allow it at the terminal, or with edit = "allow" under [permissions] in upthread.toml
  go on: upthread run spec-42
""")
    assert calls["parked"].err == ""


def test_approved_run_shows_the_evidence_and_ends_with_0(passage):
    _, calls = passage
    stepped = calls["stepped"].stream[-1]
    assert (stepped["type"], stepped["status"], stepped["exit_code"]) == ("result", "running", 0)
    last = calls["approved"].out.split("spec-42: approved\n")[1]
    assert last == snapshot("""\
  R1: greeter/words.py has it
  R2: greeter/greet.py has it
  R3: greeter/greet.py has it
  R4: greeter/__main__.py has it
  R5: README.md has it
  `python -I check.py` ended with exit code 0: all 3 greetings are right
""")


def timeless(text: str) -> str:
    """Whatever the clock says, and however long it took."""
    return re.sub(r"SINCE +", "SINCE  ", re.sub(r"(\S+ )?\d\d:\d\d \([^)]*\) *", "12:04 ", text))


def test_looking_at_a_workstream_in_words(passage, tidy):
    up, calls = passage
    shown = timeless(re.sub(r"con_\w+", "con_1", tidy(up("show", "spec-42/validator").out)))
    assert timeless(tidy(calls["status"].out)) == snapshot("""\
spec-42 (Leda): parked
  because      it needs a permission: Write greeter/words.py (edit): nobody was there to allow it
  since        12:04 , by rehearsal
  what helps   allow it at the terminal, or with edit = "allow" under [permissions] in upthread.toml
  go on with   upthread run spec-42

ADDRESS              NAME              STATE     SINCE  TURNS  LAST TURN                       AGENT      SESSION
spec-42/clarifier    Leda-clarifier    done      12:04 2      finished: done                  rehearsal  ses_1
spec-42/planner      Leda-planner      done      12:04 2      finished: done                  rehearsal  ses_2
spec-42/auditor      Leda-auditor      approved  12:04 2      finished: approved              rehearsal  ses_3
spec-42/constructor  Leda-constructor  parked    12:04 1      stopped: it needs a permission  rehearsal  ses_4
  auditor: approved

  took: upthread savings spec-42
""")
    assert shown == snapshot("""\
spec-42/validator (Leda-validator): approved
  because      approved, and that still holds: R1: greeter/words.py has it; R2: greeter/greet.py has it; R3: greeter/greet.py has it; R4: greeter/__main__.py has it; R5: README.md has it; `python -I check.py` ended with exit code 0: all 3 greetings are right
  since        12:04 , by rehearsal
  conversation con_1
  session 1    ses_1 (rehearsal; opened: no session yet; ended: the role starts fresh every time)
  session 2    ses_2 (rehearsal; opened: the role starts fresh every time)
  last turn    2 turns; STARTED FRESH with a briefing (the role starts fresh every time), finished: approved
  verdict      approved
  read         4 files; 1 command whose reading is not known
  open it with nothing: rehearsal has no interface of its own
""")
    assert tidy(up("why", "spec-42/validator").out) == snapshot("""\
spec-42/validator (Leda-validator): approved
  state approved, and that still holds: R1: greeter/words.py has it; R2: greeter/greet.py has it; R3: greeter/greet.py has it; R4: greeter/__main__.py has it; R5: README.md has it; `python -I check.py` ended with exit code 0: all 3 greetings are right
  last  STARTED FRESH ses_1 with a briefing · 2nd turn: the role starts fresh every time
  read  4 files; 1 command whose reading is not known
  next  it would start a fresh session with a briefing: the role starts fresh every time
""")
    assert timeless(up("ls").out) == snapshot("""\
WORKSTREAM  NAME  STATE     SINCE  AGENT      OPEN  TURNS  ROLES
spec-42     Leda  approved  12:04 rehearsal        10     clarifier, planner, auditor, constructor, validator
""")
    assert up("id", "spec-42/planner").out.startswith("ses_")


def test_second_specification_while_a_run_is_open_is_refused(passage):
    up, _ = passage
    up("run", "other", "one thing", "--agent", "rehearsal", code=4)
    refused = up("run", "other", "another thing", "--agent", "rehearsal", code=2)
    assert "on another specification" in refused.err


def test_agents_by_role_and_their_faults(passage):
    up, _ = passage
    twice = up("run", "by-role", "x", "--agent", "rehearsal", "--agent", "opencode", code=2)
    nobody = up("run", "by-role", "x", "--agent", "rehearsal", "--agent", "nurse=x", code=2)
    words = ("--agent", "rehearsal", "--agent", "clarifier=opencode")
    mixed = up("run", "by-role", "# Nothing", *words, "--steps", "1", "--json", code=None)

    assert "two agents for all roles" in twice.err
    assert "no step for the role 'nurse'" in nobody.err
    assert mixed.stream[0]["agent"] == "opencode"
