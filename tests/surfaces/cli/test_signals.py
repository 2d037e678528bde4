"""A verb that is ended by a signal ends its turn, and says which one it was, by every id."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.sets import EXTENDED, spread

from upthread.core.types import Outcome, TurnId, UpstreamSessionId
from upthread.runtime.turns.delegation import TurnResult
from upthread.surfaces.cli.failures import EndedBySignalError, failure_of
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.screen import Screen
from upthread.testing.store_conformance import samples

REHEARSAL = ("--agent", "rehearsal")
ONE_STEP = '[[pipeline.steps]]\nrole = "planner"\ntask = "[[rehearse: once hang]]"\n'


def ended_by(number: int, up, *arguments: str) -> tuple[int, list[Any]]:
    """Send a signal to a verb that streams JSON, once its turn has a session."""
    child = up.start(*arguments, "--json")
    assert child.stdout
    lines = []
    while not lines or lines[-1]["type"] != "turn_started":
        lines.append(json.loads(child.stdout.readline()))
    child.send_signal(number)
    out, _ = child.communicate(timeout=30)
    lines += [json.loads(line) for line in out.splitlines()]
    return child.returncode, lines


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGINT, 130, marks=EXTENDED),
        pytest.param(signal.SIGHUP, 129, marks=EXTENDED),
    ],
)
def test_a_signal_ends_the_turn_as_cancelled_and_its_ids_are_told(shared, number, code):
    address = f"by-{code}/planner"
    came, lines = ended_by(number, shared, "tell", address, "[[rehearse: hang]]", *REHEARSAL)
    started = next(line for line in lines if line["type"] == "turn_started")
    *_, ended, result = lines
    after = shared("show", address, "--json").json

    assert came == code
    assert (ended["type"], ended["outcome"]) == ("turn_ended", "cancelled")
    named = ("conversation_id", "turn_id", "upstream_session_id")
    assert [ended[name] for name in named] == [started[name] for name in named]
    assert (result["type"], result["status"], result["exit_code"]) == (
        "result",
        "interrupted",
        code,
    )
    assert result["error"]["ids"] == {
        "address": address,
        **{name: started[name] for name in named},
    }
    assert (after["state"], after["last_turn"]["outcome"]) == ("interrupted", "cancelled")
    assert after["upstream_session_id"] == started["upstream_session_id"]


@pytest.mark.parametrize(
    ("outcome", "is_done"), [(Outcome.OK, True), (Outcome.CANCELLED, False), (Outcome.AUTH, False)]
)
def test_a_signal_after_a_turn_has_ended_well_says_that_it_is_done(shared, outcome, is_done):
    """Only its agent's end was waited for, which an agent that ignores it can draw out."""
    screen = Screen(Output(is_json=True))
    cancelled = TurnResult(
        conversation=samples.conversation(),
        turn_id=TurnId("trn_1"),
        decision="first",
        reasons=(),
        upstream_session_id=UpstreamSessionId("ses_1"),
        outcome=outcome,
        reply="",
        report=None,
        parked=None,
        detail="",
        reset_at_ms=None,
        turn_number=1,
    )
    listener = screen.listener()

    def is_ended():
        with screen.ended_by_signals():
            listener.cancelled(cancelled)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(EndedBySignalError) as ended:
        is_ended()
    told = failure_of(ended.value)
    assert told is not None
    assert told.exit_code == 130
    assert ("need not be asked for again" in told.message) is is_done


@pytest.mark.soak
def test_a_signal_that_the_caller_ignores_stays_ignored(shared):
    ignoring = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    words = shared.words("tell", "nohup/planner", "[[rehearse: slow 20 50]]", *REHEARSAL, "--json")
    child = subprocess.Popen(
        [sys.executable, "-c", f"{ignoring} os.execv(sys.argv[1], sys.argv[1:])", *words],
        cwd=shared.directory,
        env=shared.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout
    while json.loads(child.stdout.readline())["type"] != "turn_started":
        pass
    child.send_signal(signal.SIGHUP)
    child.communicate(timeout=30)
    assert child.returncode == 0


INTERRUPTED_WHILE = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)  # once
            os.kill(os.getpid(), signal.SIGINT)
            os.write(2, b"went on")

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
sys.argv = ["upthread", *{words!r}]
from upthread.__main__ import main
sys.exit(main())
"""


def interrupted_while(up, module: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the program with a Ctrl-C that comes when a module is looked for the first time."""
    return subprocess.run(
        [sys.executable, "-I", "-c", INTERRUPTED_WHILE.format(module=module, words=words)],
        cwd=up.directory,
        env=up.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", spread([("ls", "--json"), ("id", "w/planner"), ("ls",)]))
@pytest.mark.parametrize(
    "module",
    spread(
        [
            "upthread.boundary.programs",
            "upthread.surfaces.cli.terminal.output",
            "upthread.surfaces.cli.program",
        ],
        first=2,
    ),
)
def test_a_ctrl_c_is_answered_whatever_is_being_loaded(shared, module, words):
    done = interrupted_while(shared, module, words)
    assert done.returncode == 130, done
    assert "Traceback" not in done.stderr
    if "--json" in words:
        assert json.loads(done.stdout)["error"]["kind"] == "interrupted"
    else:
        assert "interrupted" in done.stderr


def test_a_ctrl_c_while_a_class_is_made_is_no_bug_of_ours():
    error = RuntimeError("Error calling __set_name__ on something")
    error.__cause__ = KeyboardInterrupt()
    assert failure_of(error) == failure_of(KeyboardInterrupt())


INTERRUPTED_IN_EXEC = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "upthread.agents.acp.adapter" and self in sys.meta_path:
            sys.meta_path.remove(self)
            exec("os.kill(os.getpid(), signal.SIGTERM)\\nfor each in range(9999): pass")

sys.meta_path.insert(0, Finder())
"""


def test_a_signal_that_ends_a_text_given_to_exec_is_told_by_the_exit_code(shared, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED_IN_EXEC)
    done = subprocess.run(
        [sys.executable, "-m", "upthread", "tell", "exec/planner", "hello", *REHEARSAL, "--json"],
        cwd=shared.directory,
        env={**shared.environment, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (143, "")
    assert json.loads(done.stdout)["error"]["message"] == "interrupted by SIGTERM"
