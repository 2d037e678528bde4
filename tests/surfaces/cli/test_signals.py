"""A verb that is ended by a signal ends its turn, and says which one it was, by every id."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

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
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
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


def test_a_run_that_is_ended_names_the_turn_it_was_at(shared):
    shared.configure(ONE_STEP)
    came, lines = ended_by(signal.SIGINT, shared, "run", "passage", "Do it.", *REHEARSAL)
    shared.configure("")
    *_, ended, result = lines

    assert came == 130
    assert (ended["type"], ended["role"], ended["outcome"]) == (
        "turn_ended",
        "planner",
        "cancelled",
    )
    assert result["error"]["ids"]["upstream_session_id"] == ended["upstream_session_id"]


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
