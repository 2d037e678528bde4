"""The command that goes on, as it is printed beside a state: pasted into a shell, it works."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.support.sets import spread
from tests.support.world import git

from upthread.core.states import State

pytestmark = pytest.mark.extended

REHEARSAL = ("--agent", "rehearsal")
DONE, WAITS_FOR_A_HUMAN = 0, 4
WAITS = "[[rehearse: say Hello.]] [[rehearse: once hang]]"


def says(**report: object) -> str:
    """A directive to hand back a report, the first time that it is asked for."""
    return f"[[rehearse: once say ```upthread\n{json.dumps(report)}\n```]]"


ASKS = says(status="needs_input", questions=[{"id": "q1", "text": "Which?"}])
BLOCKED = says(status="blocked", summary="no key")
APPROVES = says(status="done", summary="good", verdict={"result": "approved", "evidence": ["R1"]})
REJECTS = says(status="done", summary="bad", verdict={"result": "rejected", "evidence": ["R1"]})
REPORTS = says(status="done", summary="planned")


def piped(up, name: str, *tasks: str, code: int | None = 0, steps: int | None = None) -> str:
    """Run a pipeline of these tasks, one role each; returns its configuration, no longer there."""
    judged = "role = 'constructor'"
    judging = "role = 'validator'\non_rejected = 'constructor'"
    lines = (judged, judging) if len(tasks) > 1 else ("role = 'planner'",)
    text = "".join(
        f"[[pipeline.steps]]\n{line}\ntask = '''{task}'''\n"
        for line, task in zip(lines, tasks, strict=False)
    )
    up.configure(text)
    up("run", name, "Do it.", *REHEARSAL, *(("--steps", str(steps)) if steps else ()), code=code)
    up.configure("")
    return text


def ended_by(up, number: int, *words: str) -> None:
    """Start a verb, and end it once its agent has the prompt."""
    child = up.start(*words, "--json")
    assert child.stdout
    while b"Hello." not in (line := child.stdout.readline()):
        assert line
    child.send_signal(number)
    child.communicate(timeout=30)


def killed_run(up, name: str) -> None:
    up.configure('[[pipeline.steps]]\nrole = "planner"\ntask = "' + WAITS + '"\n')
    ended_by(up, signal.SIGKILL, "run", name, "Do it.", *REHEARSAL)
    up.configure("")


def outdated(up, name: str) -> None:
    piped(up, name, REPORTS, APPROVES)
    with (up.directory / "README.md").open("a") as changed:
        changed.write("More.\n")


def test_a_report_that_upthread_wrote_beside_the_work_takes_no_approval_away(up):
    up.configure(piped(up, "v1", REPORTS, APPROVES))
    up("audit", "v1", "--format", "html", "-o", "report.html")
    assert up("show", "v1", "--json").json["state"] == "approved"
    git(up.directory, "add", "-A")
    git(up.directory, "commit", "-qm", "all of it")
    assert up("show", "v1", "--json").json["state"] == "approved"
    (up.directory / "report.html").write_text("another")
    shown = up("show", "v1", "--json").json
    assert (shown["state"], shown["status"]) == ("outdated", "approved")
    assert [each["verdict"]["is_current"] for each in shown["roles"] if each["verdict"]] == [False]


def reset(up, name: str) -> None:
    up("tell", f"{name}/planner", "[[rehearse: say hi]]", *REHEARSAL)
    up("reset", f"{name}/planner", "--yes")


def told(prompt: str, code: int) -> Callable[..., None]:
    return lambda up, name: up("tell", f"{name}/planner", prompt, *REHEARSAL, code=code)


CASES = {
    "waiting": (State.WAITING, told(ASKS, 0), DONE),
    "waiting run": (State.WAITING, lambda up, name: piped(up, name, ASKS, code=4), DONE),
    "parked": (State.PARKED, told("[[rehearse: once rate_limit 1]]", 4), DONE),
    "parked run": (
        State.PARKED,
        lambda up, name: piped(up, name, "[[rehearse: once rate_limit 3]]", code=4),
        None,
    ),
    "permission": (State.PARKED, told("[[rehearse: write new.txt hi]]", 4), None),
    "rejected run": (State.PARKED, lambda up, name: piped(up, name, REJECTS, code=None), None),
    "blocked": (State.BLOCKED, told(BLOCKED, 0), DONE),
    "blocked run": (State.BLOCKED, lambda up, name: piped(up, name, BLOCKED, code=4), None),
    "killed": (
        State.INTERRUPTED,
        lambda up, name: ended_by(up, signal.SIGKILL, "tell", f"{name}/planner", WAITS, *REHEARSAL),
        DONE,
    ),
    "stopped": (
        State.INTERRUPTED,
        lambda up, name: ended_by(up, signal.SIGINT, "tell", f"{name}/planner", WAITS, *REHEARSAL),
        DONE,
    ),
    "killed run": (State.INTERRUPTED, killed_run, None),
    "failed": (State.FAILED, told("[[rehearse: stop refusal]]", 1), DONE),
    "outdated": (State.OUTDATED, outdated, None),
    "idle": (State.IDLE, reset, DONE),
    "halfway run": (
        State.HALFWAY,
        lambda up, name: piped(up, name, REPORTS, APPROVES, steps=1),
        None,
    ),
    "-x it's; $(touch made)/föö": (State.FAILED, told("[[rehearse: stop refusal]]", 1), DONE),
    "approved": (State.APPROVED, lambda up, name: piped(up, name, APPROVES), None),
    "done": (State.DONE, told("[[rehearse: say hi]]", 0), None),
}
"""Each state, how it comes about, and the exit code of the next command; None if any will do."""

FIRST_SET = ("waiting", "parked run", "killed", "-x it's; $(touch made)/föö")


@pytest.fixture(scope="module")
def shell(shared):
    """A shell of a person, in which `upthread` is there."""
    program = shared.home / "bin" / "upthread"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m upthread "$@"\n')
    program.chmod(0o755)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", command],
            cwd=shared.directory,
            env=shared.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def commands_in(text: str) -> list[str]:
    return re.findall(r"^ *go on with +(upthread .*)$", text, re.MULTILINE)


@pytest.mark.soak
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", spread(CASES, first=FIRST_SET, extended=6))
def test_the_command_that_goes_on_works_as_it_is_printed(shared, shell, name: str):
    state, come_about, code = CASES[name]
    name = name.replace(" ", "-") if name[0] != "-" else name
    if name[0] == "-":
        command = shlex.join(["upthread", "tell", "--agent", "rehearsal", "--", f"{name}/planner"])
        assert shell(f"{command} '[[rehearse: stop refusal]]'").returncode == 1
        (shown,) = [
            e for e in shared("ls", "--json").json["workstreams"] if e["workstream"] == name
        ]
        printed = [shown["standing"]["command"]]
        role = shown
    else:
        come_about(shared, name)
        printed = commands_in(shared("show", name).out)
        shown = shared("show", name, "--json").json
        role = shown["roles"][-1]
        assert commands_in(shared("why", role["address"]).out) == [
            each for each in [role["standing"]["command"]] if each
        ]
    assert (shown["state"], printed) == (state, [shown["standing"]["command"]] if printed else [])
    if state in {State.APPROVED, State.DONE}:
        assert printed == []
        return
    done = shell(printed[0])
    allowed = {DONE, WAITS_FOR_A_HUMAN} if code is None else {code}
    assert done.returncode in allowed, (printed, done.stdout, done.stderr)
    assert not (shared.directory / "made").exists()
