"""The real agents, cancelled: what they did is on record, and the next turn knows what arrived."""

import json
import random
import signal
import subprocess
import time

import pytest
from tests.live.agents import ADDRESS, WAYS
from tests.live.shell import PATIENCE_S, Shell, wait_until
from tests.support.sets import EXTENDED, SOAK

from upthread.testing.rehearsal_model import RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ROLE = '<role name=\\"planner\\">'
EARLY_STOPS = 12
NAMES = ("claude-code", "codex", "opencode")


def stop(running: subprocess.Popen[str], number: int) -> None:
    running.send_signal(number)
    out, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 128 + number, out


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param("claude-code", signal.SIGINT),
        pytest.param("codex", signal.SIGTERM, marks=EXTENDED),
        pytest.param("opencode", signal.SIGHUP, marks=SOAK),
        *(pytest.param(name, each, marks=SOAK) for name in NAMES for each in SIGNALS),
    ],
)
def test_what_a_cancelled_agent_did_is_on_record(name: str, number: int, shell: Shell, model):
    made = shell.project / "made"
    model.answer_next(WAYS[name].command(f"echo x > {made}; sleep 60"))
    running = shell.start("tell", ADDRESS, "Do it.")
    wait_until(made.exists, "the command's file")
    stop(running, number)
    effects = shell.one("show", "spec-42", "--effects")["effects"]
    assert [str(made) in each["title"] for each in effects] == [True], effects
    told = shell.tell("And now?", exit_code=None)
    assert (told["decision"], told["reasons"][0]) == ("resume", "interrupted")
    sent = json.dumps(model.model_requests[-1].body)
    assert "do not repeat them" in sent


@SOAK
@pytest.mark.parametrize("name", NAMES)
def test_the_session_after_an_early_stop_has_role_and_prompt(
    name: str, shell: Shell, model: RehearsalModel
) -> None:
    chance = random.Random(name)
    ended: list[str] = []
    for turn in range(EARLY_STOPS):
        address = f"spec-{turn}/planner"
        running = shell.start("tell", address, f"Remember KIWI-{turn}.")
        number = chance.choice((*SIGNALS, signal.SIGKILL))
        before = len(model.model_requests)
        until_s = time.monotonic() + chance.uniform(0.3, 8.0)
        while time.monotonic() < until_s and len(model.model_requests) == before:
            time.sleep(0.01)
        running.send_signal(number)
        running.communicate(timeout=PATIENCE_S)
        told = shell.tell("What was it?", address=address)
        sent = json.dumps(model.model_requests[-1].body)
        case = f"{turn} {number.name}: {told['decision']} {told['reasons']}"
        ended.append(case)
        print(case, flush=True)  # noqa: T201
        assert ROLE in sent, ended
        is_recorded = told["turn_number"] > 1
        assert (f"KIWI-{turn}" in sent) is is_recorded, ended
