"""The demo shows what it says: real processes, a real kill, figures that were counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.support.sets import EXTENDED

pytestmark = [EXTENDED, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "upthread",
            "demo",
            "--full",
            "--json",
            "--keep",
            str(home / "kept"),
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), home / "kept"


def test_the_pipeline_ends_approved_after_a_question_two_rejections_and_a_kill(shown):
    told = shown[0]["told"]
    ours = told[: told.index("\n── Without continuity: the same prompts, every session new ──")]
    assert shown[0]["with"]["status"] == "approved"
    assert any("you answer:" in line for line in ours)
    assert sum("verdict: rejected" in line for line in ours) == 2
    assert sum("killed with SIGKILL in the middle of the turn" in line for line in ours) == 1
    assert any("the turn did not come to its end; it goes on from there" in line for line in ours)


def test_every_step_is_a_process_of_its_own(shown):
    told = shown[0]["told"]
    pids = [line.split()[1] for line in told if line.startswith("pid ")]
    assert len(pids) == len(set(pids)) > 10


def test_without_continuity_more_is_asked_read_and_done_again(shown):
    ours, theirs = shown[0]["with"], shown[0]["without"]
    assert ours["questions_again"] == 0 < theirs["questions_again"]
    assert ours["reads_again"] < theirs["reads_again"]
    assert ours["tool_calls_again"] < theirs["tool_calls_again"]
    assert ours["bytes_sent"] < theirs["bytes_sent"]


def test_from_a_briefing_nothing_is_asked_again_and_more_is_read_than_by_a_resumed_session(shown):
    resumed, briefed, none = (shown[0][name] for name in ("with", "briefed", "without"))
    assert briefed["status"] == "approved"
    assert briefed["questions_again"] == 0
    assert resumed["reads_again"] < briefed["reads_again"] < none["reads_again"]
    assert resumed["sessions"] < briefed["sessions"] < none["sessions"]
    assert resumed["bytes_sent"] < briefed["bytes_sent"]


def test_the_figures_are_those_of_the_agents_own_log(shown):
    log = (shown[1] / "with" / "received.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in log]
    sent = sum(event["bytes"] for event in events if event["event"] == "prompt")
    assert shown[0]["with"]["bytes_sent"] == sent
    prompts = [event for event in events if event["event"] == "prompt"]
    assert shown[0]["with"]["prompts"] == len(prompts)
