"""The demo's first twenty seconds: one kill, one resume, one sentence, and what to type next."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys

from upthread.core.decision.words import RESUME, done_in_words

SECONDS_MAX = 20.0
"""Of processor time, which the neighbours do not change; most of it is waiting."""


def cpu_s() -> float:
    """What all children that have ended took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shown(home, *words: str):
    before_s = cpu_s()
    done = subprocess.run(
        [sys.executable, "-m", "upthread", "demo", *words],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, cpu_s() - before_s


def test_a_role_is_killed_and_goes_on_in_its_session_within_twenty_seconds(tmp_path):
    out, seconds = shown(tmp_path)
    assert seconds < SECONDS_MAX
    assert out.count("kill -9") == 1
    assert re.search(done_in_words(RESUME, r"ses_\w+"), out)
    assert "the turn was cut off; it goes on from there" in out
    assert "went on in the session it had" in out
    assert len(out.splitlines()) <= 25
    for command in ("upthread", "upthread setup claude", "upthread demo --full"):
        assert any(line.endswith(f" {command}") for line in out.splitlines()[-3:])


def test_nothing_is_left_of_it(tmp_path):
    shown(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_for_programs_it_says_the_session_and_what_was_told(tmp_path):
    out, _ = shown(tmp_path, "--json")
    told = json.loads(out)
    assert told["session"].startswith("ses_")
    assert done_in_words(RESUME, told["session"]) in told["line"]
    assert any("kill -9" in line for line in told["told"])
